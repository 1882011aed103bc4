// SPDX-License-Identifier: Apache-2.0
// What the tasks wrote, kept on the master: one append-only log per attempt, both streams in the
// order in which their bytes arrived, each stream byte-exact, bounded in size. One thread; no call
// does more than a bounded amount of work. Files are not fsynced: they survive the end of the
// process, and of the machine as far as its kernel wrote them out; a torn end is cut.
#pragma once

#include "common/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct log_store;
struct log_reader;

enum log_channel { LOG_STDOUT, LOG_STDERR, LOG_CHANNELS };
const char *log_channel_to_string(enum log_channel c); // "stdout", "stderr"
int log_channel_from_string(const char *text, enum log_channel *ret) WARN_UNUSED; // -EINVAL

#define LOG_CAP_MIN (32u * 1024)     // smaller caps are raised to this
#define LOG_CHUNK_BYTES (64u * 1024) // no chunk of a reader is longer
#define LOG_ATTEMPT_BYTES 65         // an attempt id and its NUL: [A-Za-z0-9_-]{1,64}

// The folder is made when missing. `cap` bounds what one attempt takes on disk, frames included;
// the oldest data goes first, at line ends where there are any.
int log_store_open(const char *dir, uint64_t cap, struct log_store **ret,
                   struct err *e) WARN_UNUSED;
struct kept_log {
    char attempt[LOG_ATTEMPT_BYTES];
    bool known;         // false: the owner's
    int64_t written_ms; // last, by the machine's clock
};
// Counts what is there already, in a thread of the loop's, which may end after the store. `found`
// gets the list of it, sorted by attempt, to free(); NULL when memory ran out.
int log_store_count(struct log_store *s, uv_loop_t *loop,
                    void (*found)(struct kept_log *logs, size_t n, void *userdata),
                    void *userdata) WARN_UNUSED;
// Ends that early; the sum is not taken, `found` not called.
void log_store_count_stop(struct log_store *s);
// What all logs together take on disk, bytes; before that count is done, less.
int64_t log_store_bytes(const struct log_store *s);
// No reader or watch may be left. NULL is fine.
void log_store_close(struct log_store *s);

// Adds the bytes of one stream that begin at `offset`. Bytes below the known end of the stream are
// skipped (a repeat is harmless); an offset above it is recorded as a gap, even with len 0.
// *ret_next is the next offset wanted. -EINVAL for a malformed attempt id or offsets that no stream
// can have; -ENOSPC, -EIO... leave what is stored whole and readable; part of `data` may have been
// taken (log_store_next tells).
int log_store_append(struct log_store *s, const char *attempt, enum log_channel channel,
                     uint64_t offset, int64_t time_ms, const void *data, size_t len,
                     uint64_t *ret_next) WARN_UNUSED;
// The next offset wanted; 0 for an attempt that never wrote.
int log_store_next(struct log_store *s, const char *attempt, enum log_channel channel,
                   uint64_t *ret_next) WARN_UNUSED;
// No more is expected: marked in the file, memory and descriptor are given back, watches hear
// `finished`. Idempotent. An attempt that wrote nothing gets no file. A later append is taken and
// opens it again.
int log_store_finish(struct log_store *s, const char *attempt) WARN_UNUSED;
// Removes what is kept of the attempt; nothing there is fine. Readers then see the end, watches
// hear `finished`.
void log_store_delete(struct log_store *s, const char *attempt);
// Hears of every append and finish of one attempt, from inside these calls: take a note or wake
// something, and read later. May be removed in its own call. The caller owns the memory.
struct log_watch {
    void (*changed)(struct log_watch *w, bool finished);
    void *userdata;
    struct log_watch *prev, *next; // the store's
    struct log_file *file;         // the store's
    bool due;                      // the store's
};
// The attempt need not have written yet. -EINVAL, -ENOMEM.
int log_watch_add(struct log_store *s, const char *attempt, struct log_watch *w) WARN_UNUSED;
void log_watch_remove(struct log_store *s, struct log_watch *w);

// --- reading ---

struct log_chunk {
    enum log_channel channel;
    int64_t time_ms;  // when the bytes were read from the task
    uint64_t offset;  // of the first byte (or of the gap) in its stream
    const char *data; // borrowed until the next call on the reader
    size_t len;
    uint64_t gap; // > 0: so many bytes of the stream are lost here; no data
};

enum log_next {
    LOG_NEXT_END,   // no more now. After an append there may be more: readers follow
    LOG_NEXT_CHUNK, // one chunk
    LOG_NEXT_AGAIN, // the work of one call is done, nothing found yet: call again, in a later turn
};

#define LOG_ALL_CHANNELS ((1u << LOG_STDOUT) | (1u << LOG_STDERR))
#define LOG_TAIL_ALL (-1)

// Reads one attempt from its beginning, or its last `tail` lines (a gap counts as one; both streams
// together). `channels`: bits by log_channel. An attempt without a log is an empty one. Holds no
// descriptor between calls. -EINVAL, -ENOMEM.
int log_reader_open(struct log_store *s, const char *attempt, unsigned channels, int64_t tail,
                    struct log_reader **ret) WARN_UNUSED;
// An enum log_next, or -errno. *ret is filled with LOG_NEXT_CHUNK only.
int log_reader_next(struct log_reader *r, struct log_chunk *ret) WARN_UNUSED;
void log_reader_close(struct log_reader *r); // NULL is fine
