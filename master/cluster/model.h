// SPDX-License-Identifier: Apache-2.0
// The cluster's records as the master holds them. Plain data, read by handlers and views; only
// files in master/cluster/ change it, and every change goes through cluster.h so that it becomes
// durable.
#pragma once

#include "common/backoff.h"
#include "common/id.h"
#include "master/scheduler/images.h"
#include "master/scheduler/queue.h"
#include "proto/attempt.h"
#include "proto/job_spec.h"
#include "proto/sync.h"
#include <uthash.h>

struct cluster;
struct node;
struct job;
struct http_request;

#define NAME_BYTES 64
#define REASON_BYTES 256
#define NODE_MAX_GPUS 64
#define TASK_MAX_PORTS ATTEMPT_MAX_PORTS
#define TASK_PREVIOUS_MAX 16
#define TASK_REFUSED_MAX 8

enum task_state {
    TASK_PENDING,
    TASK_ASSIGNED,
    TASK_STARTING,
    TASK_RUNNING,
    TASK_STOPPING, // live, in this order
    TASK_SUCCEEDED,
    TASK_FAILED,
    TASK_STOPPED,
    TASK_LOST,
    TASK_UNKNOWN, // over
    TASK_STATE_MAX,
};
enum job_state {
    JOB_PENDING,
    JOB_RUNNING,
    JOB_RESIZING,
    JOB_STOPPING, // live
    JOB_SUCCEEDED,
    JOB_FAILED,
    JOB_STOPPED, // over
    JOB_STATE_MAX,
};
enum node_state {
    NODE_PENDING,
    NODE_READY,
    NODE_NOT_READY,
    NODE_UNREACHABLE,
    NODE_LOST,
    NODE_LEFT,
    NODE_STATE_MAX
};

// The words of API and records. -EINVAL for others.
const char *task_state_to_string(enum task_state s);
int task_state_from_string(const char *text, enum task_state *ret) WARN_UNUSED;
const char *job_state_to_string(enum job_state s);
int job_state_from_string(const char *text, enum job_state *ret) WARN_UNUSED;
const char *node_state_to_string(enum node_state s);
int node_state_from_string(const char *text, enum node_state *ret) WARN_UNUSED;

// A task and its latest attempt.
struct task {
    struct job *job;
    int component; // index into job->spec->components
    int index;
    enum task_state state;
    const char *reason;                // for people; "" = nothing to say (reason_set)
    int attempt;                       // number of the latest attempt; 0 = none yet
    int attempts_lost;                 // numbers that the next one leaves out: see rollback.c
    char attempt_id[ATTEMPT_ID_BYTES]; // "" = none yet
    char issued_to[INSTANCE_BYTES];
    struct node *node; // weak; where the latest attempt is or was; NULL = none, or node removed
    char node_name[NAME_BYTES]; // kept for display when the node is gone
    struct resources granted;
    uint64_t gpus; // bit set
    uint16_t ports[TASK_MAX_PORTS];
    int n_ports;
    bool holds_node; // its resources are subtracted from the node
    int64_t change;  // last status number applied, of instance issued_to's successor `change_of`
    char change_of[INSTANCE_BYTES];
    struct attempt_status *status; // latest from the agent; NULL = no attempt yet
    int starts;                    // counted starts (restart.max_attempts)
    int ends;                      // of the program itself, in a row (restart_row), for backoff
    int infra_failures;            // attempts lost to infrastructure in a row, for backoff
    uint32_t refused[TASK_REFUSED_MAX]; // nodes whose policy forbids it (hashes of ids); begins
                                        // anew with the master
    int n_refused, refusals;
    int64_t not_before_boot_ms; // backoff: not placed earlier (CLOCK_BOOTTIME); 0 = now
    int64_t assigned_ms;        // real time
    bool logs_late;             // ended, shown as such only when logs are in or 10 s have passed
    int64_t logs_deadline_boot_ms;
    enum task_state final_state; // state to show once logs_late is over
    // Earlier attempts, newest first, for their logs; room for TASK_PREVIOUS_MAX, NULL = none.
    char (*previous)[ATTEMPT_ID_BYTES];
    int n_previous;
    bool dirty; // to be written with the next batch
    struct task *dirty_next;
    struct assignment *entry; // weak; what the node is told about it; NULL = nothing
    int64_t stop_by_ms;       // told to stop: its grace is over then (real time); not stored
    bool moving;              // told to stop by the master, to start elsewhere
    bool former;              // given to a machine whose place another one took (former.c)
    size_t wait_at;           // its place in the cluster's `waits`, and 1; 0 = none
    bool in_backoff;
    int64_t lease_ms; // of the latest attempt: how long it may run unheard of (on_node_lost.after)
};

// By which clock a job's limits are counted (job_limits.c).
enum limit_clock {
    LIMIT_BOOT, // CLOCK_BOOTTIME: what is counted from its submission
    LIMIT_WALL, // a time of day
    LIMIT_CLOCKS,
};

// One condition of a job's `after`; at the same place as in its spec.
struct dependency {
    struct job *job; // whose it is
    struct job *on;  // weak; NULL when it is decided
    char id[JOB_ID_BYTES];
    bool met;
    struct dependency *prev, *next; // of on->dependents
};

struct job {
    char id[JOB_ID_BYTES];
    char *name;
    char *user;
    struct job_spec *spec;
    enum job_state state;
    enum job_state final; // while STOPPING: what it will be
    const char *reason;   // as a task's
    int64_t order;        // submission number; only grows
    int64_t submitted_ms, started_ms, ended_ms;
    int64_t
        submitted_boot_ms; // the submission on CLOCK_BOOTTIME: what it bounds is counted from here
    struct task *tasks;    // all, component after component
    int n_tasks;
    int *first;                    // per component: index of its first task
    int (*counts)[TASK_STATE_MAX]; // per component: tasks in each state
    int totals[TASK_STATE_MAX];
    struct plan_entry entry; // in the scheduler's queue
    struct {
        int64_t ms; // when it is looked at next for its deadline or wait_limit
        size_t at;  // its place in the heap of these, and 1; 0 = none
    } limits[LIMIT_CLOCKS];
    struct elements *elements; // of an array, which has no tasks itself; else NULL
    struct job *array;         // of an element; weak; else NULL
    int number;                // of an element, in its array
    int attempts_lost;         // of an array: as a task's, for elements that are not made yet
    bool preview;              // an element that is only looked at
    struct dependency *after;  // spec->n_after
    int unmet;                 // of them: its tasks get no place until it is 0
    struct dependency *dependents;
    bool ended_listed; // over, and who depends on it was not told yet
    struct job *ended_next;
    struct job_rules *rules;  // about where its tasks are (scheduler_rules.h); NULL = none
    struct keeper *keeps_off; // whom its tasks keep off, while that is noted (scheduler_keepers.h)
    char *avoid;     // nodes that failed it, newest first, as plan_demand.avoid; not stored
    bool held;       // its waiting tasks get no place until it is released
    int n_held;      // tasks that hold a node
    bool plan_stale; // to be queued anew
    bool preempting; // being stopped for another job; waits again when nothing of it is left
    struct job *preempt_prev, *preempt_next; // in the scheduler's list, while it is preemptible
    struct job *stale_prev, *stale_next;
    bool dirty, deleted;
    struct job *dirty_next;
    struct job *prev, *next;           // all jobs but elements, oldest first
    bool queued;                       // has waiting tasks
    struct job *name_prev, *name_next; // jobs of the same name, newest first
    struct job *live_prev, *live_next; // those of them that are not over
    bool listed_live;
    struct job *history_prev, *history_next; // jobs that are over, by their end
    bool in_history;
    int history_size;  // it and its made elements, then
    bool logs_gone;    // to make room for newer ones
    int logs_at;       // tasks before it have none any more: they go in steps (drop.c)
    bool deleting;     // it is to go, with its logs and elements (drop.c)
    UT_hash_handle hh; // by id
};

// One attempt in a node's assignment.
struct assignment {
    char id[ATTEMPT_ID_BYTES];
    struct task *task; // weak; NULL: a tombstone, or an attempt that its task has left behind
    enum desired_state desired;
    char orphan_of[JOB_ID_BYTES]; // its job, which nobody knows here (orphan.c); "" = none
    int64_t orphan_until_boot_ms; // then it is stopped
    struct attempt_holds *holds;  // what an orphan takes of the node; NULL = nothing, or no orphan
    bool given_away; // its task goes on elsewhere: no lease any more; until it is known to be over
    bool removed;    // tombstone: dropped when the agent has applied `generation`
    int64_t generation;         // when it last changed
    int64_t keep_until_boot_ms; // ended without all logs: kept until then
    bool reported;              // the agent has it in its inventory
    enum attempt_state reported_state;
    UT_hash_handle hh;
};

#define MACHINE_ID_BYTES 64

// Who the node is, beyond its key. Stored, but for what is marked.
struct node_identity {
    char machine_id[MACHINE_ID_BYTES]; // /etc/machine-id at the join; "" = unknown
    char cert[65]; // SHA-256 of the certificate it uses; "" = any of its key (older records)
    int64_t cert_until_ms;
    char next[65]; // issued, not used yet: takes the place of `cert` at its first use; "" = none
    int64_t next_until_ms;
    int64_t cert_since_ms;              // when `cert` was issued to it
    char last_instance[INSTANCE_BYTES]; // the agent instance that had the identity last
    int64_t instance_since_ms;
    int64_t replace_until_ms; // until then another machine may take the name (node replace); 0 = no
    char replace_by[NAME_BYTES];
    bool removing; // its certificate is revoked as soon as its work is over
    int64_t removed_ms;
    char removed_by[NAME_BYTES];
    int64_t renew_until_boot_ms;     // not stored: its leases are renewed so long for their grace
    int64_t remove_deadline_boot_ms; // not stored: then the record goes without an answer of it
    bool skew_known;                 // not stored
    int64_t skew_ms;                 // not stored: its wall clock minus ours, at its last message
};

// What an operator said when the node was drained (node_drain.c).
struct node_drain {
    char reason[REASON_BYTES]; // "" = none given
    char by[NAME_BYTES];
    int64_t since_ms;
    int64_t deadline_boot_ms; // CLOCK_BOOTTIME: what is left then is stopped; 0 = it may finish
    int64_t deadline_ms;      // the same on the wall clock, as it was when the order was given
    bool over; // the deadline is over. Not stored: after a restart what is left is stopped again
    bool empty_told; // not stored: the event that nothing runs there any more
};

// Starts that failed there in a row (node_aside.c). Stored while the node is set aside.
enum aside_phase {
    ASIDE_NO,
    ASIDE_PAUSE,  // gets no work until the pause is over
    ASIDE_PROBE,  // gets one job's tasks
    ASIDE_TRYING, // has them, and nothing else
};
struct node_aside {
    enum aside_phase phase;
    int failures;
    char job[JOB_ID_BYTES]; // the first that failed in this row
    bool jobs_differ;       // others did, too
    struct backoff pause;
    int64_t until_boot_ms;
    char reason[REASON_BYTES];
};

// A node that was removed: kept as long as a certificate of its could still be valid, so that its
// agent is told what happened.
struct gone_node {
    char id[ID_BYTES];
    char name[NAME_BYTES];
    char user[NAME_BYTES]; // who removed it
    int64_t removed_ms, until_ms;
    UT_hash_handle hh;
};

struct node {
    char id[ID_BYTES]; // 'n' + 12
    char name[NAME_BYTES];
    char key_fingerprint[65];
    struct node_identity identity;
    enum node_state state;
    char reason[REASON_BYTES];
    bool approved, draining;
    struct node_drain drain; // while draining
    struct node_aside aside;
    json_t *labels; // object
    json_t *info;   // `node` of its last report (hardware, engine, resources, ports), or NULL
    json_t *usage;
    struct plan_holder *holder; // images, as it told last; NULL = it told none. Not stored
    struct resources total, reserved;
    uint64_t gpus_taken;
    int n_gpus;
    bool engine_ready; // as its last report says
    bool info_told;    // since this master started; what was loaded may be out of date
    char engine_reason[REASON_BYTES];
    int disk_percent; // used, as its last report says
    bool disk_full;   // gets no new work
    char disk_reason[REASON_BYTES];
    bool connected; // no sign that the connection of this instance ended
    uint16_t port_first, port_count, port_cursor;
    uint64_t *ports_taken; // (port_count + 63) / 64 words
    int exclusive;         // of `tasks`, those that want the node for their job alone
    int tasks;             // attempts that hold resources
    int given_away;        // entries of that kind
    int orphans;           // likewise
    int orphans_unknown;   // of them, those of which is not known what they take
    json_t *orphan_times;  // as loaded, until the node has told what it holds (orphan.c); or NULL
    bool off;              // an operator's word that the machine is off; until it is heard again
    int64_t granted_until_boot_ms; // an earlier master let it run until then; 0 = it answered us
    int64_t former_seen_boot_ms, former_granted_boot_ms; // of the machine that it was before
    bool has_former;                                     // tasks of that machine
    int64_t sync_cap_ms; // a longer sync interval would break what it runs; 0 = none
    bool docker;         // runtime
    uint32_t plan_slot;  // its place among the scheduler's nodes
    bool plan_stale;     // what the scheduler keeps of it is out of date
    int64_t joined_ms;
    // live only (not stored)
    char instance[INSTANCE_BYTES]; // "" = none since this master started
    int64_t seen_boot_ms;          // last message received; 0 = none since this master started
    int64_t answered_boot_ms;      // its last sync was answered
    int64_t last_seq;
    int64_t info_seq;     // of the message that `info` came with
    int64_t images_seq;   // of the message that its images came with
    int64_t acked;        // changes of this instance up to here are durable
    bool echo_due;        // loaded, and what it has seen of the store was not looked at yet
    bool wants_inventory; // ask with the next answer
    bool inventory_seen;  // of this instance
    unsigned strangers;   // living attempts in its last inventory that are not assigned to it
    int64_t applied_generation;
    int64_t generation, published_generation;
    struct assignment *assignments; // by attempt id
    uint64_t reported_sum;          // of reported attempts, as inventory_hash
    struct http_request *held;      // its sync, not answered yet; NULL = none
    struct held *held_by;           // the wait of that sync (api/agents.c)
    bool changed;                   // in the list of nodes to publish
    struct node *changed_next;
    bool dirty;
    struct node *dirty_next;
    bool gone; // removed: in no map any more; the shell stays for who still refers to it
    struct node *gone_next;
    UT_hash_handle hh;      // by id
    UT_hash_handle hh_name; // by name
    UT_hash_handle hh_key;  // by key_fingerprint, when it has one
};

// One allocation: the texts stand behind the struct. "" = none.
struct event {
    int64_t id;
    int64_t time_ms;
    const char *type;   // "job.submitted", "task.running", "node.ready"...
    const char *object; // "job", "task", "node", "cluster"
    const char *node;   // name
    const char *job;    // id
    const char *task;   // JOBID/COMPONENT/INDEX
    const char *reason;
    const char *user;
};
