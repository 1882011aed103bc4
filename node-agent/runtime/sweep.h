// SPDX-License-Identifier: Apache-2.0
// Ends what an attempt left behind when its meadow-init died without doing so.
#pragma once

#include "common/err.h"
#include <uv.h>

struct sweep;

// Kills all processes with the attempt's id in their environment, waits for their end and looks
// again, until none lives. 1: none lives, nothing to wait for; 0: `done` will be called once from
// the loop (the sweep frees itself); -errno.
int sweep_start(uv_loop_t *loop, const char *id, void (*done)(void *userdata), void *userdata,
                struct sweep **ret) WARN_UNUSED;
// No call any more. NULL is fine.
void sweep_cancel(struct sweep *s);
