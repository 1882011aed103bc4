// SPDX-License-Identifier: Apache-2.0
// A cluster model without sockets and store, for its unit tests: the commit queue is replaced by
// one that is durable when the test says so (which is the point: nothing may be published before),
// and agents are scripted. One test file includes it: it holds the queue's functions.
#pragma once

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "master/cluster/cluster.h"
#include "proto/version.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

// --- a commit queue by hand (in place of store/commit.c) ---

#define WAITERS 64

static struct {
    void (*collect)(void *userdata);
    void *userdata;
    bool marked;
    struct {
        void (*fn)(int result, void *userdata);
        void *userdata;
    } waiters[WAITERS];
    int n_waiters;
    int puts, dels, appends;
    json_t *records; // key -> text, as the store would have
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
    ck_assert_int_lt(queue.n_waiters, WAITERS);
    queue.waiters[queue.n_waiters].fn = fn;
    queue.waiters[queue.n_waiters++].userdata = userdata;
    return 0;
}

void commit_put(struct commit *c, const char *key, char *json, int64_t ttl_ms)
{
    (void)c;
    (void)ttl_ms;
    queue.puts++;
    json_put_str(queue.records, key, json);
    free(json);
}

void commit_del(struct commit *c, const char *key)
{
    (void)c;
    queue.dels++;
    (void)json_object_del(queue.records, key);
}

void commit_append(struct commit *c, const char *stream, int64_t id, char *json, int64_t max_len)
{
    (void)c;
    (void)stream;
    (void)id;
    (void)max_len;
    queue.appends++;
    free(json);
}

bool commit_pending(const struct commit *c)
{
    (void)c;
    return queue.marked;
}

static struct commit *const fake = (struct commit *)&queue;

// --- the cluster under test ---

static uv_loop_t loop;
static struct cluster *cluster;
static int moved;                      // calls of assignment_moved
static int64_t keep_jobs, keep_age_ms; // of jobs that are over; 0 = all
static char forgotten[8][ATTEMPT_ID_BYTES];
static int n_forgotten;
static int64_t log_bytes; // of all logs, as the test counts them

static inline void on_moved(struct node *n, void *userdata)
{
    (void)n;
    (void)userdata;
    moved++;
}

static inline void on_logs(const char *attempt_id, void *userdata)
{
    (void)attempt_id;
    (void)userdata;
}

static inline void on_forget(const char *attempt_id, void *userdata)
{
    (void)userdata;
    log_bytes -= log_bytes > 0;
    if (n_forgotten < 8)
        (void)snprintf(forgotten[n_forgotten++], ATTEMPT_ID_BYTES, "%s", attempt_id);
}

static inline int64_t on_kept(void *userdata)
{
    (void)userdata;
    return log_bytes;
}

static inline void collect_only(void)
{
    while (queue.marked) {
        queue.marked = false;
        cluster_collect(cluster);
    }
}

// Everything pending becomes durable. Callbacks may mark again: that is the next batch.
static inline void settle(void)
{
    while (queue.marked || queue.n_waiters) {
        collect_only();
        int n = queue.n_waiters;
        queue.n_waiters = 0;
        struct {
            void (*fn)(int result, void *userdata);
            void *userdata;
        } due[WAITERS];
        memcpy(due, queue.waiters, sizeof(due));
        for (int i = 0; i < n; i++)
            due[i].fn(0, due[i].userdata);
    }
}

static int64_t aside_failures;              // of the next cluster; 0 = no node is set aside
static int64_t half_life_ms, hold_after_ms; // of the next cluster; 0 = no fair share, no head

static inline struct cluster *make(void)
{
    const struct cluster_options o = {.loop = &loop,
                                      .id = "caaaaaaaaaaaa",
                                      .name = "test",
                                      .sync_interval_ms = 1000,
                                      .lease_ms = 60000,
                                      .disk_full_percent = 90,
                                      .history = {keep_jobs, keep_age_ms},
                                      .aside = {aside_failures, 60000, 240000},
                                      .scheduling.half_life_ms = half_life_ms,
                                      .scheduling.hold_after_ms = hold_after_ms,
                                      .assignment_moved = on_moved,
                                      .logs_complete = on_logs,
                                      .logs_kept = on_kept,
                                      .forget_logs = on_forget};
    return cluster_new(&o);
}

static inline void setup(void)
{
    struct err e = {""};
    memset(&queue, 0, sizeof(queue));
    queue.records = json_object();
    moved = n_forgotten = 0;
    keep_jobs = keep_age_ms = 0;
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    cluster = make();
    ck_assert_msg(cluster_start(cluster, fake, 1, 0, &e) == 0, "%s", e.text);
    settle();
}

static inline void end_cluster(void)
{
    cluster_close(cluster, NULL, NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    cluster_free(cluster);
}

// The master starts again with what is durable.
static inline void restart_cluster(int64_t epoch)
{
    struct err e = {""};
    const char *key;
    json_t *text;
    end_cluster();
    cluster = make();
    json_object_foreach (queue.records, key, text) {
        const char *record = json_string_value(text);
        ck_assert_msg(cluster_load(cluster, key, record, strlen(record), &e) == 0, "%s: %s", key,
                      e.text);
    }
    ck_assert_msg(cluster_start(cluster, fake, epoch, 100, &e) == 0, "%s", e.text);
    settle();
}

static inline void teardown(void)
{
    end_cluster();
    json_decref(queue.records);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

// --- a scripted agent ---

struct agent {
    struct node *node;
    char instance[INSTANCE_BYTES];
    int64_t seq, change;
    struct sync_position applied;
    struct attempt_status held[8];
    struct attempt_holds holds[8]; // what inventories tell of them
    size_t n_held;
};

static json_t *said_usage;     // goes with the next message
static json_t *said_images;    // likewise
static int64_t clock_ahead_ms; // of the agents' clocks

static inline json_t *node_info(int cpu)
{
    return json_pack("{s:s, s:s, s:b, s:{s:i, s:I, s:i}, s:{s:i, s:i}}", "address", "10.0.0.1",
                     "runtime", "process", "ready", 1, "resources", "cpu", cpu * 1000, "memory",
                     (json_int_t)8 << 30, "gpu", 2, "ports", "first", 20000, "count", 100);
}

static inline int say(struct agent *a, bool inventory, json_t *info, bool all)
{
    struct err e = {""};
    struct sync_request m = {.protocol = MEADOW_PROTOCOL,
                             .seq = ++a->seq,
                             .applied = a->applied,
                             .clock_ms = clock_real_ms() + clock_ahead_ms,
                             .has_inventory = inventory};
    m.inventory_complete = inventory;
    m.node = info;
    m.usage = said_usage;
    m.images = said_images;
    said_usage = said_images = NULL;
    memcpy(m.instance, a->instance, sizeof(m.instance));
    uint64_t sum = 0;
    for (size_t i = 0; i < a->n_held; i++)
        sum += inventory_hash(a->held[i].id, a->held[i].state);
    inventory_digest(sum, m.digest);
    if (all || inventory) {
        m.statuses = calloc(a->n_held + 1, sizeof(*m.statuses));
        memcpy(m.statuses, a->held, a->n_held * sizeof(*m.statuses));
        m.holds = inventory ? calloc(a->n_held + 1, sizeof(*m.holds)) : NULL;
        if (m.holds)
            memcpy(m.holds, a->holds, a->n_held * sizeof(*m.holds));
        m.n_statuses = a->n_held;
    }
    int r = cluster_node_message(cluster, a->node, &m, &e);
    sync_request_reset(&m);
    if (r == 0)
        settle();
    return r;
}

static inline void agent_join(struct agent *a, const char *name, int cpu)
{
    struct err e = {""};
    char key[65];
    (void)snprintf(key, sizeof(key), "key-of-%s", name);
    const struct node_claim claim = {name, key, "", true};
    ck_assert_msg(cluster_node_join(cluster, &claim, &a->node, &e) == 0, "%s", e.text);
    (void)snprintf(a->instance, sizeof(a->instance), "i-%s-1", name);
    settle();
    ck_assert_int_eq(say(a, true, node_info(cpu), false), 0);
    ck_assert_int_eq(a->node->state, NODE_READY);
}

// Fetches and applies what is assigned; returns how many entries the answer had.
static inline size_t agent_apply(struct agent *a, enum desired_state *ret_desired)
{
    struct sync_answer answer;
    ck_assert_int_eq(cluster_node_answer(cluster, a->node, &a->applied, &answer), 0);
    size_t n = answer.n_entries;
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < a->n_held && strcmp(a->held[k].id, answer.entries[i].spec->id) != 0)
            k++;
        if (k == a->n_held) {
            a->held[k] = (struct attempt_status){.change = ++a->change};
            memcpy(a->held[k].id, answer.entries[i].spec->id, ATTEMPT_ID_BYTES);
            a->n_held++;
        }
        if (ret_desired)
            *ret_desired = answer.entries[i].desired;
    }
    for (size_t i = 0; i < answer.n_removed; i++)
        for (size_t k = 0; k < a->n_held; k++)
            if (strcmp(a->held[k].id, answer.removed[i]) == 0) {
                a->held[k] = a->held[--a->n_held];
                break;
            }
    a->applied = answer.position;
    sync_answer_reset(&answer);
    return n;
}

static inline void agent_state(struct agent *a, size_t i, enum attempt_state state,
                               enum attempt_cause cause, int code, enum logs_state logs)
{
    struct attempt_status *s = &a->held[i];
    s->change = ++a->change;
    s->state = state;
    s->cause = cause;
    s->exit_code = code;
    s->has_exit = cause == CAUSE_EXIT;
    s->logs = logs;
    if (state == ATTEMPT_RUNNING && !s->started_ms)
        s->started_ms = clock_real_ms();
    ck_assert_int_eq(say(a, false, NULL, true), 0);
}

static inline struct job *submit(const char *text)
{
    struct err e = {""};
    struct job_problems problems = {0};
    struct job_warnings warnings = {0};
    struct job_spec *spec = NULL;
    struct job *j = NULL;
    ck_assert_msg(
        job_spec_parse(text, strlen(text), "json", NULL, &spec, &problems, &warnings, &e) == 0,
        "%s", e.text);
    job_problems_free(&problems);
    job_warnings_free(&warnings);
    ck_assert_msg(cluster_job_submit(cluster, spec, "ann", &j, &e) == 0, "%s", e.text);
    return j;
}
