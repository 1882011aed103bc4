// SPDX-License-Identifier: Apache-2.0
// Starts meadow-init for an attempt of the process runtime.
#pragma once

#include "node-agent/runtime/cgroup.h"
#include "node-agent/runtime/runtime.h"
#include "node-agent/runtime/transient.h"

// Starts it in a session of its own with all signals blocked (it listens by signalfd, so nothing
// sent early is lost). Its lock is taken for it, so that there is no moment in which it could be
// taken for dead. 0 and its pid (a child, not reaped). -EINVAL and -E2BIG are the job's fault,
// anything else the machine's.
int process_spawn(const struct runtime_options *o, const struct attempt_spec *spec,
                  const struct cgroup_leaf *cgroup, pid_t *ret_pid, struct err *e) WARN_UNUSED;
// The same by systemd: asked for, `done` tells (transient.h). Its environment is a file that only
// the task's user can read, its lock is taken by itself.
int process_spawn_unit(struct transient *t, const struct runtime_options *o,
                       const struct attempt_spec *spec,
                       void (*done)(int result, pid_t pid, const char *why, void *userdata),
                       void *userdata, struct err *e) WARN_UNUSED;
