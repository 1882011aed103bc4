// SPDX-License-Identifier: Apache-2.0
// Any records that Redis might hold: lines of "KEY JSON" are loaded as at a start, then the cluster
// starts, schedules, writes its records and shows them; what it wrote must load again.
#include "common/cleanup.h"
#include "common/json.h"
#include "master/api/idempotency.h"
#include "master/api/tokens.h"
#include "master/api/user_keys.h"
#include "master/cluster/cluster.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int good)
{
    if (!good)
        __builtin_trap();
}

// --- a commit queue in memory, in place of store/commit.c ---

static struct {
    bool marked;
    json_t *records;
    unsigned n_waiting;
    struct {
        void (*fn)(int result, void *userdata);
        void *userdata;
    } waiting[64];
} queue;

void commit_mark(struct commit *c)
{
    (void)c;
    queue.marked = true;
}

int commit_then(struct commit *c, int64_t timeout_ms, void (*fn)(int result, void *userdata),
                void *userdata)
{
    (void)c;
    (void)timeout_ms;
    if (queue.n_waiting == 64)
        return -ENOMEM;
    queue.waiting[queue.n_waiting].fn = fn;
    queue.waiting[queue.n_waiting++].userdata = userdata;
    return 0;
}

void commit_put(struct commit *c, const char *key, char *json, int64_t ttl_ms)
{
    (void)c;
    (void)ttl_ms;
    (void)json_object_set_new_nocheck(queue.records, key, json_string_nocheck(json ? json : ""));
    free(json);
}

void commit_del(struct commit *c, const char *key)
{
    (void)c;
    (void)json_object_del(queue.records, key);
}

void commit_append(struct commit *c, const char *stream, int64_t id, char *json, int64_t max_len)
{
    (void)c;
    (void)stream;
    (void)id;
    (void)max_len;
    free(json);
}

bool commit_pending(const struct commit *c)
{
    (void)c;
    return queue.marked;
}

// --- a start ---

static uv_loop_t loop;

static void on_node(struct node *n, void *userdata)
{
    (void)n;
    (void)userdata;
}

static void on_attempt(const char *id, void *userdata)
{
    (void)id;
    (void)userdata;
}

static void settle(struct cluster *c)
{
    for (int i = 0; i < 16 && (queue.marked || queue.n_waiting); i++) {
        unsigned n;
        while (queue.marked) {
            queue.marked = false;
            cluster_collect(c);
        }
        for (n = 0; n < queue.n_waiting; n++)
            queue.waiting[n].fn(0, queue.waiting[n].userdata);
        queue.n_waiting = 0;
    }
}

static void show(struct cluster *c)
{
    for (struct node *n = cluster_nodes(c); n; n = n->hh.next)
        json_decref(node_view(n));
    for (struct job *j = cluster_jobs_newest(c); j; j = cluster_job_older(c, j))
        json_decref(job_view(j, true));
}

struct parts {
    struct cluster *cluster;
    struct tokens *tokens;
    struct idempotency *idempotency;
    struct user_keys *keys;
};

static int load(struct parts *p, const char *key, const char *json, size_t len)
{
    struct err e = {""};
    int r = cluster_load(p->cluster, key, json, len, &e);
    if (r == -ENOENT)
        r = tokens_load(p->tokens, key, json, len, &e);
    if (r == -ENOENT)
        r = idempotency_load(p->idempotency, key, json, len, &e);
    if (r == -ENOENT)
        r = user_keys_load(p->keys, key, json, len, &e);
    if (r == -ENOENT && strncmp(key, "event:", 6) == 0)
        cluster_load_event(p->cluster, strtoll(key + 6, NULL, 10) & 0xffff, json, len);
    require(r == 0 || r == -ENOENT || e.text[0] != '\0');
    return r == -ENOENT ? 0 : r;
}

static struct parts open_parts(void)
{
    const struct cluster_options o = {.loop = &loop,
                                      .id = "caaaaaaaaaaaa",
                                      .name = "test",
                                      .sync_interval_ms = 1000,
                                      .lease_ms = 60000,
                                      .disk_full_percent = 90,
                                      .assignment_moved = on_node,
                                      .logs_complete = on_attempt,
                                      .forget_logs = on_attempt};
    struct parts p = {.cluster = cluster_new(&o)};
    p.tokens = tokens_new(p.cluster);
    p.idempotency = idempotency_new();
    p.keys = user_keys_new(p.cluster);
    return p;
}

static void close_parts(struct parts *p)
{
    tokens_free(p->tokens);
    idempotency_free(p->idempotency);
    user_keys_free(p->keys);
    cluster_close(p->cluster, NULL, NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    cluster_free(p->cluster);
}

static int work(struct parts *p)
{
    struct err e = {""};
    int r = cluster_start(p->cluster, (struct commit *)&queue, 2, 0x10000, &e);
    if (r < 0)
        return r;
    settle(p->cluster);
    show(p->cluster);
    json_decref(tokens_list(p->tokens, NULL));
    json_decref(user_keys_list(p->keys, NULL));
    return 0;
}

// Redis hands the keys out in the order of their names.
static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void load_again(void)
{
    json_t *before = queue.records;
    const char *keys[256], *key;
    size_t n = 0;
    json_t *value;
    struct parts p = open_parts();
    queue.records = json_object();
    json_object_foreach (before, key, value)
        if (n < 256)
            keys[n++] = key;
    qsort(keys, n, sizeof(*keys), by_name);
    for (size_t i = 0; i < n; i++) {
        value = json_object_get(before, keys[i]);
        require(load(&p, keys[i], json_string_value(value), json_string_length(value)) == 0);
    }
    require(work(&p) == 0);
    close_parts(&p);
    json_decref(before);
}

static int load_lines(struct parts *p, const char *text, size_t size)
{
    char key[128];
    int r = 0;
    while (size > 0 && r == 0) {
        const char *end = memchr(text, '\n', size);
        size_t len = end ? (size_t)(end - text) : size;
        const char *space = memchr(text, ' ', len);
        size_t key_len = space ? (size_t)(space - text) : len;
        if (key_len < sizeof(key)) {
            memcpy(key, text, key_len);
            key[key_len] = '\0';
            if (space)
                r = load(p, key, space + 1, len - key_len - 1);
        }
        text += len + (end != NULL);
        size -= len + (end != NULL);
    }
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool started;
    if (!started)
        require(uv_loop_init(&loop) == 0);
    started = true;
    memset(&queue, 0, sizeof(queue));
    queue.records = json_object();
    struct parts p = open_parts();
    int r = load_lines(&p, (const char *)data, size);
    if (r == 0)
        r = work(&p);
    close_parts(&p);
    queue.n_waiting = 0;
    queue.marked = false;
    if (r == 0)
        load_again();
    json_decref(queue.records);
    queue.n_waiting = 0;
    return 0;
}
