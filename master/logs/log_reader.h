// SPDX-License-Identifier: Apache-2.0
// A reader's place in an attempt's log. Nothing outside this folder includes it.
#pragma once

#include "master/logs/log_file.h"

// Finding the last lines, one segment per step, from the newest back.
struct log_tail {
    bool busy;
    uint32_t segment;         // looked at next
    uint64_t wanted;          // ends of lines that are still to be found
    bool counted;             // they are found; what is left is where their lines begin
    bool known[LOG_CHANNELS]; // log_reader.expected is right
};

struct log_reader {
    struct log_file *file;
    unsigned channels;
    uint32_t segment; // 0 = before the first
    bool in_segment;  // its head was read
    struct log_cursor cursor;
    uint64_t expected[LOG_CHANNELS]; // what comes below is skipped, what comes above leaves a gap
    struct log_head head;
    unsigned head_gaps; // channels whose gap at the head was not yet looked at
    struct log_tail tail;
};

// --- log_tail.c ---

// Begins to look for the last `lines` lines, from the end backwards.
void log_tail_start(struct log_reader *r, uint64_t lines);
// One segment. 0: go on, unless tail.busy is false now: the reader stands where the lines begin.
// -errno.
int log_tail_step(struct log_reader *r) WARN_UNUSED;
