// SPDX-License-Identifier: Apache-2.0
// One attempt's log within the store. Nothing outside this folder includes it.
#pragma once

#include "master/logs/log_segment.h"
#include "master/logs/log_store.h"

#define HASH_FUNCTION(key, len, hash) HASH_FNV(key, len, hash) // the default one falls through
#include <uthash.h>

struct log_store {
    int dir_fd;
    uint64_t cap;           // per attempt
    uint64_t segment_aim;   // where a segment ends, at the next end of a line
    uint64_t segment_limit; // where it ends anyway
    struct log_file *files; // by attempt; those being written, read or watched
    struct log_file *open;  // with a descriptor, least recently used first
    size_t n_open;
    int64_t bytes;           // of all segments, but for what is not counted yet
    struct log_count *count; // under way, or NULL
};

struct log_file {
    char attempt[LOG_ATTEMPT_BYTES];
    struct log_store *store;
    bool loaded;   // what follows is known
    bool finished; // the last frame says so
    bool kept;     // being written: stays in memory until it is finished
    uint64_t next[LOG_CHANNELS];
    bool mid_line[LOG_CHANNELS];
    uint32_t first, last; // segments; first > last when there are none
    uint64_t size;        // of the last one
    uint64_t others;      // of the others together
    int fd;               // the last one, or -1
    struct log_watch *watches;
    int users; // readers, and calls under way
    struct log_file *prev, *next_open;
    UT_hash_handle hh;
};

// --- log_file.c ---

// Looks at what is on disk, if that is not known yet, and cuts a torn end.
int log_file_load(struct log_file *f) WARN_UNUSED;
int log_file_append(struct log_file *f, enum log_channel channel, uint64_t offset, int64_t time_ms,
                    const void *data, size_t len) WARN_UNUSED;
int log_file_finish(struct log_file *f) WARN_UNUSED;
void log_file_remove(struct log_file *f); // from disk
void log_file_close(struct log_file *f);  // its descriptor

// --- log_store.c ---

bool log_is_attempt(const char *text); // may be the name of one

// Found or made, with one user more. -EINVAL, -ENOMEM.
int log_file_get(struct log_store *s, const char *attempt, struct log_file **ret) WARN_UNUSED;
// One user less; freed when nothing needs it any more.
void log_file_put(struct log_file *f);
// Notes that the descriptor was used; closes another one when there are many.
void log_store_used(struct log_file *f);
void log_store_unused(struct log_file *f);
