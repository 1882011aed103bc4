// SPDX-License-Identifier: Apache-2.0
// Backups while the master runs: one at a time, by a child process (archive.h), on demand and by
// schedule.
#pragma once

#include "common/err.h"
#include <stdint.h>
#include <uv.h>

struct backup;

struct backup_options {
    uv_loop_t *loop;
    const char *program;     // this program; borrowed, as all texts are
    const char *config_path; // NULL = none
    const char *data_dir;    // of the master; leftovers of cut off backups are removed from it
    const char *cluster;     // in the names of scheduled files
    const char *to;          // folder of scheduled ones; NULL = no schedule
    int64_t every_ms;
    int64_t keep; // so many of the newest scheduled ones
    // One by schedule is there, or failed (path NULL).
    void (*scheduled)(const char *path, const struct err *e, void *userdata);
    void *userdata;
};

// With a schedule: the first is made `every` after the newest file that is there, or at once.
int backup_new(const struct backup_options *o, struct backup **ret, struct err *e) WARN_UNUSED;

// Writes one to `path`. `done` comes once from the loop: 0, -EIO with the reason, -ECANCELED at
// closing. -EBUSY while another is being made.
int backup_start(struct backup *b, const char *path,
                 void (*done)(int result, const struct err *e, void *userdata), void *userdata,
                 struct err *e) WARN_UNUSED;

// Ends a child; frees from the loop. NULL is fine.
void backup_close(struct backup *b);
