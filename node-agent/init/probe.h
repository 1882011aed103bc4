// SPDX-License-Identifier: Apache-2.0
// One health check, in a process of its own.
#pragma once

#include "node-agent/init/args.h"

#include <stdbool.h>
#include <sys/types.h>

#define PROBE_TEXT_BYTES 160

struct probe_verdict {
    bool well;
    char text[PROBE_TEXT_BYTES]; // why not
};

// Forks the check: the command or the HTTP request of `a`, with the task's rights, environment and
// control group. *ret_fd (non-blocking, to be closed) gives one probe_verdict when nothing that it
// started lives any more, or end of file when it was killed. It is reaped as any other child is.
// 0 or -errno.
int probe_start(const struct init_args *a, pid_t *ret_pid, int *ret_fd);
