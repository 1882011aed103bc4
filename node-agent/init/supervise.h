// SPDX-License-Identifier: Apache-2.0
// The life of one attempt from fork to exit record.
#pragma once

#include "node-agent/init/args.h"
#include "node-agent/init/record.h"

// Runs the command to its end and writes the records. Returns the exit code to end with. All
// signals must be blocked since before the out folder was looked at.
int supervise(const struct init_args *a, struct record *rec);
