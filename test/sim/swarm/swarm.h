// SPDX-License-Identifier: Apache-2.0
// Thousands of agents in one process: what the files of test/sim/swarm share. Each agent keeps to
// proto/AGENT.md as node-agent/ does; what differs is said in main.c.
#pragma once

#include "common/backoff.h"
#include "proto/sync.h"
#include "test/sim/swarm/conn.h"

#include <stdio.h>
#include <uthash.h>

struct swarm_options {
    const char *host;
    const char *token;              // join token, good for all of them
    int64_t nodes;                  // all numbers are int64_t: main.c sets them by a table
    int64_t cpu_milli, memory, gpu; // of each node
    int64_t least_ms, most_ms;      // a task lasts so long when its command doesn't say
    int64_t start_ms;               // from the assignment to the task's start, at most
    int64_t reports;                // connections for reports in all
    int64_t seed;
    const char *prefix;  // of the nodes' names
    const char *history; // file
};

struct swarm_stats { // since the start
    uint64_t connects, failures, syncs, answers, reports, refused, starts, ends;
    size_t joined, online, running; // now
};

struct swarm {
    struct swarm_options o;
    uv_loop_t *loop;
    SSL_CTX *tls;
    struct sockaddr_in master;
    struct agent *agents;
    int64_t n_reports;         // connections for reports that are open
    struct agent *report_wait; // agents that wait for one
    int shaking;               // handshakes under way
    struct agent *shake_wait;  // agents that wait until there are fewer
    FILE *history;
    uint64_t random;
    struct swarm_stats stats;
    char boot_id[40];
};

// One attempt on a node.
struct attempt {
    char id[ATTEMPT_ID_BYTES];
    struct attempt_spec *spec;
    struct attempt_status status; // as told to the master
    enum desired_state desired;
    bool frozen; // its lease is over
    bool denied; // the last answer did not renew it
    bool dropped;
    int64_t due_ms;      // CLOCK_BOOTTIME: its next step; 0 = none
    int exit_code;       // that it will have
    int64_t left_ms;     // of its run, while frozen
    int64_t deadline_ms; // of its lease; 0 = it has none
    UT_hash_handle hh;
};

enum message_kind { MESSAGE_SYNC, MESSAGE_REPORT };

struct message { // under way
    struct conn *conn;
    bool outstanding;
    bool inventory, node; // parts that it carried
    int64_t sent_boot_ms;
};

struct agent {
    struct swarm *swarm;
    int64_t number;
    char name[64], instance[INSTANCE_BYTES];
    X509 *cert;
    EVP_PKEY *key;
    struct message sync, report;
    uv_timer_t timer;
    struct backoff backoff;
    int64_t retry_ms; // CLOCK_BOOTTIME: connect again; 0 = connected
    int64_t due_ms;   // what the timer is armed for
    bool online, want_inventory, want_node, answered;
    bool waits_report, waits_shake;
    struct agent *wait_prev, *wait_next;   // of report_wait
    struct agent *shake_prev, *shake_next; // of shake_wait
    int64_t seq, seen_epoch, seen_commit, interval_ms;
    struct sync_position applied;
    int64_t change, carried, acked; // numbers of status changes: the last, sent, durable
    int64_t lease_zero_ms, lease_least_ms;
    uint64_t sum; // inventory_hash of all attempts
    struct attempt *attempts;
};

// agent.c
int agent_begin(struct agent *a, struct err *e) WARN_UNUSED; // it has its certificate
void agent_flush(struct agent *a);                           // sends what is due
void agent_arm(struct agent *a);                             // its timer, for what comes next
void agent_retry(struct agent *a); // its connections are over: it comes back after a while

// attempt.c: the attempts of one agent; each change of a status gets a number.
int attempts_apply(struct agent *a, struct sync_answer *answer) WARN_UNUSED;
void attempts_lease(struct agent *a, const struct sync_answer *answer, int64_t sent_boot_ms);
int64_t attempts_step(struct agent *a, int64_t now); // does what is due; when the next is, or 0
int attempts_collect(const struct agent *a, bool all, struct attempt_status **ret,
                     size_t *ret_n) WARN_UNUSED;

// join.c: all agents join, several at a time; each begins as soon as it has its certificate.
int join_all(struct swarm *s, struct err *e) WARN_UNUSED;

uint64_t swarm_random(struct swarm *s);
