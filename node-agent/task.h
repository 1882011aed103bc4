// SPDX-License-Identifier: Apache-2.0
// The attempts this agent holds: one record each, with its status as reported to the master and the
// number of its last change. Everybody reads the records; only tasks_* change a status, so that no
// change goes unreported.
#pragma once

#include "proto/sync.h"
#include <uthash.h>

enum task_member {
    TASK_UNDECIDED, // the master has not spoken of it since this instance started
    TASK_ASSIGNED,
    TASK_DROPPED, // to be forgotten
};

struct task { // plain record; owned by the table
    UT_hash_handle hh;
    struct task *prev, *next;  // queue of starts (executor)
    struct attempt_spec *spec; // NULL while only the runtime knows of it
    struct attempt_status status;
    enum task_member member;
    enum desired_state desired;
    bool known; // false: a claim from before this instance of which the runtime has not spoken yet
    bool claimed;     // the claim file is there
    bool queued;      // waits for a free slot
    bool has_slot;    // counts as a start under way
    bool start_asked; // by this instance
    bool stop_asked;
    bool remove_asked;
    bool logs_opened;
    unsigned pins;            // workers that use the record; it is not freed before 0
    bool dirty;               // to be looked at in this loop turn
    bool lease_denied;        // the last answer did not renew it: given away, or not spoken of yet
    int64_t lease_written_ms; // deadline in the lease file, CLOCK_BOOTTIME
};

struct tasks;

// `woken` (may be NULL) is called when a record needs a look or a change waits to be sent.
int tasks_new(void (*woken)(void *userdata), void *userdata, struct tasks **ret) WARN_UNUSED;
void tasks_free(struct tasks *t); // NULL allowed

// NULL = unknown. Borrowed until it is removed.
struct task *tasks_find(const struct tasks *t, const char *id);
// A new record in state ASSIGNED; takes `spec` (may be NULL) also on failure. NULL = out of memory.
struct task *tasks_add(struct tasks *t, const char *id, struct attempt_spec *spec);
// Frees the record.
void tasks_remove(struct tasks *t, struct task *task);
struct task *tasks_first(const struct tasks *t); // then task->hh.next
size_t tasks_count(const struct tasks *t);

// Asks for a look at the record in this loop turn.
void tasks_touch(struct tasks *t, struct task *task);
// Notes that the status was changed in place: gives it the next change number.
void tasks_changed(struct tasks *t, struct task *task);
// State and reason in one; nothing happens when both are as they were. ENDED is never left.
void tasks_set_state(struct tasks *t, struct task *task, enum attempt_state state,
                     const char *reason);
// The end without a run: cause and reason, logs as they are.
void tasks_end(struct tasks *t, struct task *task, enum attempt_cause cause, const char *reason);

// Number of the last change; of the last one that the master has made durable.
int64_t tasks_last_change(const struct tasks *t);
int64_t tasks_activity(const struct tasks *t); // changes and removals so far
int64_t tasks_acked(const struct tasks *t);
void tasks_ack(struct tasks *t, int64_t change); // never goes back
// Statuses to send: all known ones, or those changed after the acknowledged number. *ret is
// malloc'd, NULL when none.
int tasks_collect(const struct tasks *t, bool all, struct attempt_status **ret,
                  size_t *ret_n) WARN_UNUSED;
uint64_t tasks_digest(const struct tasks *t); // of all known ones
