// SPDX-License-Identifier: Apache-2.0
// Giving up what the task must not have.
#pragma once

#include "node-agent/init/args.h"

// No new privileges from here on, for good; and with a uid or gid: no supplementary groups, only
// the kept capabilities in the bounding set, and that user. 0 or -errno, *ret_what naming the step.
int rights_drop(const struct init_args *a, const char **ret_what);
