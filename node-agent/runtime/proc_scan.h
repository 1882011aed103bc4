// SPDX-License-Identifier: Apache-2.0
// What /proc knows about processes of attempts.
#pragma once

#include "proto/attempt.h"
#include <sys/types.h>

#define ATTEMPT_ENV                                                                                \
    "MEADOW_ATTEMPT_ID" // in the environment of every process of an attempt, meadow-init too

struct proc_owner {
    pid_t pid;
    char id[ATTEMPT_ID_BYTES];
};

// All living processes (not ours) that carry an attempt's id in their environment, as far as we may
// look. *ret is owned by the caller.
int proc_owners(struct proc_owner **ret, size_t *ret_n) WARN_UNUSED;
bool proc_owners_have(const struct proc_owner *owners, size_t n, const char *id);
// The first process of the attempt: 0 = none.
pid_t proc_owner_find(const char *id);
// CPU time so far and resident memory of a process and all that descends from it.
void proc_tree_usage(pid_t pid, int64_t *ret_cpu_ms, int64_t *ret_memory);
