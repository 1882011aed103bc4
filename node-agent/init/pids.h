// SPDX-License-Identifier: Apache-2.0
// Lists of process ids as the kernel prints them.
#pragma once

#include <sys/types.h>

// The next id of the text at *p, which moves on behind it; 0 at the end. Each id is followed by a
// space or newline; one without was cut by a full buffer and is not given.
pid_t pids_next(const char **p);
// Reads a file of ids into `text` (NUL-terminated); "" when it can't be read. The descriptor is
// closed.
void pids_read(int fd, char *text, size_t size);
