// SPDX-License-Identifier: Apache-2.0
// The files behind the log store: ATTEMPT/NNNNNNNN, numbered from 1, each a head and then frames in
// the order of arrival. All numbers little-endian; heads carry a check, so that a torn end is
// known.
//   head   "MEADOWL1", u64 offset at which stdout and stderr go on here, i64 time_ms, u32 flags
//   (bit c: the
//          channel goes on in the middle of a line), u32 check
//   frame  u16 magic, u8 kind, u8 channel, u32 length, i64 time_ms, u64 offset, u32 zero, u32
//   check; then the bytes
#pragma once

#include "master/logs/log_store.h"

#define LOG_HEAD_BYTES 40
#define LOG_FRAME_BYTES 32
#define LOG_GAP_BYTES 8 // what follows a gap's frame: u64, how many bytes are lost

enum log_frame_kind { LOG_FRAME_DATA = 1, LOG_FRAME_GAP, LOG_FRAME_END };

struct log_head {
    uint64_t base[LOG_CHANNELS];
    int64_t time_ms;
    bool mid_line[LOG_CHANNELS];
};

struct log_frame {
    enum log_frame_kind kind;
    enum log_channel channel;
    uint32_t len;
    int64_t time_ms;
    uint64_t offset;
};

// As on disk, little-endian: `out` and `in` hold LOG_HEAD_BYTES, LOG_FRAME_BYTES, LOG_GAP_BYTES.
void log_head_encode(const struct log_head *h, uint8_t *out);
void log_frame_encode(const struct log_frame *f, uint8_t *out);
void log_gap_encode(uint64_t gap, uint8_t *out);
uint64_t log_gap_decode(const uint8_t *in);

// Opens segment `number` of the attempt below the folder. -ENOENT...
int log_segment_open(int dir_fd, const char *attempt, uint32_t number, int flags,
                     int *ret_fd) WARN_UNUSED;
int log_segment_unlink(int dir_fd, const char *attempt, uint32_t number) WARN_UNUSED;
// Reads the head. -EPROTO when it is torn.
int log_segment_head(int fd, struct log_head *ret) WARN_UNUSED;

// What there is of an attempt; n = 0 when nothing.
struct log_listing {
    uint32_t first, last;
    size_t n;
    uint64_t bytes;
    int64_t written_ms; // when the youngest was written last, by the machine's clock
};
int log_segment_list(int dir_fd, const char *attempt, struct log_listing *ret) WARN_UNUSED;

// Walks the frames of a segment through a buffer of its own; the descriptor may be another each
// time.
struct log_cursor {
    uint64_t pos; // in the file, of the next frame
    uint8_t *buffer;
    size_t at, len;
};
void log_cursor_start(struct log_cursor *c, uint64_t pos); // keeps the buffer's memory
void log_cursor_reset(struct log_cursor *c);               // frees it; pos stays
// 1: a frame and what follows it (borrowed until the next call). 0: the end. -EAGAIN: the buffer is
// used up and fd is -1. -EPROTO: torn or foreign from c->pos on. -EIO, -ENOMEM...
int log_cursor_next(struct log_cursor *c, int fd, struct log_frame *ret,
                    const uint8_t **ret_data) WARN_UNUSED;
// Undoes the last step.
void log_cursor_back(struct log_cursor *c, const struct log_frame *f);
