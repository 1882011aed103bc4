// SPDX-License-Identifier: Apache-2.0
// The audit's file: lines are appended with one write each, reach the disk in groups from a helper
// thread, and old files go by number (audit.log, audit.log.1, ...). Knows nothing of what a line
// says.
#pragma once

#include "common/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct audit_file;

// Opens or makes folder/audit.log (folder 0700, file 0600). A half line at its end, left by a power
// cut, is ended. `keep` files of about `bytes` each stay.
int audit_file_open(uv_loop_t *loop, const char *folder, size_t bytes, unsigned keep,
                    struct audit_file **ret, struct err *e) WARN_UNUSED;
// What was written is synced, waiters are called, then it goes by itself. NULL is fine.
void audit_file_close(struct audit_file *f);

// Appends the line and a newline. -errno when it could not be written whole (what was written of it
// is cut off again); then audit_file_ok is false until a write succeeds.
int audit_file_append(struct audit_file *f, const char *line, size_t len) WARN_UNUSED;
bool audit_file_ok(const struct audit_file *f);

// Whether everything appended so far is on disk.
bool audit_file_synced(const struct audit_file *f);
// Calls fn, later, when everything appended so far is on disk, with 0 or the -errno of fdatasync.
int audit_file_then(struct audit_file *f, void (*fn)(int result, void *userdata),
                    void *userdata) WARN_UNUSED;

// --- reading; from any thread ---
// Whole lines from the newest to the oldest over all files, until `each` returns false. Lines are
// NUL-terminated and may be changed. -errno of the first file that can't be read (a missing one is
// the end).
int audit_file_scan(const char *folder, unsigned keep,
                    bool (*each)(char *line, size_t len, void *userdata), void *userdata,
                    struct err *e) WARN_UNUSED;
