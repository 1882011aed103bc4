// SPDX-License-Identifier: Apache-2.0
// Attempts as transient services of systemd, over sd-bus: meadow-attempt-<id>.service, outside the
// agent's unit, so that they inherit neither its sandbox nor its life.
#pragma once

#include "common/err.h"
#include "proto/job_spec.h"
#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

struct transient;

// Whether this process is a service of the system's systemd (and root): then attempts should be
// services too.
bool transient_wanted(void);

int transient_new(uv_loop_t *loop, struct transient **ret) WARN_UNUSED; // -ENOMEM
// Pending starts get no answer any more; freed from the loop. NULL allowed.
void transient_close(struct transient *t);

struct transient_unit { // all borrowed for the call
    const char *id;     // of the attempt
    const char *description;
    char *const *argv;       // argv[0] = path
    struct resources limits; // 0 = none
    int64_t pids_limit;
};

// Asks for the unit. `done` comes from the loop, once: 0 and the main process (0 = it ended
// already), or an error and why. Opens the bus when it isn't open (again).
int transient_start(struct transient *t, const struct transient_unit *unit,
                    void (*done)(int result, pid_t pid, const char *why, void *userdata),
                    void *userdata, struct err *e) WARN_UNUSED;
// No answer for this userdata any more.
void transient_forget(struct transient *t, const void *userdata);
