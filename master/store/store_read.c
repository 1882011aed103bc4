// SPDX-License-Identifier: Apache-2.0
// Reads of streams. A read without an answer is asked again on the next connection; entries are
// handed over only when the whole answer is here, so none comes twice.
#include "master/store/store_internal.h"

#include "common/cleanup.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct stream_read {
    struct store *store;
    char *key;
    int64_t after;
    size_t limit;
    void (*entry)(int64_t id, const char *json, size_t len, void *userdata);
    void (*done)(int result, void *userdata);
    void *userdata;
    struct stream_read *prev, *next;
};

static void finish(struct stream_read *r, int result)
{
    r->done(result, r->userdata);
    free(r->key);
    free(r);
}

// One entry: [ "12-0", [ "json", "{...}" ] ]
static void deliver(const struct stream_read *r, const struct redisReply *item)
{
    size_t len;
    const struct redisReply *fields = reply_item(item, 1);
    if (reply_count(item) != 2 || reply_count(fields) < 2)
        return;
    const char *json = reply_text(reply_item(fields, 1), &len);
    r->entry(strtoll(reply_text(reply_item(item, 0), NULL), NULL, 10), json, len, r->userdata);
}

static void on_entries(const struct redisReply *reply, void *userdata)
{
    struct stream_read *r = userdata;
    struct store *s = r->store;
    if (!reply || !redis_conn_is_up(s->conn) || s->phase != STORE_RUNNING)
        return;
    if (reply_kind(reply) != REPLY_LIST && store_is_busy(reply)) {
        redis_conn_drop(s->conn, reply_text(reply, NULL));
        return;
    }
    DL_DELETE(s->reads, r);
    for (size_t i = 0; i < reply_count(reply) && s->phase == STORE_RUNNING; i++)
        deliver(r, reply_item(reply, i));
    int result = reply_kind(reply) == REPLY_LIST ? 0 : -EPROTO;
    finish(r, s->phase == STORE_RUNNING ? result : -ECANCELED);
}

static void send_read(struct stream_read *r)
{
    char after[32], limit[32];
    (void)snprintf(after, sizeof(after), "%" PRId64, r->after + 1);
    (void)snprintf(limit, sizeof(limit), "%zu", r->limit);
    int result = redis_conn_call(r->store->conn, on_entries, r, "XRANGE", r->key, after, "+",
                                 "COUNT", limit, (const char *)NULL);
    if (result == -ENOMEM)
        redis_conn_drop(r->store->conn, "out of memory");
}

void store_send_reads(struct store *s)
{
    struct stream_read *r;
    DL_FOREACH (s->reads, r)
        if (s->usable)
            send_read(r);
}

void store_cancel_reads(struct store *s)
{
    while (s->reads) {
        struct stream_read *r = s->reads;
        DL_DELETE(s->reads, r);
        finish(r, -ECANCELED);
    }
}

int store_read(struct store *s, const char *key, int64_t after, size_t limit,
               void (*entry)(int64_t id, const char *json, size_t len, void *userdata),
               void (*done)(int result, void *userdata), void *userdata)
{
    if (s->phase != STORE_RUNNING)
        return -ENOTCONN;
    struct stream_read *r = calloc(1, sizeof(*r));
    if (!r || asprintf(&r->key, "%s%s", s->prefix, key) < 0) {
        free(r);
        return -ENOMEM;
    }
    r->store = s;
    r->after = after < INT64_MAX ? after : INT64_MAX - 1;
    r->limit = limit;
    r->entry = entry;
    r->done = done;
    r->userdata = userdata;
    DL_APPEND(s->reads, r);
    if (s->usable)
        send_read(r);
    return 0;
}
