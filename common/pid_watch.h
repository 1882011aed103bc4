// SPDX-License-Identifier: Apache-2.0
// Waits for the death of one process (child or not) by a pidfd in the loop, and signals it without
// mistaking another process for it.
#pragma once

#include "common/err.h"
#include <sys/types.h>
#include <uv.h>

struct pid_watch;

// `died` is called once, from the loop; the watch is freed by itself afterwards. `status` is the
// wait status when the process was a child of ours (it is reaped), else -1. -ESRCH: there is no
// such process.
int pid_watch_start(uv_loop_t *loop, pid_t pid, void (*died)(int status, void *userdata),
                    void *userdata, struct pid_watch **ret) WARN_UNUSED;
int pid_watch_signal(const struct pid_watch *w, int signo);
// No call any more; frees from the loop. NULL is fine.
void pid_watch_cancel(struct pid_watch *w);
