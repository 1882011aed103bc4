// SPDX-License-Identifier: Apache-2.0
// Starting the command and ending everything that came of it.
#pragma once

#include "node-agent/init/args.h"

#include <stdbool.h>
#include <sys/types.h>

struct child {
    pid_t pid;  // of the command; also its session and process group
    int out_fd; // read ends, non-blocking
    int err_fd;
    int exec_fd; // gives a child_failure, or end of file once the command was executed
};

struct child_failure {
    int error;     // errno
    char step[16]; // "chdir", "exec", "cgroup"
};

// Forks and executes the command; the caller's signal mask is not inherited. 0 or -errno.
int child_start(const struct init_args *a, struct child *ret);
// In a fresh child, before it executes: default actions, and no signal blocked.
void child_reset_signals(void);
// SIGKILL to all that descends from us, in or out of the command's group. Repeat on each SIGCHLD
// until child_none_left.
void child_kill_all(const struct init_args *a);
// SIGSTOP to all that descends from us; true when none of them can run any more. Repeat until then.
bool child_stop_all(void);
void child_continue_all(void); // SIGCONT to the same
// Reaps what has ended; true when `pid` was among it (*ret_status is its wait status). *ret_none:
// no child is left, and so no descendant, as orphans become ours.
bool child_reap(pid_t pid, int *ret_status, bool *ret_none);
