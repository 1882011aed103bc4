// SPDX-License-Identifier: Apache-2.0
// Buckets are counted in thousandths of a token: `per_second` tokens a second are as many
// thousandths a millisecond, so nothing is ever rounded.
#include "common/rate.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

#define TOKEN 1000

struct bucket {
    char name[RATE_NAME_BYTES];
    int64_t content; // thousandths
    int64_t at_ms;   // when that was right
    UT_hash_handle hh;
    struct bucket *prev, *next; // least recently used first
};

struct rate_table {
    struct rate_options options;
    struct bucket *by_name;
    struct bucket *used;
};

int rate_new(const struct rate_options *o, struct rate_table **ret)
{
    struct rate_table *t = calloc(1, sizeof(*t));
    if (!t)
        return -ENOMEM;
    t->options = *o;
    if (t->options.burst == 0)
        t->options.burst = 1;
    if (t->options.max_names == 0)
        t->options.max_names = 1;
    *ret = t;
    return 0;
}

static void forget(struct rate_table *t, struct bucket *b)
{
    HASH_DEL(t->by_name, b);
    DL_DELETE(t->used, b);
    free(b);
}

void rate_free(struct rate_table *t)
{
    while (t && t->used)
        forget(t, t->used);
    free(t);
}

unsigned rate_names(const struct rate_table *t)
{
    return HASH_COUNT(t->by_name);
}

static int64_t full(const struct rate_table *t)
{
    return (int64_t)t->options.burst * TOKEN;
}

static struct bucket *make(struct rate_table *t, const char *name, int64_t now_ms)
{
    if (HASH_COUNT(t->by_name) >= t->options.max_names)
        forget(t, t->used);
    struct bucket *b = calloc(1, sizeof(*b));
    if (!b)
        return NULL;
    memcpy(b->name, name, strlen(name) + 1);
    b->content = full(t);
    b->at_ms = now_ms;
    HASH_ADD_STR(t->by_name, name, b);
    DL_APPEND(t->used, b);
    return b;
}

static void fill(const struct rate_table *t, struct bucket *b, int64_t now_ms)
{
    int64_t passed = now_ms - b->at_ms;
    int64_t lacking = full(t) - b->content;
    if (passed <= 0)
        return;
    b->at_ms = now_ms;
    if (passed > lacking / (int64_t)t->options.per_second)
        b->content = full(t);
    else
        b->content += passed * (int64_t)t->options.per_second;
}

int64_t rate_take(struct rate_table *t, const char *name, int64_t now_ms)
{
    char key[RATE_NAME_BYTES] = "";
    struct bucket *b;
    if (t->options.per_second == 0)
        return 0;
    memcpy(key, name, strnlen(name, sizeof(key) - 1));
    HASH_FIND_STR(t->by_name, key, b);
    if (!b)
        b = make(t, key, now_ms);
    if (!b)
        return 0;
    DL_DELETE(t->used, b);
    DL_APPEND(t->used, b);
    fill(t, b, now_ms);
    if (b->content < TOKEN) {
        int64_t per = t->options.per_second;
        return (TOKEN - b->content + per - 1) / per;
    }
    b->content -= TOKEN;
    return 0;
}
