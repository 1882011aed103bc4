// SPDX-License-Identifier: Apache-2.0
// What writing and restoring of an archive share.
#pragma once

#include "common/err.h"
#include <jansson.h>

#define ARCHIVE_MANIFEST "manifest.json"
#define ARCHIVE_STORE "store.rdb"
#define ARCHIVE_FILES "files" // the data folder's own, below this

// Runs a program (found on PATH) and waits; its output is dropped, its errors go where ours go.
// -EIO when it fails, with its name and status.
int archive_run(const char *const *argv, struct err *e) WARN_UNUSED;
// SHA-256 of a file as lower-case hex, and its size.
int archive_digest(const char *path, char ret_hex[65], int64_t *ret_size,
                   struct err *e) WARN_UNUSED;
// Calls fn for every regular file below `dir`, with its path relative to `dir`; stops at a negative
// result. Links and special files are passed over.
int archive_walk(const char *dir, int (*fn)(const char *relative, void *userdata, struct err *e),
                 void *userdata, struct err *e) WARN_UNUSED;
// fsync of a file or folder.
int archive_sync(const char *path, struct err *e) WARN_UNUSED;
