// SPDX-License-Identifier: Apache-2.0
// What group commit costs beside Redis itself: records made durable per second through commit +
// store, and by redis-benchmark on the same server in the same minute. The disk decides the
// absolute figures; the ratios are ours.
//   window N: N clients, each with one record under way, as keep-alive submitters would be
//   bulk:     one client that marks thousands of records a turn
#include "common/atomic_file.h"
#include "common/clock.h"
#include "common/log.h"
#include "master/store/commit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define VALUE_BYTES 100
#define SPAN_MS 1500
#define BULK 5000 // records a turn
#define CLIENTS_MAX 64

struct bench {
    uv_loop_t loop;
    char dir[64];
    struct store *store;
    struct commit *commit;
    long *dirty; // numbers of the records to write
    size_t n_dirty;
    long next, done;
    size_t per_change;
    int64_t until;
    int clients;
    int64_t worst_us, started_us[CLIENTS_MAX];
    double cpu_us; // of this process, per record
    bool finished;
};

struct client {
    struct bench *bench;
    int index;
};

static void give_up(const char *what)
{
    (void)fprintf(stderr, "bench_store: %s\n", what);
    exit(EXIT_FAILURE);
}

static int64_t now_us(void)
{
    return (int64_t)(uv_hrtime() / 1000);
}

static char *value_of(long n)
{
    char *json = malloc(VALUE_BYTES + 1);
    if (!json)
        give_up("out of memory");
    int len = snprintf(json, VALUE_BYTES, "{\"n\":%ld,\"pad\":\"", n);
    memset(json + len, 'x', (size_t)(VALUE_BYTES - len));
    memcpy(json + VALUE_BYTES - 2, "\"}", 3);
    return json;
}

static void collect(void *userdata)
{
    struct bench *b = userdata;
    char key[32];
    for (size_t i = 0; i < b->n_dirty; i++) {
        (void)snprintf(key, sizeof(key), "job:%06ld", b->dirty[i] % 100000);
        commit_put(b->commit, key, value_of(b->dirty[i]), 0);
    }
    b->n_dirty = 0;
}

static void submit(struct client *c);

static void on_durable(int result, void *userdata)
{
    struct client *c = userdata;
    struct bench *b = c->bench;
    int64_t now = now_us();
    if (result < 0)
        give_up("a change was not made durable");
    b->done += (long)b->per_change;
    if (now - b->started_us[c->index] > b->worst_us)
        b->worst_us = now - b->started_us[c->index];
    if (clock_mono_ms() < b->until) {
        submit(c);
        return;
    }
    free(c);
    if (--b->clients == 0)
        uv_stop(&b->loop);
}

static void submit(struct client *c)
{
    struct bench *b = c->bench;
    b->started_us[c->index] = now_us();
    for (size_t i = 0; i < b->per_change; i++)
        b->dirty[b->n_dirty++] = b->next++;
    commit_mark(b->commit);
    if (commit_then(b->commit, 0, on_durable, c) < 0)
        give_up("out of memory");
}

static double cpu_now_us(void)
{
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

// Records a second.
static double run_commit(struct bench *b, int clients, size_t per_change)
{
    int64_t start = now_us();
    double cpu = cpu_now_us();
    b->done = 0;
    b->worst_us = 0;
    b->per_change = per_change;
    b->until = clock_mono_ms() + SPAN_MS;
    b->clients = clients;
    for (int i = 0; i < clients; i++) {
        struct client *c = malloc(sizeof(*c));
        if (!c)
            give_up("out of memory");
        *c = (struct client){b, i};
        submit(c);
    }
    (void)uv_run(&b->loop, UV_RUN_DEFAULT);
    b->cpu_us = (cpu_now_us() - cpu) / (double)b->done;
    return (double)b->done * 1e6 / (double)(now_us() - start);
}

// The same by redis-benchmark, `pipeline` commands at a time. 0 when it isn't installed.
static double run_redis(const struct bench *b, int clients, int pipeline, long requests)
{
    char command[300], line[300];
    double rate = 0;
    (void)snprintf(command, sizeof(command),
                   "redis-benchmark -s %s/run/redis.sock -t set -c %d -P %d -n %ld -d %d -r 100000 "
                   "--csv 2>/dev/null",
                   b->dir, clients, pipeline, requests, VALUE_BYTES);
    FILE *f = popen(command, "r");
    while (f && fgets(line, sizeof(line), f))
        (void)sscanf(line, "\"SET\",\"%lf\"", &rate);
    if (f)
        (void)pclose(f);
    return rate;
}

static void report(const struct bench *b, const char *name, double ours, double redis)
{
    (void)printf("%-10s %8.0f records/s, worst %6.2f ms, CPU %5.1f us each", name, ours,
                 (double)b->worst_us / 1000, b->cpu_us);
    if (redis > 0)
        (void)printf("; redis-benchmark %8.0f/s; ratio %5.2f", redis, ours / redis);
    (void)printf("\n");
    (void)fflush(stdout);
}

static void measure(struct bench *b)
{
    static const struct {
        const char *name;
        int clients;
        size_t per_change;
        int redis_clients, redis_pipeline; // Redis takes 64 clients in all
    } rows[] = {{"window 1", 1, 1, 1, 1},
                {"window 16", 16, 1, 16, 1},
                {"window 64", 64, 1, 60, 1},
                {"bulk", 1, BULK, 1, 1000}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double ours = run_commit(b, rows[i].clients, rows[i].per_change);
        report(b, rows[i].name, ours,
               run_redis(b, rows[i].redis_clients, rows[i].redis_pipeline, (long)ours));
    }
}

static void on_ready(int error, const struct err *e, void *userdata)
{
    struct bench *b = userdata;
    if (error < 0)
        give_up(e->text);
    b->finished = true;
    uv_stop(&b->loop);
}

static void on_record(const char *key, const char *json, size_t len, void *userdata)
{
    (void)key, (void)json, (void)len, (void)userdata;
}

static void on_health(bool ok, const char *reason, void *userdata)
{
    (void)userdata;
    if (!ok)
        give_up(reason);
}

static void on_lost(const char *reason, void *userdata)
{
    (void)userdata;
    give_up(reason);
}

static void on_closed(void *userdata)
{
    (void)userdata;
}

int main(void)
{
    static struct bench b;
    const char *tmp = getenv("TMPDIR"); // /dev/shm there shows what is left without a disk
    char data[80], run[80], log[80];
    struct err e = {""};
    log_setup("bench_store", LOG_LEVEL_WARN);
    (void)snprintf(b.dir, sizeof(b.dir), "%s/meadow-bench-XXXXXX", tmp ? tmp : "/tmp");
    b.dirty = calloc(BULK + CLIENTS_MAX, sizeof(*b.dirty));
    if (!b.dirty || !mkdtemp(b.dir) || uv_loop_init(&b.loop) < 0)
        give_up("can't start");
    (void)snprintf(data, sizeof(data), "%s/data", b.dir);
    (void)snprintf(run, sizeof(run), "%s/run", b.dir);
    (void)snprintf(log, sizeof(log), "%s/log", b.dir);
    const struct store_options o = {.loop = &b.loop,
                                    .data_dir = data,
                                    .run_dir = run,
                                    .log_path = log,
                                    .cluster_id = "bench",
                                    .ready = on_ready,
                                    .record = on_record,
                                    .health = on_health,
                                    .lost = on_lost,
                                    .userdata = &b};
    if (store_open(&o, &b.store, &e) < 0)
        give_up(e.text);
    while (!b.finished)
        (void)uv_run(&b.loop, UV_RUN_DEFAULT);
    b.commit = commit_new(&b.loop, b.store, collect, &b);
    if (!b.commit)
        give_up("out of memory");
    measure(&b);
    commit_close(b.commit, on_closed, NULL);
    (void)uv_run(&b.loop, UV_RUN_NOWAIT);
    store_close(b.store, on_closed, NULL);
    (void)uv_run(&b.loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&b.loop);
    if (remove_tree(b.dir, &e) < 0)
        give_up(e.text);
    free(b.dirty);
    return 0;
}
