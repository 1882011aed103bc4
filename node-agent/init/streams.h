// SPDX-License-Identifier: Apache-2.0
// One output stream of the command, written byte-exact to files named by offset, rotated at line
// ends, oldest removed.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STREAM_SEGMENTS_MAX 32

struct stream_segment {
    uint64_t offset;
    uint64_t len;
};

struct stream {
    const char *name; // "stdout" or "stderr"
    int dir_fd;       // weak
    int fd;           // current segment, -1 = none open
    int times_fd;     // below 0 = not open (yet), see times.h
    int echo_fd;      // -1 = none
    int64_t echo_left;
    uint64_t limit;        // bytes kept
    uint64_t segment_size; // aim of one file
    uint64_t offset;       // of the next byte
    uint64_t line_len;     // bytes of the unfinished line in this segment
    uint64_t kept;         // bytes in all segments
    int64_t last_time_ms;
    uint32_t times_count;
    struct stream_segment
        segments[STREAM_SEGMENTS_MAX]; // oldest first; the last one is open when fd >= 0
    size_t n_segments;
    bool lost; // bytes that the disk refused
};

// A stream kept in files NAME.* of the folder, `limit` bytes at most; the first `echo` bytes also
// go to echo_fd (-1 = none).
void stream_init(struct stream *s, int dir_fd, const char *name, int64_t limit, int echo_fd,
                 int64_t echo);
// Never fails: bytes that the disk refuses are counted and skipped, which shows as a jump of the
// offset, and in `lost`.
void stream_write(struct stream *s, const char *data, size_t len, int64_t now_ms);
void stream_close(struct stream *s);
