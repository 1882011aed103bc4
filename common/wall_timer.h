// SPDX-License-Identifier: Apache-2.0
// A timer for a moment of the wall clock: it fires then also when the clock was set meanwhile or
// the machine slept. Costs nothing while it waits (timerfd_create(2), TFD_TIMER_CANCEL_ON_SET).
#pragma once

#include "common/err.h"
#include <uv.h>

struct wall_timer;

// `fired` is called from the loop. Owned by the caller: wall_timer_close.
int wall_timer_new(uv_loop_t *loop, void (*fired)(void *userdata), void *userdata,
                   struct wall_timer **ret, struct err *e) WARN_UNUSED;
// At `real_ms` since the epoch, once; a moment that is over fires at the loop's next turn; 0 = not
// at all.
int wall_timer_set(struct wall_timer *t, int64_t real_ms);
void wall_timer_close(struct wall_timer *t); // frees from the loop; NULL allowed
