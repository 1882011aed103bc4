// SPDX-License-Identifier: Apache-2.0
// What ends a long call from outside: Ctrl-C, SIGTERM, and the reader of our output going away.
#pragma once

#include "common/err.h"
#include <stdbool.h>
#include <uv.h>

struct api_watch {
    uv_signal_t signals[2];
    uv_poll_t output;
    int epoll_fd; // -1 = standard output is not a pipe
    bool started;
    void (*stop)(bool output_gone, void *userdata);
    void *userdata;
};

// The handles do not keep the loop alive. `stop` may be called more than once. Ended by
// api_watch_close and a turn of the loop; the struct must live until then.
int api_watch_start(struct api_watch *w, uv_loop_t *loop, void (*stop)(bool output_gone, void *),
                    void *userdata) WARN_UNUSED;
void api_watch_close(struct api_watch *w); // never started: nothing
