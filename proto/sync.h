// SPDX-License-Identifier: Apache-2.0
// The messages between agent and master; proto/AGENT.md tells the protocol. Plain data with JSON
// codecs.
#pragma once

#include "proto/attempt.h"

struct sync_position { // where a side stands in the assignment: meaningless across epochs
    int64_t epoch;
    int64_t generation;
};

struct sync_request { // body of /v1/agent/sync and /v1/agent/report
    int protocol;
    char agent_version[32];
    char instance[INSTANCE_BYTES];
    char boot_id[40];
    int64_t seq;        // one per message of this instance
    int64_t seen_epoch; // highest (epoch, commit) ever seen from the master
    int64_t seen_commit;
    struct sync_position applied;
    char digest[17];         // inventory_digest of all attempts the agent holds
    bool has_inventory;      // then `statuses` is everything it holds, else only changes not yet
                             // acknowledged
    bool inventory_complete; // the runtime has been listed since this instance started
    struct attempt_status *statuses;
    struct attempt_holds *holds; // of each of them, with an inventory; NULL = not known (owned)
    size_t n_statuses;
    json_t *node; // hardware and engine, when it changed or was asked for; NULL = as before (owned)
    json_t *images;   // names of container images, array; NULL = as before (owned)
    json_t *usage;    // with syncs, at most once a second; NULL = as before (owned)
    int64_t clock_ms; // the node's wall clock when it sent this
    // Instances of this node's state so far, the newest last: those that were answered, and those
    // that may have been. Sent until an instance is answered; none = not told.
    char (*history)[INSTANCE_BYTES]; // owned
    size_t n_history;
};
void sync_request_reset(struct sync_request *r); // frees what it owns, not the struct
// NULL = out of memory. Reading: *ret is the caller's, sync_request_reset.
json_t *sync_request_to_json(const struct sync_request *r);
int sync_request_from_json(const json_t *j, struct sync_request *ret,
                           struct err *e) WARN_UNUSED; // -EPROTO

enum desired_state { DESIRED_RUN, DESIRED_STOP, DESIRED_MAX };
struct assignment_entry {
    struct attempt_spec *spec; // owned
    enum desired_state desired;
};
// Whose lease an answer renews: what the master knows to be given to others is never let run on.
enum lease_scope {
    LEASES_ALL,
    LEASES_EXCEPT, // all that the agent holds but the listed
    LEASES_ONLY,   // the listed alone: the agent holds what this master has not spoken of yet
};
struct sync_answer {
    int protocol;
    int64_t epoch;
    int64_t commit;      // highest durable commit
    int64_t acked;       // changes of this instance up to this number are durable
    bool want_inventory; // send everything with the next message
    bool want_node;      // send `node` with the next message
    bool has_assignment;
    bool assignment_full; // entries are the whole set; else a delta on `base`
    struct sync_position base;
    struct sync_position position;    // after applying
    struct assignment_entry *entries; // new or changed
    size_t n_entries;
    char (*removed)[ATTEMPT_ID_BYTES]; // forget these: their end is durable
    size_t n_removed;
    int64_t sync_interval_ms;
    int64_t time_ms; // the master's wall clock
    enum lease_scope lease_scope;
    char (*leases)[ATTEMPT_ID_BYTES];
    size_t n_leases;
    int64_t lease_at_least_ms; // a master that stops as planned grants this; 0 = each its own
    char ca_sha256[65];        // of the bundle that clients should trust; "" = not told
    char refused[256]; // not empty: no work for this instance, and why (the answer has nothing else
                       // of use)
};
void sync_answer_reset(struct sync_answer *a);
json_t *sync_answer_to_json(const struct sync_answer *a);
int sync_answer_from_json(const json_t *j, struct sync_answer *ret, struct err *e) WARN_UNUSED;

// Order-free digest of (id, state) pairs: the sum modulo 2^64 of FNV-1a 64 over "<id> <state>". Add
// and subtract as attempts come, change and go.
uint64_t inventory_hash(const char *attempt_id, enum attempt_state state);
void inventory_digest(uint64_t sum, char out[17]); // 16 hex digits
