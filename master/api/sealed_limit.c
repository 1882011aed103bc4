// SPDX-License-Identifier: Apache-2.0
// Token buckets in a bounded map; the address that was seen longest ago makes room.
#include "master/api/sealed_limit.h"

#include <stdio.h>
#include <stdlib.h>
#include <uthash.h>

struct bucket {
    char address[64];
    double tokens; // below zero after failures
    int64_t at_ms;
    UT_hash_handle hh; // order of last use
};

struct sealed_limit {
    double rate;
    struct bucket *all;
};

struct sealed_limit *sealed_limit_new(int64_t rate)
{
    struct sealed_limit *l = calloc(1, sizeof(*l));
    if (l)
        l->rate = (double)rate;
    return l;
}

void sealed_limit_free(struct sealed_limit *l)
{
    struct bucket *b, *tmp;
    if (!l)
        return;
    HASH_ITER (hh, l->all, b, tmp) {
        HASH_DEL(l->all, b);
        free(b);
    }
    free(l);
}

static struct bucket *bucket_of(struct sealed_limit *l, const char *address, int64_t now_ms)
{
    struct bucket *b = NULL;
    HASH_FIND_STR(l->all, address, b);
    if (b) { // to the end: in order of use
        HASH_DEL(l->all, b);
    } else {
        if (HASH_COUNT(l->all) >= SEALED_LIMIT_ADDRESSES) {
            b = l->all;
            HASH_DEL(l->all, b);
        } else {
            b = malloc(sizeof(*b));
        }
        if (!b)
            return NULL;
        *b = (struct bucket){.tokens = 2 * l->rate, .at_ms = now_ms};
        (void)snprintf(b->address, sizeof(b->address), "%s", address);
    }
    HASH_ADD_STR(l->all, address, b);
    return b;
}

bool sealed_limit_take(struct sealed_limit *l, const char *address, int64_t now_ms)
{
    struct bucket *b = bucket_of(l, address, now_ms);
    if (!b)
        return false;
    b->tokens += (double)(now_ms - b->at_ms) * l->rate / 1000;
    b->at_ms = now_ms;
    if (b->tokens > 2 * l->rate)
        b->tokens = 2 * l->rate;
    if (b->tokens < 1)
        return false;
    b->tokens -= 1;
    return true;
}

void sealed_limit_failed(struct sealed_limit *l, const char *address)
{
    struct bucket *b = NULL;
    HASH_FIND_STR(l->all, address, b);
    if (b && b->tokens > -2 * l->rate)
        b->tokens -= SEALED_FAILURE_COST - 1;
}
