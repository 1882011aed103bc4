// SPDX-License-Identifier: Apache-2.0
// The agent instances that this state has had: STATE/identity/instances.json. The master takes an
// instance only when the one that had the identity last is among those before it; so a copy of the
// state, and one restored from an old backup, are told apart from a restart.
#pragma once

#include "common/err.h"
#include "proto/attempt.h"
#include <stdbool.h>
#include <stddef.h>

#define INSTANCES_ANSWERED_MAX 16
#define INSTANCES_TRIED_MAX 200 // starts without any answer since

struct instances {
    // Those that were answered, then those since of which that isn't known; this one is the last.
    char items[INSTANCES_ANSWERED_MAX + INSTANCES_TRIED_MAX][INSTANCE_BYTES];
    size_t n, n_answered;
    bool answered; // this one
};

// Reads the file, adds `instance` and stores that durably: it is to be there before the first
// message. A missing file is an empty one.
int instances_begin(const char *state_dir, const char *instance, struct instances *ret,
                    struct err *e) WARN_UNUSED;
// The master has taken this instance: those that were only tried go. Does nothing the second time.
int instances_answered(const char *state_dir, struct instances *x, struct err *e) WARN_UNUSED;
