// SPDX-License-Identifier: Apache-2.0
// Loads every record at start: all names first (SCAN), sorted and without the repeats that SCAN may
// give, then their values in chunks. Sorted, so that a load is the same every time. Values that are
// no text (the streams, the meta hash) come back as nil and are skipped. When the connection is
// lost the names are asked for again, or the values go on where they were: nobody else writes once
// the epoch is ours.
#include "master/store/store_internal.h"

#include "common/cleanup.h"

#include <stdlib.h>
#include <string.h>

#define SCAN_COUNT "1000"
#define CHUNK 200

struct loader {
    char **keys;
    size_t count, capacity;
    size_t next; // first key without a value yet
    bool all_known;
    char cursor[32];
};

static void drop_keys(struct loader *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->keys[i]);
    l->count = 0;
}

void loader_free(struct loader *l)
{
    if (!l)
        return;
    drop_keys(l);
    free(l->keys);
    free(l);
}

static int add_key(struct loader *l, const char *key)
{
    if (l->count == l->capacity) {
        size_t capacity = l->capacity ? l->capacity * 2 : 1024;
        char **keys = realloc(l->keys, capacity * sizeof(*keys));
        if (!keys)
            return -ENOMEM;
        l->keys = keys;
        l->capacity = capacity;
    }
    l->keys[l->count] = strdup(key);
    return l->keys[l->count] ? (l->count++, 0) : -ENOMEM;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_unique(struct loader *l)
{
    size_t kept = 0;
    if (l->count > 0)
        qsort(l->keys, l->count, sizeof(*l->keys), compare);
    for (size_t i = 0; i < l->count; i++) {
        if (kept > 0 && strcmp(l->keys[kept - 1], l->keys[i]) == 0)
            free(l->keys[i]);
        else
            l->keys[kept++] = l->keys[i];
    }
    l->count = kept;
}

static void stop(struct store *s, const struct redisReply *reply, const char *what)
{
    if (store_is_busy(reply))
        redis_conn_drop(s->conn, reply_text(reply, NULL));
    else
        store_fail(s, -EPROTO, what);
}

// --- values ---

static int ask_values(struct store *s);

static void deliver(struct store *s, const struct redisReply *values, size_t n)
{
    struct loader *l = s->loader;
    size_t prefix = strlen(s->prefix);
    for (size_t i = 0; i < n && s->phase == STORE_STARTING; i++) {
        size_t len;
        const struct redisReply *value = reply_item(values, i);
        const char *json = reply_text(value, &len);
        if (reply_kind(value) == REPLY_TEXT)
            s->options.record(l->keys[l->next + i] + prefix, json, len, s->options.userdata);
    }
    l->next += n;
}

static void on_values(const struct redisReply *reply, void *userdata)
{
    struct store *s = userdata;
    struct loader *l = s->loader;
    if (!reply || !redis_conn_is_up(s->conn) || s->phase != STORE_STARTING)
        return;
    size_t n = l->count - l->next < CHUNK ? l->count - l->next : CHUNK;
    if (reply_count(reply) != n) {
        stop(s, reply, "loading: unexpected answer to MGET");
        return;
    }
    deliver(s, reply, n);
    if (s->phase == STORE_STARTING && ask_values(s) < 0)
        redis_conn_drop(s->conn, "loading: out of memory");
}

static int ask_values(struct store *s)
{
    const char *argv[CHUNK + 1] = {"MGET"};
    size_t lengths[CHUNK + 1] = {4};
    struct loader *l = s->loader;
    if (l->next == l->count) {
        store_loaded(s);
        return 0;
    }
    int argc = 1;
    for (size_t i = l->next; i < l->count && argc <= CHUNK; i++, argc++) {
        argv[argc] = l->keys[i];
        lengths[argc] = strlen(l->keys[i]);
    }
    return redis_conn_command(s->conn, argc, argv, lengths, on_values, s);
}

// --- names ---

static int ask_names(struct store *s);

static int keep_names(struct loader *l, const struct redisReply *names)
{
    int r = 0;
    for (size_t i = 0; i < reply_count(names) && r == 0; i++) {
        size_t len;
        const char *key = reply_text(reply_item(names, i), &len);
        if (strlen(key) == len) // not one of ours otherwise
            r = add_key(l, key);
    }
    return r;
}

static void on_names(const struct redisReply *reply, void *userdata)
{
    struct store *s = userdata;
    struct loader *l = s->loader;
    if (!reply || !redis_conn_is_up(s->conn) || s->phase != STORE_STARTING)
        return;
    size_t len = 0;
    const char *cursor = reply_count(reply) == 2 ? reply_text(reply_item(reply, 0), &len) : "";
    if (len == 0 || len >= sizeof(l->cursor)) {
        stop(s, reply, "loading: unexpected answer to SCAN");
        return;
    }
    int r = keep_names(l, reply_item(reply, 1));
    memcpy(l->cursor, cursor, len + 1);
    if (r == 0 && strcmp(cursor, "0") == 0) {
        sort_unique(l);
        l->all_known = true;
        r = ask_values(s);
    } else if (r == 0) {
        r = ask_names(s);
    }
    if (r < 0)
        redis_conn_drop(s->conn, "loading: out of memory");
}

static int ask_names(struct store *s)
{
    cleanup_free char *pattern = NULL;
    if (asprintf(&pattern, "%s*", s->prefix) < 0) {
        pattern = NULL;
        return -ENOMEM;
    }
    return redis_conn_call(s->conn, on_names, s, "SCAN", s->loader->cursor, "MATCH", pattern,
                           "COUNT", SCAN_COUNT, (const char *)NULL);
}

int store_load(struct store *s)
{
    if (!s->loader)
        s->loader = calloc(1, sizeof(*s->loader));
    if (!s->loader)
        return -ENOMEM;
    if (s->loader->all_known)
        return ask_values(s);
    drop_keys(s->loader);
    memcpy(s->loader->cursor, "0", 2);
    return ask_names(s);
}
