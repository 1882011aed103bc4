// SPDX-License-Identifier: Apache-2.0
// The append-only file of our own Redis, as a crash of the machine may leave it.
#pragma once

#include "common/err.h"
#include <stdint.h>

// Cuts zeros off the end of the file that Redis appends to, below `dir`/appendonlydir: file systems
// leave them where a file had grown, but what was written was not on the disk yet. No command ends
// with one, so Redis would refuse to load the file, and none that was acknowledged is among them:
// that had been synced. *ret_cut: how many. 0 also when there is no such file; -errno.
int redis_aof_cut_zeros(const char *dir, int64_t *ret_cut, struct err *e) WARN_UNUSED;
