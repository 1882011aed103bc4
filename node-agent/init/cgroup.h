// SPDX-License-Identifier: Apache-2.0
// The cgroup folders of the command (one in v2, one per controller in v1), made by the agent.
#pragma once

#include "node-agent/init/args.h"

#include <stdbool.h>

// In a unit of systemd with a cgroup (v2) of its own: puts us and the command into two groups below
// it, so that a freezer or a kill of the command's never hits us. Without such a cgroup nothing
// happens.
void cgroup_own(struct init_args *a);
// Opens what cgroup_enter writes to: the kernel asks whether whoever opened it may move processes,
// so this comes before init gives up its rights. 0, or -1 with errno.
int cgroup_open(struct init_args *a);
// Puts the calling process into all of them. 0, or -1 with errno.
int cgroup_enter(const struct init_args *a);
// Whether the kernel killed a process of the command's for memory: v2, or pid 1 of a container.
bool cgroup_command_had_oom(const struct init_args *a);
// SIGKILL to all in the first of them: cgroup.kill where there is one, else each process.
void cgroup_kill(const struct init_args *a);
// Freezes or thaws all in the group that has a freezer. False: there is none, it is refused, or
// nobody is in it.
bool cgroup_freeze(const struct init_args *a, bool freeze);
// Whether the freezer says that nothing in the group runs any more.
bool cgroup_frozen(const struct init_args *a);
