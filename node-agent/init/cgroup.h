// SPDX-License-Identifier: Apache-2.0
// The cgroup folders of the command (one in v2, one per controller in v1), made by the agent.
#pragma once

#include "node-agent/init/args.h"

// Puts the calling process into all of them. 0, or -1 with errno.
int cgroup_enter(const struct init_args *a);
// SIGKILL to all in the first of them: cgroup.kill where there is one, else each process.
void cgroup_kill(const struct init_args *a);
