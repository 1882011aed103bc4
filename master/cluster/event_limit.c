// SPDX-License-Identifier: Apache-2.0
// Buckets by node's name, and a count for each node whose events are left out just now.
#include "master/cluster/event_limit.h"

#include "common/rate.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define NODES_MAX 65536

struct flood {
    char node[RATE_NAME_BYTES];
    uint64_t left_out;
    UT_hash_handle hh;
};

struct event_limit {
    struct rate_table *rates;
    struct flood *floods;
};

struct event_limit *event_limit_new(uint32_t per_second, uint32_t burst)
{
    const struct rate_options o = {per_second, burst, NODES_MAX};
    struct event_limit *l = calloc(1, sizeof(*l));
    if (l && rate_new(&o, &l->rates) < 0) {
        free(l);
        return NULL;
    }
    return l;
}

void event_limit_free(struct event_limit *l)
{
    struct flood *f, *next;
    if (!l)
        return;
    HASH_ITER (hh, l->floods, f, next) {
        HASH_DEL(l->floods, f);
        free(f);
    }
    rate_free(l->rates);
    free(l);
}

static enum event_verdict over(struct event_limit *l, const char *node, struct flood *f)
{
    if (f) {
        f->left_out++;
        return EVENT_LEFT_OUT;
    }
    f = calloc(1, sizeof(*f));
    if (!f)
        return EVENT_LEFT_OUT;
    memcpy(f->node, node, strnlen(node, sizeof(f->node) - 1));
    f->left_out = 1;
    HASH_ADD_STR(l->floods, node, f);
    return EVENT_LAST;
}

enum event_verdict event_limit_take(struct event_limit *l, const char *node, int64_t now_ms,
                                    uint64_t *ret_left_out)
{
    char key[RATE_NAME_BYTES] = "";
    struct flood *f = NULL;
    *ret_left_out = 0;
    memcpy(key, node, strnlen(node, sizeof(key) - 1));
    HASH_FIND_STR(l->floods, key, f);
    if (rate_take(l->rates, key, now_ms) > 0)
        return over(l, key, f);
    if (f) {
        *ret_left_out = f->left_out;
        HASH_DEL(l->floods, f);
        free(f);
    }
    return EVENT_GOES;
}
