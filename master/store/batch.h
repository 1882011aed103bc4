// SPDX-License-Identifier: Apache-2.0
// Batches on their way to Redis: cut into pieces that one script call bears, and laid out as the
// script's arguments.
#pragma once

#include "master/store/store.h"

#define BATCH_RECORDS_MAX 1000
#define BATCH_BYTES_MAX ((size_t)4 << 20)

extern const char batch_script[]; // KEYS meta; ARGV epoch, commit, then groups of operations
// KEYS meta; ARGV schema, an epoch that was given before (0 = none). Answers {epoch, commit}
extern const char epoch_script[];
// KEYS meta; ARGV our epoch, the one that it is to be raised to. Answers what it is then.
extern const char raise_script[];

// Arguments of one call. Reused from call to call; zero-initialised. `argv` points into `arena` and
// into the batch.
struct batch_args {
    const char **argv;
    size_t *lengths;
    size_t count;
    size_t capacity;
    char *arena;
    size_t arena_size;
    size_t arena_used;
};

// Where the piece that begins at `start` ends (exclusive): at most BATCH_RECORDS_MAX records and
// BATCH_BYTES_MAX of keys and values, but at least one record.
size_t batch_piece_end(const struct store_batch *b, size_t start);
// Empties the arguments and makes room for `head` arguments (text of up to 64 bytes each) and the
// operations of one piece.
int batch_args_begin(struct batch_args *a, const char *prefix, const struct store_batch *b,
                     size_t start, size_t end, size_t head) WARN_UNUSED;
// After begin, only as many as there is room for. The text isn't copied.
void batch_args_text(struct batch_args *a, const char *text, size_t len);
void batch_args_number(struct batch_args *a, int64_t n);
// Adds the piece's operations, keys with the prefix before them.
void batch_args_ops(struct batch_args *a, const char *prefix, const struct store_batch *b,
                    size_t start, size_t end);
void batch_args_free(struct batch_args *a);
// Frees the ops' texts and the array, and empties the batch.
void store_batch_free(struct store_batch *b);
