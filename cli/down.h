// SPDX-License-Identifier: Apache-2.0
// The parts of `meadow down`.
#pragma once

#include "cli/cli.h"
#include "cli/local.h"

// Asks the master to stop every live job and waits, within the jobs' grace, until they are over.
// Failing is no matter: what is left is ended by the other steps.
void down_stop_jobs(struct cli *cli, const struct local *l);
// Ends one process by SIGTERM; when it is still there after the bound, it is killed (with its
// children when `tree`). 0, or -errno.
int down_end_process(pid_t pid, int term_ms, bool tree, struct err *e) WARN_UNUSED;
// Ends tasks that outlived their agents: by their meadow-init's lock file, and by the label of
// containers.
void down_leftovers(struct cli *cli, const struct local *l);
