// SPDX-License-Identifier: Apache-2.0
// Records `sealed:<key>:<jti>` and the watermark `sealed:floor`.
#include "master/api/sealed_seen.h"

#include "common/cleanup.h"
#include "common/json.h"

#include <stdlib.h>
#include <string.h>

#define PREFIX "sealed:"
#define FLOOR "floor"
#define FORGET_AT_ONCE 64 // so that one request never pays for all of them

struct seen {
    char id[112]; // "<thumbprint>:<jti>"
    int64_t exp_s;
    UT_hash_handle hh; // insertion order
};

struct sealed_seen {
    struct cluster *cluster;
    int64_t started_s;
    int64_t floor_s; // requests that expire at or before are refused
    struct seen *all;
};

struct sealed_seen *sealed_seen_new(struct cluster *c, int64_t started_ms)
{
    struct sealed_seen *s = calloc(1, sizeof(*s));
    if (s) {
        s->cluster = c;
        s->started_s = started_ms / 1000;
    }
    return s;
}

void sealed_seen_free(struct sealed_seen *s)
{
    struct seen *x, *tmp;
    if (!s)
        return;
    HASH_ITER (hh, s->all, x, tmp) {
        HASH_DEL(s->all, x);
        free(x);
    }
    free(s);
}

static struct seen *add(struct sealed_seen *s, const char *id, int64_t exp_s)
{
    struct seen *x = calloc(1, sizeof(*x));
    if (!x)
        return NULL;
    (void)snprintf(x->id, sizeof(x->id), "%s", id);
    x->exp_s = exp_s;
    HASH_ADD_STR(s->all, id, x);
    return x;
}

int sealed_seen_load(struct sealed_seen *s, const char *key, const char *json, size_t len,
                     struct err *e)
{
    cleanup_json json_t *j = NULL;
    int64_t exp_s;
    if (strncmp(key, PREFIX, strlen(PREFIX)) != 0)
        return -ENOENT;
    int r = json_parse(json, len, &j, e);
    if (r == 0)
        r = json_get_i64(j, "exp", &exp_s, e);
    if (r < 0)
        return err_wrap(e, r, "record %s", key);
    if (strcmp(key + strlen(PREFIX), FLOOR) == 0)
        s->floor_s = exp_s;
    else if (!add(s, key + strlen(PREFIX), exp_s))
        return err_set(e, -ENOMEM, "out of memory");
    return 0;
}

static void put(struct sealed_seen *s, const char *id, int64_t exp_s)
{
    char key[128];
    cleanup_json json_t *j = json_object();
    json_put_i64(j, "exp", exp_s);
    (void)snprintf(key, sizeof(key), PREFIX "%s", id);
    // Without an expiry of Redis's own, which would forget by a clock that may jump.
    cluster_put(s->cluster, key, json_text(j), 0);
}

// Forgets the oldest that have expired; the watermark goes over them in the same batch.
static void forget(struct sealed_seen *s, int64_t now_s)
{
    int64_t floor_s = s->floor_s;
    for (int i = 0; i < FORGET_AT_ONCE && s->all && s->all->exp_s <= now_s; i++) {
        char key[128];
        struct seen *x = s->all;
        (void)snprintf(key, sizeof(key), PREFIX "%s", x->id);
        cluster_del(s->cluster, key);
        floor_s = x->exp_s > floor_s ? x->exp_s : floor_s;
        HASH_DEL(s->all, x);
        free(x);
    }
    if (floor_s == s->floor_s)
        return;
    s->floor_s = floor_s;
    put(s, FLOOR, floor_s);
}

int sealed_seen_accept(struct sealed_seen *s, const char *key_id, const char *jti, int64_t iat_s,
                       int64_t exp_s, int64_t now_s)
{
    char id[112];
    struct seen *x = NULL;
    (void)snprintf(id, sizeof(id), "%s:%s", key_id, jti);
    HASH_FIND_STR(s->all, id, x);
    if (x)
        return -EEXIST;
    if (exp_s <= s->floor_s || iat_s < s->started_s)
        return -ESTALE;
    forget(s, now_s);
    if (HASH_COUNT(s->all) >= SEALED_SEEN_MAX || !add(s, id, exp_s))
        return -ENOSPC;
    put(s, id, exp_s);
    return 0;
}

unsigned sealed_seen_count(const struct sealed_seen *s)
{
    return HASH_COUNT(s->all);
}
