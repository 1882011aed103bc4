// SPDX-License-Identifier: Apache-2.0
// The agent as a whole: builds the parts, connects them, takes them down.
#pragma once

#include "node-agent/config.h"
#include <uv.h>

struct agent;
struct daemon;

struct agent_options {
    uv_loop_t *loop;
    const struct agent_config *config; // borrowed until agent_free
    const char *init_path;             // meadow-init
    const char *sysroot;               // "" but in tests
    struct daemon *daemon;             // for the status line; NULL = none
};

// Locks the state folder, reads identity and claims, and starts: joins or syncs, adopts what runs.
// -EWOULDBLOCK when another agent holds the folder.
int agent_start(const struct agent_options *options, struct agent **ret, struct err *e) WARN_UNUSED;
// Closes everything and leaves the tasks running; the loop ends when it is done. Again = no effect.
void agent_stop(struct agent *a);
// After the loop has ended.
void agent_free(struct agent *a);
