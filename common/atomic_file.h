// SPDX-License-Identifier: Apache-2.0
// Files that are either old or new, never half: temp file, fsync, rename, fsync of the folder.
#pragma once

#include "common/err.h"
#include <stddef.h>
#include <sys/types.h>

// Writes the whole file durably with `mode`.
int atomic_file_write(const char *path, const void *data, size_t len, mode_t mode,
                      struct err *e) WARN_UNUSED;
// Writes all of it, over interruptions and short writes. 0 or -errno.
int write_all(int fd, const void *data, size_t len) WARN_UNUSED;
// Reads a whole file of at most `limit` bytes; NUL-terminated, caller frees. -ENOENT, -EFBIG...
int atomic_file_read(const char *path, size_t limit, char **ret_data, size_t *ret_len,
                     struct err *e) WARN_UNUSED;
// Renames a damaged file to PATH.<Unix time in ms>.damaged, durably, so that another can be written
// in its place and people can look at it. Puts the new name into `e` (0 or -errno).
int file_set_aside(const char *path, struct err *e) WARN_UNUSED;
// mkdir -p with `mode` for created folders.
int make_dirs(const char *path, mode_t mode, struct err *e) WARN_UNUSED;
// Removes a tree without following links or crossing into other file systems. Missing = 0.
int remove_tree(const char *path, struct err *e) WARN_UNUSED;
// Advisory lock on path (created 0600), held as long as the descriptor is open. -EWOULDBLOCK when
// taken.
int lock_file(const char *path, int *ret_fd, struct err *e) WARN_UNUSED;
