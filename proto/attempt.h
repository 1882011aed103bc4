// SPDX-License-Identifier: Apache-2.0
// An attempt as it crosses the wire: what the agent is to run (spec) and what it says about it
// (status). Plain data with JSON codecs; the same JSON is the agent's durable claim and the
// master's task record.
#pragma once

#include "common/id.h"
#include "proto/job_spec.h"

#define ATTEMPT_ID_BYTES                                                                           \
    24                    // "a" + 20 base32 + NUL: unique for ever, in container names and folders
#define INSTANCE_BYTES 18 // "i" + 16 base32 + NUL: one per agent process start

// A file of the attempt that is never in its claim, its environment or any view.
struct attempt_secret {
    char *name;
    char *path;  // in the container; NULL = /run/secrets/NAME
    char *value; // NULL: it does not exist (any more)
    size_t len;
};

struct attempt_spec {
    char id[ATTEMPT_ID_BYTES];
    char issued_to[INSTANCE_BYTES]; // the only agent instance that may start it
    char *job;                      // job id
    char *job_name;
    char *user;
    int64_t uid, gid; // the user's on the nodes; -1 = not mapped. Once the node's policy was
                      // applied: what it runs as
    char *component;
    int index;
    int attempt;                // number, from 1, only grows within the task
    char *image;                // NULL with the process runtime
    char **command;             // argv, NULL = the image's own
    struct resources resources; // granted; 0 = no limit
    int *gpus;                  // indexes on the node
    size_t n_gpus;
    uint16_t *ports;
    size_t n_ports;
    struct job_env *env; // complete but for what only the node knows (see AGENT.md)
    size_t n_env;
    struct job_mount *mounts; // source NULL = shared data
    size_t n_mounts;
    struct attempt_secret *secrets;
    size_t n_secrets;
    enum network_mode network;
    int stop_signal;
    int64_t grace_ms;
    int64_t timeout_ms;        // 0 = none
    int64_t lease_ms;          // 0 = none: how long it may run without an answer from the master
    int64_t log_limit;         // bytes kept per stream on the node
    struct job_health *health; // NULL = none
};

void attempt_spec_free(struct attempt_spec *s); // frees the struct too
// Without the values of secrets. NULL = out of memory.
json_t *attempt_spec_to_json(const struct attempt_spec *s);
// With them: for the assignment of the node that is to run it, and nothing else.
json_t *attempt_spec_to_assignment(const struct attempt_spec *s);
int attempt_spec_from_json(const json_t *j, struct attempt_spec **ret,
                           struct err *e) WARN_UNUSED; // -EPROTO

enum attempt_state {
    ATTEMPT_ASSIGNED, // known to the agent, nothing done yet
    ATTEMPT_STARTING, // image, create, start; `reason` names the phase
    ATTEMPT_RUNNING,
    ATTEMPT_STOPPING, // told to end
    ATTEMPT_ENDED,    // no process of it lives; `cause` and exit fields are final
    ATTEMPT_STATE_MAX,
};

enum attempt_cause {
    CAUSE_NONE,
    CAUSE_EXIT,    // ended by itself: exit_code (128+N and signal when killed by N)
    CAUSE_STOPPED, // ended after the master asked for it (or never started and was asked to stop)
    CAUSE_TIMEOUT, // ended by its own time limit
    CAUSE_OOM,     // killed by the kernel for memory, as the engine or cgroup says
    CAUSE_START_FAILED,  // the command can't be run (not found, not executable, bad mount...): the
                         // job's fault
    CAUSE_IMAGE,         // image missing and not to be pulled: the job's fault
    CAUSE_ENGINE,        // engine or node trouble before it ran: infrastructure
    CAUSE_NEVER_STARTED, // issued to an earlier agent instance that did not start it:
                         // infrastructure
    CAUSE_FENCED,        // the lease was over and it could not be frozen: killed. Infrastructure
    CAUSE_NODE_LOST, // its node was silent beyond on_node_lost.after (the master says so), or the
                     // machine was restarted (the agent says so): infrastructure
    CAUSE_UNKNOWN,   // gone, and nobody saw how
    CAUSE_POLICY,    // the node's own policy forbids it: another node may allow it
    CAUSE_MOVED, // stopped so that it starts elsewhere (drain, removal of its node), said by the
                 // master alone
    CAUSE_UNHEALTHY, // ended because its health check failed: as if it had failed by itself
    CAUSE_MAX,
};
// The words on the wire; "invalid" and -EINVAL for others.
const char *attempt_state_to_string(enum attempt_state s);
int attempt_state_from_string(const char *text, enum attempt_state *ret) WARN_UNUSED;
const char *attempt_cause_to_string(enum attempt_cause c);
int attempt_cause_from_string(const char *text, enum attempt_cause *ret) WARN_UNUSED;

enum logs_state { LOGS_OPEN, LOGS_COMPLETE, LOGS_INCOMPLETE, LOGS_MAX };
const char *logs_state_to_string(enum logs_state s);
int logs_state_from_string(const char *text, enum logs_state *ret) WARN_UNUSED;

struct attempt_status {
    char id[ATTEMPT_ID_BYTES];
    int64_t change; // number of this change within the agent instance; only grows
    enum attempt_state state;
    enum attempt_cause cause;
    int exit_code; // valid when has_exit
    bool has_exit;
    int signal; // 0 = none
    bool oom;
    bool pull;        // cause ENGINE: its image could not be had now; the node may be well
    char reason[256]; // for people: phase, or why
    char container_id[72];
    int64_t pid;        // process runtime: meadow-init's pid; 0 unknown
    int64_t started_ms; // real time; 0 = not yet
    int64_t ended_ms;
    enum logs_state logs;
    enum health_word health;
    char job[JOB_ID_BYTES]; // in inventories, as far as the agent knows; "" elsewhere
};
// Only what is set; NULL = out of memory. Reading: -EPROTO.
json_t *attempt_status_to_json(const struct attempt_status *s);
int attempt_status_from_json(const json_t *j, struct attempt_status *ret,
                             struct err *e) WARN_UNUSED;

// What an attempt takes of its node, as the agent's claim of it says; beside the status in
// inventories, where it tells a master that does not know the job.
#define ATTEMPT_MAX_PORTS 16
struct attempt_holds {
    bool known; // else the rest is 0
    struct resources resources;
    uint64_t gpus; // bit set
    uint16_t ports[ATTEMPT_MAX_PORTS];
    size_t n_ports;
};
void attempt_holds_of(const struct attempt_spec *s, struct attempt_holds *ret); // NULL: not known
// Into, and out of, the object of a status. What is not there, or can't be, is not known.
void attempt_holds_put(json_t *status, const struct attempt_holds *h);
void attempt_holds_read(const json_t *status, struct attempt_holds *ret);
