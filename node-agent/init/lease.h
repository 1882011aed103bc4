// SPDX-License-Identifier: Apache-2.0
// The lease file: until when (CLOCK_BOOTTIME of one boot) an attempt may run without its agent
// hearing from the master.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct lease {
    char attempt[24];
    char boot_id[40];
    int64_t deadline_boot_ms;
    int64_t lease_ms; // usual length; a deadline beyond it was granted by a master that stops; 0 =
                      // not told
};

// Parses "meadow-lease 1 <attempt> <boot id> <deadline ms>[ <lease ms>]\n". Tolerant: further
// fields, more lines and a missing newline are accepted. 0, or -EPROTO (then *ret is untouched).
int lease_parse(const char *text, size_t len, struct lease *ret);
// Makes the folder above *lease (an attempt's lease folder; NULL: nothing is done) the working
// directory and *lease its name in there, so that it is found whoever we become and whatever leads
// there is closed to them. 0 or -errno.
int lease_enter(const char **lease);
// Reads DIR/lease. 0, -ENOENT, -EPROTO or another -errno.
int lease_read(const char *dir, struct lease *ret);
