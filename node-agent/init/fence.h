// SPDX-License-Identifier: Apache-2.0
// The fence: an attempt whose lease is over does not run until the lease is renewed, whoever else
// is alive on the machine.
#pragma once

#include "node-agent/init/args.h"

#include <stdbool.h>

struct fence {
    const struct init_args *args;
    char boot_id[40];
    int64_t deadline_ms; // CLOCK_BOOTTIME; INT64_MAX = started without --lease
    int64_t lease_ms;    // usual length; 0 = not known
    int inotify_fd;      // of the lease folder; -1 = not watched
    bool frozen;         // by us
    bool by_group;       // by the control group's freezer, else by SIGSTOP
};

// Nothing is opened or read yet.
void fence_init(struct fence *f, const struct init_args *args);
// Reads the lease file again. True when the attempt may run at `now_ms` (CLOCK_BOOTTIME). When it
// may not, the folder is watched from before the last look on, so that no renewal is missed. A
// file that vanished or is damaged leaves the deadline as it was; one of another boot or attempt is
// over.
bool fence_valid(struct fence *f, int64_t now_ms);
// When to look next, CLOCK_BOOTTIME in ms: the deadline while running; 0 = when the folder changes.
int64_t fence_due(const struct fence *f, int64_t now_ms);
// Empties the watch after it became readable.
void fence_drain(struct fence *f);
// Stops every process of the command. 0; -ETIME when some still ran after two seconds.
int fence_freeze(struct fence *f);
void fence_thaw(struct fence *f);
