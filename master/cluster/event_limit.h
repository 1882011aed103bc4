// SPDX-License-Identifier: Apache-2.0
// How many events one node may cause: LIMIT_NODE_EVENTS_PER_S, after a quiet time
// LIMIT_NODE_EVENTS_BURST at once (common/limits.h). What is beyond is left out of the list of
// events (the change itself never is), and the list says so.
#pragma once

#include "common/err.h"
#include <stdbool.h>
#include <stdint.h>

struct event_limit;

enum event_verdict {
    EVENT_GOES,
    EVENT_LAST,    // left out, the first of several: a mark takes its place
    EVENT_LEFT_OUT // left out and counted
};

struct event_limit *event_limit_new(uint32_t per_second, uint32_t burst); // NULL = out of memory
void event_limit_free(struct event_limit *l);                             // NULL allowed
// An event of `node` at now_ms (clock_boot_ms). *ret_left_out: how many were left out before this
// one that goes, the first included; 0 = none.
enum event_verdict event_limit_take(struct event_limit *l, const char *node, int64_t now_ms,
                                    uint64_t *ret_left_out);
