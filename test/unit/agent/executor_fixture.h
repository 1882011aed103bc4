// SPDX-License-Identifier: Apache-2.0
// The executor with real claims on disk and a scripted runtime.
#pragma once

#include "node-agent/executor.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "test/unit/suite.h"

#include <check.h>
#include <string.h>
#include <sys/stat.h>

#define CALLS_MAX 64
// --- a runtime that only writes down what it is asked --------------------------------------------

static struct fake {
    struct runtime base;
    char started[CALLS_MAX][ATTEMPT_ID_BYTES];
    char stopped[CALLS_MAX][ATTEMPT_ID_BYTES];
    char removed[CALLS_MAX][ATTEMPT_ID_BYTES];
    char adopted[CALLS_MAX][ATTEMPT_ID_BYTES];
    unsigned n_started, n_stopped, n_removed, n_adopted;
} fake;

static inline void note(char list[][ATTEMPT_ID_BYTES], unsigned *n, const char *id)
{
    ck_assert_uint_lt(*n, CALLS_MAX);
    (void)snprintf(list[(*n)++], ATTEMPT_ID_BYTES, "%s", id);
}

static inline void fake_start(struct runtime *r, const struct attempt_spec *spec)
{
    (void)r;
    note(fake.started, &fake.n_started, spec->id);
}

static inline void fake_adopt(struct runtime *r, const char *id)
{
    (void)r;
    note(fake.adopted, &fake.n_adopted, id);
}

static inline void fake_stop(struct runtime *r, const char *id, int64_t grace_ms)
{
    (void)r;
    (void)grace_ms;
    note(fake.stopped, &fake.n_stopped, id);
}

static inline void fake_remove(struct runtime *r, const char *id)
{
    (void)r;
    note(fake.removed, &fake.n_removed, id);
}

static const struct runtime_ops fake_ops = {.name = "fake",
                                            .start = fake_start,
                                            .adopt = fake_adopt,
                                            .stop = fake_stop,
                                            .remove = fake_remove};

// --- harness -------------------------------------------------------------------------------------

static uv_loop_t loop;
static struct tasks *tasks;
static struct executor *x;
static struct attempt_dirs dirs;
static char top[] = "/tmp/meadow-exec-XXXXXX";
static unsigned logs_opened, logs_ended, closed_count;
static bool prepare_fails;
static inline int prepare(struct attempt_spec *spec, void *userdata, struct err *e)
{
    (void)spec;
    (void)userdata;
    return prepare_fails ? err_set(e, -ENOSPC, "no room") : 0;
}
static inline void on_logs_open(const char *id, bool resume, void *userdata)
{
    (void)id;
    (void)resume;
    (void)userdata;
    logs_opened++;
}
static inline void on_logs_end(const char *id, void *userdata)
{
    (void)id;
    (void)userdata;
    logs_ended++;
}
static inline void on_logs_forget(const char *id, void *userdata)
{
    (void)id;
    (void)userdata;
}
static inline void on_node(void *userdata)
{
    (void)userdata;
}
static inline void on_closed(void *userdata)
{
    ++*(unsigned *)userdata;
}

static inline void make_executor(const char *instance)
{
    struct executor_options o = {.loop = &loop,
                                 .tasks = tasks,
                                 .dirs = dirs,
                                 .instance = instance,
                                 .boot_id = "boot",
                                 .max_starts = 2,
                                 .log_limit = 1 << 20,
                                 .prepare = prepare,
                                 .logs_open = on_logs_open,
                                 .logs_end = on_logs_end,
                                 .logs_forget = on_logs_forget,
                                 .node_changed = on_node};
    memset(&fake, 0, sizeof(fake));
    fake.base.ops = &fake_ops;
    ck_assert_int_eq(executor_new(&o, &x), 0);
    executor_set_runtime(x, &fake.base);
}

static inline void setup(void)
{
    struct err e;
    ck_assert_ptr_nonnull(mkdtemp(top));
    (void)snprintf(dirs.state, sizeof(dirs.state), "%s/state", top);
    (void)snprintf(dirs.run, sizeof(dirs.run), "%s/run", top);
    (void)strcpy(dirs.boot_id, "b");
    ck_assert_int_eq(make_dirs(dirs.state, 0700, &e), 0);
    ck_assert_int_eq(make_dirs(dirs.run, 0700, &e), 0);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(tasks_new(NULL, NULL, &tasks), 0);
    make_executor("i1");
}

static inline void settle(void) // until no worker is busy
{
    executor_run(x);
    while (uv_run(&loop, UV_RUN_DEFAULT) != 0)
        ;
    executor_run(x);
}

static inline void close_executor(void)
{
    closed_count = 0;
    executor_close(x, on_closed, &closed_count);
    while (uv_run(&loop, UV_RUN_DEFAULT) != 0)
        ;
    ck_assert_uint_eq(closed_count, 1);
}

static inline void teardown(void)
{
    struct err e;
    close_executor();
    tasks_free(tasks);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    ck_assert_int_eq(remove_tree(top, &e), 0);
}

static inline void restart(const char *instance)
{
    struct err e;
    close_executor();
    tasks_free(tasks);
    ck_assert_int_eq(tasks_new(NULL, NULL, &tasks), 0);
    make_executor(instance);
    ck_assert_msg(executor_load(x, &e) == 0, "%s", e.text);
}

static inline struct attempt_spec *spec_of(const char *id, const char *issued_to, int64_t lease_ms)
{
    struct attempt_spec *s = calloc(1, sizeof(*s));
    ck_assert_ptr_nonnull(s);
    (void)snprintf(s->id, sizeof(s->id), "%s", id);
    (void)snprintf(s->issued_to, sizeof(s->issued_to), "%s", issued_to);
    s->job = strdup("j1");
    s->job_name = strdup("job");
    s->user = strdup("u");
    s->component = strdup("c");
    s->attempt = 1;
    s->stop_signal = 15;
    s->lease_ms = lease_ms;
    return s;
}

static inline void assign(const char *id, const char *issued_to, enum desired_state desired,
                          int64_t lease_ms)
{
    static struct sync_position at;
    struct sync_answer a = {.has_assignment = true, .n_entries = 1};
    bool applied;

    a.base = at;
    a.position = (struct sync_position){1, at.generation + 1};
    a.entries = calloc(1, sizeof(*a.entries));
    ck_assert_ptr_nonnull(a.entries);
    a.entries[0] = (struct assignment_entry){spec_of(id, issued_to, lease_ms), desired};
    ck_assert_int_eq(assignment_apply(tasks, &a, "i1", &at, &applied), 0);
    ck_assert(applied);
    sync_answer_reset(&a);
}

static inline void engine_up(void)
{
    executor_runtime_events()->engine(true, NULL, NULL, x);
}

static inline void listed(const char *id, enum attempt_state state)
{
    struct runtime_attempt item = {
        .status = {.state = state, .cause = CAUSE_EXIT, .has_exit = true}};
    if (id)
        (void)snprintf(item.status.id, sizeof(item.status.id), "%s", id);
    executor_runtime_events()->listed(&item, id ? 1 : 0, x);
}

static inline void tell(const char *id, enum attempt_state state, enum attempt_cause cause)
{
    struct attempt_status s = {.state = state, .cause = cause, .pid = 42};
    (void)snprintf(s.id, sizeof(s.id), "%s", id);
    if (state == ATTEMPT_RUNNING)
        executor_runtime_events()->started(&s, x);
    else
        executor_runtime_events()->ended(&s, x);
}

static inline const struct attempt_status *status_of(const char *id)
{
    struct task *t = tasks_find(tasks, id);
    ck_assert_ptr_nonnull(t);
    return &t->status;
}

static inline bool claimed_on_disk(const char *id)
{
    char path[ATTEMPT_PATH_BYTES];
    attempt_path(&dirs, id, "claim.json", path);
    return access(path, F_OK) == 0;
}
