// SPDX-License-Identifier: Apache-2.0
// Lays a piece out as arguments. Neighbours of one kind share a group, so that a thousand SETs are
// one MSET in the script and nothing is formatted per record: keys (with the prefix) and numbers go
// into one arena whose size is known before.
#include "master/store/batch.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_BYTES 24
#define GROUP_ARGS 4 // kind, count, and for streams the key and the length
#define OP_ARGS 3    // at most, beside the group's
#define HEAD_BYTES 64
#define TTL_MAX_MS (INT64_MAX / 4) // Redis adds the present to it

static size_t op_bytes(const struct store_op *op)
{
    return strlen(op->key) + (op->json ? strlen(op->json) : 0);
}

size_t batch_piece_end(const struct store_batch *b, size_t start)
{
    size_t bytes = 0, end = start;
    while (end < b->count && end - start < BATCH_RECORDS_MAX) {
        bytes += op_bytes(&b->ops[end]);
        if (bytes > BATCH_BYTES_MAX && end > start)
            break;
        end++;
    }
    return end;
}

// --- arguments ---

static int reserve_args(struct batch_args *a, size_t capacity)
{
    if (capacity > INT_MAX)
        return -EOVERFLOW;
    if (capacity <= a->capacity)
        return 0;
    const char **argv = realloc(a->argv, capacity * sizeof(*argv));
    if (!argv)
        return -ENOMEM;
    a->argv = argv;
    size_t *lengths = realloc(a->lengths, capacity * sizeof(*lengths));
    if (!lengths)
        return -ENOMEM;
    a->lengths = lengths;
    a->capacity = capacity;
    return 0;
}

static int reserve_arena(struct batch_args *a, size_t size)
{
    if (size <= a->arena_size)
        return 0;
    free(a->arena); // nothing in it is needed any more
    a->arena = malloc(size);
    a->arena_size = a->arena ? size : 0;
    return a->arena ? 0 : -ENOMEM;
}

int batch_args_begin(struct batch_args *a, const char *prefix, const struct store_batch *b,
                     size_t start, size_t end, size_t head)
{
    size_t arena = head * HEAD_BYTES;
    for (size_t i = start; i < end; i++)
        arena += strlen(prefix) + strlen(b->ops[i].key) + 3 * NUMBER_BYTES;
    a->count = 0;
    a->arena_used = 0;
    int r = reserve_args(a, head + (end - start) * (GROUP_ARGS + OP_ARGS));
    return r < 0 ? r : reserve_arena(a, arena);
}

void batch_args_text(struct batch_args *a, const char *text, size_t len)
{
    assert(a->count < a->capacity);
    a->argv[a->count] = text;
    a->lengths[a->count++] = len;
}

void batch_args_number(struct batch_args *a, int64_t n)
{
    assert(a->arena_size - a->arena_used >= NUMBER_BYTES);
    char *start = a->arena + a->arena_used;
    char *end = start + NUMBER_BYTES, *p = end;
    uint64_t rest = n < 0 ? -(uint64_t)n : (uint64_t)n;
    do
        *--p = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (n < 0)
        *--p = '-';
    a->arena_used += NUMBER_BYTES;
    batch_args_text(a, p, (size_t)(end - p));
}

static void add_key(struct batch_args *a, const char *prefix, const char *key)
{
    size_t before = strlen(prefix), len = strlen(key);
    assert(a->arena_size - a->arena_used >= before + len);
    char *at = a->arena + a->arena_used;
    (void)mempcpy(mempcpy(at, prefix, before), key, len);
    a->arena_used += before + len;
    batch_args_text(a, at, before + len);
}

// --- operations ---

static char kind_of(const struct store_op *op)
{
    switch (op->kind) {
    case STORE_SET:
        return op->ttl_ms > 0 ? 'T' : 'S';
    case STORE_DEL:
        return 'D';
    case STORE_APPEND:
        return 'A';
    }
    return '?'; // the script refuses it
}

// Whether `op` can go into the group that `first` opened.
static bool same_group(const struct store_op *first, const struct store_op *op)
{
    char kind = kind_of(first);
    return kind == kind_of(op) &&
           (kind != 'A' || (first->max_len == op->max_len && strcmp(first->key, op->key) == 0));
}

static void add_op(struct batch_args *a, const char *prefix, const struct store_op *op)
{
    switch (kind_of(op)) {
    case 'S':
        add_key(a, prefix, op->key);
        break;
    case 'T':
        add_key(a, prefix, op->key);
        batch_args_number(a, op->ttl_ms < TTL_MAX_MS ? op->ttl_ms : TTL_MAX_MS);
        break;
    case 'D':
        add_key(a, prefix, op->key);
        return;
    default:
        batch_args_number(a, op->id); // "N" means "N-0" to XADD
        break;
    }
    batch_args_text(a, op->json, strlen(op->json));
}

static size_t group_end(const struct store_batch *b, size_t start, size_t end)
{
    size_t i = start + 1;
    while (i < end && same_group(&b->ops[start], &b->ops[i]))
        i++;
    return i;
}

void batch_args_ops(struct batch_args *a, const char *prefix, const struct store_batch *b,
                    size_t start, size_t end)
{
    static const char kinds[] = "STDA?";
    while (start < end) {
        const struct store_op *first = &b->ops[start];
        size_t stop = group_end(b, start, end);
        batch_args_text(a, strchr(kinds, kind_of(first)), 1);
        batch_args_number(a, (int64_t)(stop - start));
        if (first->kind == STORE_APPEND) {
            add_key(a, prefix, first->key);
            batch_args_number(a, first->max_len);
        }
        for (; start < stop; start++)
            add_op(a, prefix, &b->ops[start]);
    }
}

void batch_args_free(struct batch_args *a)
{
    free(a->argv);
    free(a->lengths);
    free(a->arena);
    *a = (struct batch_args){0};
}

void store_batch_free(struct store_batch *b)
{
    for (size_t i = 0; i < b->count; i++) {
        free(b->ops[i].key);
        free(b->ops[i].json);
    }
    free(b->ops);
    *b = (struct store_batch){0};
}
