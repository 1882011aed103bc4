// SPDX-License-Identifier: Apache-2.0
// Log files that nobody else rotates, as those of a local cluster: a full one becomes "<name>.1",
// in place of the one before.
#pragma once

#include "common/err.h"
#include <stdint.h>

#define LOG_FILE_BYTES (INT64_C(16) << 20)

// How much still fits into the file behind `fd`; INT64_MAX when it is none that is appended to.
int64_t log_file_room(int fd);
// Begins a new file behind `fd` (and behind standard output, when that is the same one); who shares
// it otherwise goes on in the old one. 0 or -errno, then all is as before.
int log_file_turn(int fd);
// Before somebody else opens it: moves it aside when it is full. Best effort.
void log_file_bound(const char *path);
