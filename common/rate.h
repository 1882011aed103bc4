// SPDX-License-Identifier: Apache-2.0
// Token buckets by name, in a bounded table: the name that was quiet for longest is forgotten when
// a new one needs its place (and starts with a full bucket when it comes back). Whole numbers only;
// the caller tells the time, so a test needs no clock.
#pragma once

#include "common/err.h"
#include <stdint.h>

#define RATE_NAME_BYTES 80

struct rate_table;

struct rate_options {
    uint32_t per_second; // what a bucket gains; 0 = everything is let through
    uint32_t burst;      // what it holds when full, at least 1
    unsigned max_names;  // at least 1
};

// *ret is owned by the caller: rate_free. -ENOMEM.
int rate_new(const struct rate_options *o, struct rate_table **ret) WARN_UNUSED;
void rate_free(struct rate_table *t); // NULL allowed
// Takes one token of `name` (cut at RATE_NAME_BYTES - 1). now_ms: clock_boot_ms; a clock that went
// back adds nothing. 0 = taken; else the milliseconds until there is one, and nothing is taken.
// Without memory for a new name: 0.
int64_t rate_take(struct rate_table *t, const char *name, int64_t now_ms) WARN_UNUSED;
unsigned rate_names(const struct rate_table *t); // how many are known now
