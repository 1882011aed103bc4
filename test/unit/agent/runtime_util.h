// SPDX-License-Identifier: Apache-2.0
// For tests of runtime drivers: a driver on a loop of its own, what it told, waiting for that with
// a bound, and specs.
#pragma once

#include "test/unit/agent/init_util.h"

#include "common/clock.h"
#include "node-agent/runtime/runtime.h"

#define BENCH_EVENTS_MAX 4096

enum seen_kind {
    SEEN_ENGINE,
    SEEN_LISTED,
    SEEN_PHASE,
    SEEN_STARTED,
    SEEN_ENDED,
    SEEN_REMOVED,
    SEEN_IMAGES
};

struct seen {
    enum seen_kind kind;
    struct attempt_status status; // id, reason (engine, phase); exit_code = number of a listing
    int64_t at_ms;
};

struct bench {
    uv_loop_t loop;
    uv_timer_t bound;
    bool timed_out, closed;
    char top[64];
    char data[80];
    struct runtime_options o;
    int64_t uid, gid; // of the next specs
    struct runtime *rt;
    struct seen events[BENCH_EVENTS_MAX];
    size_t n;
    struct runtime_attempt *listed; // of the newest listing
    size_t n_listed;
    json_t *images; // as told last
};

static struct bench bench;
// Ids of this test alone: the driver finds processes by them, so tests side by side must not share
// any.
static char A1[ATTEMPT_ID_BYTES], A2[ATTEMPT_ID_BYTES];

static void make_id(char id[ATTEMPT_ID_BYTES], int n)
{
    (void)snprintf(id, ATTEMPT_ID_BYTES, "a%dx%d", (int)getpid(), n);
}

static struct seen *note(enum seen_kind kind, const char *id, const char *text)
{
    ck_assert_uint_lt(bench.n, BENCH_EVENTS_MAX);
    struct seen *s = &bench.events[bench.n++];
    *s = (struct seen){.kind = kind, .at_ms = clock_mono_ms()};
    (void)snprintf(s->status.id, sizeof(s->status.id), "%s", id);
    (void)snprintf(s->status.reason, sizeof(s->status.reason), "%s", text ? text : "");
    return s;
}

static void on_engine(bool ok, const char *reason, const json_t *info, void *userdata)
{
    (void)info;
    (void)userdata;
    note(SEEN_ENGINE, "", reason)->status.has_exit = ok;
}

static void on_listed(const struct runtime_attempt *items, size_t n, void *userdata)
{
    (void)userdata;
    free(bench.listed);
    bench.listed = calloc(n + 1, sizeof(*items));
    memcpy(bench.listed, items, n * sizeof(*items));
    bench.n_listed = n;
    note(SEEN_LISTED, "", "")->status.exit_code = (int)n;
}

static void on_phase(const char *id, const char *text, void *userdata)
{
    (void)userdata;
    (void)note(SEEN_PHASE, id, text);
}

static void on_started(const struct attempt_status *status, void *userdata)
{
    (void)userdata;
    note(SEEN_STARTED, status->id, "")->status = *status;
}

static void on_ended(const struct attempt_status *status, void *userdata)
{
    (void)userdata;
    note(SEEN_ENDED, status->id, "")->status = *status;
}

static void on_removed(const char *id, void *userdata)
{
    (void)userdata;
    (void)note(SEEN_REMOVED, id, "");
}

static void on_images(const json_t *names, void *userdata)
{
    (void)userdata;
    json_decref(bench.images);
    bench.images = json_deep_copy(names);
    (void)note(SEEN_IMAGES, "", "");
}

static const struct runtime_events bench_events = {on_engine, on_listed,  on_phase, on_started,
                                                   on_ended,  on_removed, on_images};

// The newest event of a kind for an attempt ("" = any), or NULL.
UNUSED static struct seen *last(enum seen_kind kind, const char *id)
{
    for (size_t i = bench.n; i-- > 0;)
        if (bench.events[i].kind == kind && (!*id || strcmp(bench.events[i].status.id, id) == 0))
            return &bench.events[i];
    return NULL;
}

UNUSED static size_t count(enum seen_kind kind, const char *id)
{
    size_t n = 0;
    for (size_t i = 0; i < bench.n; i++)
        n += bench.events[i].kind == kind && (!*id || strcmp(bench.events[i].status.id, id) == 0);
    return n;
}

static void on_bound(uv_timer_t *t)
{
    (void)t;
    bench.timed_out = true;
}

// Runs the loop until there are `want` events of the kind.
UNUSED static void wait_count(enum seen_kind kind, const char *id, size_t want, unsigned bound_ms)
{
    static const char *const names[] = {"engine", "listed", "phase", "started", "ended", "removed"};
    bench.timed_out = false;
    (void)uv_timer_start(&bench.bound, on_bound, bound_ms, 0);
    while (count(kind, id) < want && !bench.timed_out)
        (void)uv_run(&bench.loop, UV_RUN_ONCE);
    (void)uv_timer_stop(&bench.bound);
    const struct seen *e = last(SEEN_ENDED, id);
    ck_assert_msg(!bench.timed_out, "%zu of %zu events \"%s\" of \"%s\" in %u ms (ended: %s)",
                  count(kind, id), want, names[kind], id, bound_ms, e ? e->status.reason : "not");
}

UNUSED static const struct attempt_status *wait_for(enum seen_kind kind, const char *id)
{
    wait_count(kind, id, 1, 20000);
    return &last(kind, id)->status;
}

// Lets the loop turn for a while: only to show that nothing happens.
UNUSED static void run_for(unsigned ms)
{
    bench.timed_out = false;
    (void)uv_timer_start(&bench.bound, on_bound, ms, 0);
    while (!bench.timed_out)
        (void)uv_run(&bench.loop, UV_RUN_ONCE);
}

UNUSED static void bench_init(void)
{
    memset(&bench, 0, sizeof(bench));
    make_id(A1, 1);
    make_id(A2, 2);
    make_folder(bench.top);
    ck_assert_int_eq(uv_loop_init(&bench.loop), 0);
    (void)uv_timer_init(&bench.loop, &bench.bound);
    (void)snprintf(bench.data, sizeof(bench.data), "%s/data", bench.top);
    ck_assert_int_eq(mkdir(bench.data, 0755), 0);
    bench.o = (struct runtime_options){
        .loop = &bench.loop,
        .events = &bench_events,
        .cluster_id = "cluster-test",
        .node_id = "ntest",
        .node_name = "node-1",
        .init_path = init_path(),
        .data_dir = bench.data,
        .docker_socket = "",
        .cgroup_parent = "",
        .total_cpu_milli = 2000,
    };
    (void)snprintf(bench.o.dirs.state, sizeof(bench.o.dirs.state), "%.40s/state", bench.top);
    (void)snprintf(bench.o.dirs.run, sizeof(bench.o.dirs.run), "%.40s/run", bench.top);
}

UNUSED static void on_runtime_closed(void *userdata)
{
    (void)userdata;
    bench.closed = true;
}

// As when the agent ends: attempts run on.
UNUSED static void bench_close_runtime(void)
{
    if (!bench.rt)
        return;
    bench.closed = false;
    bench.rt->ops->close(bench.rt, on_runtime_closed, NULL);
    bench.rt = NULL;
    while (!bench.closed)
        (void)uv_run(&bench.loop, UV_RUN_ONCE);
    bench.n = 0;
}

// Fails when the driver left a handle in the loop.
UNUSED static void bench_end(void)
{
    bench_close_runtime();
    uv_close((uv_handle_t *)&bench.bound, NULL);
    (void)uv_run(&bench.loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&bench.loop), 0);
    json_decref(bench.images);
    free(bench.listed);
    remove_folder(bench.top);
}

// A spec with a shell command, claimed. Freed by the caller.
UNUSED static struct attempt_spec *make_spec(const char *id, const char *script)
{
    struct attempt_spec *s = calloc(1, sizeof(*s));
    struct err e;
    ck_assert_ptr_nonnull(s);
    (void)snprintf(s->id, sizeof(s->id), "%s", id);
    (void)snprintf(s->issued_to, sizeof(s->issued_to), "iabcdefghijklmnop");
    s->job = strdup("jabcdefghijkl");
    s->job_name = strdup("name");
    s->user = strdup("admin");
    s->component = strdup("actor");
    s->attempt = 1;
    if (script) {
        s->command = calloc(4, sizeof(char *));
        s->command[0] = strdup("/bin/sh");
        s->command[1] = strdup("-c");
        s->command[2] = strdup(script);
    }
    s->stop_signal = SIGTERM;
    s->grace_ms = 10000;
    s->log_limit = 1 << 20;
    s->uid = bench.uid;
    s->gid = bench.gid;
    ck_assert_msg(attempt_claim(&bench.o.dirs, s, &e) == 0, "%s", e.text);
    return s;
}

UNUSED static void start_spec(struct attempt_spec *s)
{
    bench.rt->ops->start(bench.rt, s);
    attempt_spec_free(s);
}

UNUSED static void start_sh(const char *id, const char *script)
{
    start_spec(make_spec(id, script));
}

// Whether `text` has `before`, the id of attempt A1, and `after` in a row.
UNUSED static bool has_id(const char *text, const char *before, const char *after)
{
    char want[256];
    (void)snprintf(want, sizeof(want), "%s%s%s", before, A1, after);
    return strstr(text, want) != NULL;
}

UNUSED static void out_dir(const char *id, char path[ATTEMPT_PATH_BYTES])
{
    attempt_path(&bench.o.dirs, id, "out", path);
}

UNUSED static char *output_of(const char *id, const char *stream)
{
    char path[ATTEMPT_PATH_BYTES];
    size_t len;
    uint64_t offset;
    out_dir(id, path);
    return read_stream(path, stream, &len, &offset);
}
