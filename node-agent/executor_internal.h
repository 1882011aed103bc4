// SPDX-License-Identifier: Apache-2.0
// Shared by the executor's files only.
#pragma once

#include "node-agent/executor.h"

struct executor {
    struct executor_options options;
    struct runtime *runtime; // weak
    enum engine_state engine;
    char engine_reason[256];
    json_t *engine_info;
    json_t *images; // NULL = not told yet
    bool listed;
    unsigned starting;
    struct task *queue;    // ASSIGNED, wait for a slot; in order
    struct task *removals; // forgotten, wait for the removal of their files
    unsigned n_removals;
    unsigned removing;         // of those, under way
    int64_t lease_zero_ms;     // CLOCK_BOOTTIME when the last answered sync was sent; 0 = none yet
    int64_t lease_at_least_ms; // granted with that answer
    unsigned works;            // in the thread pool
    bool closing;
    void (*closed)(void *userdata);
    void *closed_userdata;
};

// executor_work.c: claims and removals, in the thread pool since they wait for the disk.
void executor_claim(struct executor *x, struct task *task);
int executor_remove_files(struct executor *x, struct task *task);
// Results, on the loop:
// `failed`: the cause with which it ends when result < 0.
void executor_claimed(struct executor *x, struct task *task, int result, enum attempt_cause failed,
                      const char *why);
void executor_files_removed(struct executor *x, struct task *task, int result, const char *why);
void executor_finish_close(struct executor *x);

// executor_remove.c
void executor_forget(struct executor *x, struct task *task); // begins its removal
void executor_runtime_removed(struct executor *x, struct task *task);
void executor_remove_queued(struct executor *x);

// executor_lease.c
bool executor_lease_valid(const struct executor *x, const struct task *task);
// Into its file, when it has one that may be renewed. 0 or -errno.
int executor_lease_write(struct executor *x, struct task *task, struct err *e) WARN_UNUSED;

// executor_events.c
void executor_end(struct executor *x, struct task *task, enum attempt_cause cause,
                  const char *reason);
// An attempt of an earlier instance of which nothing lives: decides durably how it ended.
void executor_end_lost(struct executor *x, struct task *task);
