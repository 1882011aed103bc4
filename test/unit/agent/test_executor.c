// SPDX-License-Identifier: Apache-2.0
// The executor with real claims on disk and a scripted runtime: starts happen once, slots bound
// them, leases gate them, and what an earlier instance left is adopted or judged.
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
    unsigned n_started, n_stopped, n_removed;
} fake;

static void note(char list[][ATTEMPT_ID_BYTES], unsigned *n, const char *id)
{
    ck_assert_uint_lt(*n, CALLS_MAX);
    (void)snprintf(list[(*n)++], ATTEMPT_ID_BYTES, "%s", id);
}

static void fake_start(struct runtime *r, const struct attempt_spec *spec)
{
    (void)r;
    note(fake.started, &fake.n_started, spec->id);
}

static void fake_stop(struct runtime *r, const char *id, int64_t grace_ms)
{
    (void)r;
    (void)grace_ms;
    note(fake.stopped, &fake.n_stopped, id);
}

static void fake_remove(struct runtime *r, const char *id)
{
    (void)r;
    note(fake.removed, &fake.n_removed, id);
}

static const struct runtime_ops fake_ops = {
    .name = "fake", .start = fake_start, .stop = fake_stop, .remove = fake_remove};

// --- harness -------------------------------------------------------------------------------------

static uv_loop_t loop;
static struct tasks *tasks;
static struct executor *x;
static struct attempt_dirs dirs;
static char top[] = "/tmp/meadow-exec-XXXXXX";
static unsigned logs_opened, logs_ended, closed_count;
static bool prepare_fails;
static int prepare(struct attempt_spec *spec, void *userdata, struct err *e)
{
    (void)spec;
    (void)userdata;
    return prepare_fails ? err_set(e, -ENOSPC, "no room") : 0;
}
static void on_logs_open(const char *id, bool resume, void *userdata)
{
    (void)id;
    (void)resume;
    (void)userdata;
    logs_opened++;
}
static void on_logs_end(const char *id, void *userdata)
{
    (void)id;
    (void)userdata;
    logs_ended++;
}
static void on_logs_forget(const char *id, void *userdata)
{
    (void)id;
    (void)userdata;
}
static void on_node(void *userdata)
{
    (void)userdata;
}
static void on_closed(void *userdata)
{
    ++*(unsigned *)userdata;
}

static void make_executor(const char *instance)
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

static void setup(void)
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

static void settle(void) // until no worker is busy
{
    executor_run(x);
    while (uv_run(&loop, UV_RUN_DEFAULT) != 0)
        ;
    executor_run(x);
}

static void close_executor(void)
{
    closed_count = 0;
    executor_close(x, on_closed, &closed_count);
    while (uv_run(&loop, UV_RUN_DEFAULT) != 0)
        ;
    ck_assert_uint_eq(closed_count, 1);
}

static void teardown(void)
{
    struct err e;
    close_executor();
    tasks_free(tasks);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    ck_assert_int_eq(remove_tree(top, &e), 0);
}

static void restart(const char *instance)
{
    struct err e;
    close_executor();
    tasks_free(tasks);
    ck_assert_int_eq(tasks_new(NULL, NULL, &tasks), 0);
    make_executor(instance);
    ck_assert_msg(executor_load(x, &e) == 0, "%s", e.text);
}

static struct attempt_spec *spec_of(const char *id, const char *issued_to, int64_t lease_ms)
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

static void assign(const char *id, const char *issued_to, enum desired_state desired,
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

static void engine_up(void)
{
    executor_runtime_events()->engine(true, NULL, NULL, x);
}

static void listed(const char *id, enum attempt_state state)
{
    struct runtime_attempt item = {
        .status = {.state = state, .cause = CAUSE_EXIT, .has_exit = true}};
    if (id)
        (void)snprintf(item.status.id, sizeof(item.status.id), "%s", id);
    executor_runtime_events()->listed(&item, id ? 1 : 0, x);
}

static void tell(const char *id, enum attempt_state state, enum attempt_cause cause)
{
    struct attempt_status s = {.state = state, .cause = cause, .pid = 42};
    (void)snprintf(s.id, sizeof(s.id), "%s", id);
    if (state == ATTEMPT_RUNNING)
        executor_runtime_events()->started(&s, x);
    else
        executor_runtime_events()->ended(&s, x);
}

static const struct attempt_status *status_of(const char *id)
{
    struct task *t = tasks_find(tasks, id);
    ck_assert_ptr_nonnull(t);
    return &t->status;
}

static bool claimed_on_disk(const char *id)
{
    char path[ATTEMPT_PATH_BYTES];
    attempt_path(&dirs, id, "claim.json", path);
    return access(path, F_OK) == 0;
}

// --- tests ---------------------------------------------------------------------------------------

START_TEST(life_of_an_attempt)
    {
        engine_up();
        listed(NULL, ATTEMPT_ENDED);
        assign("a1", "i1", DESIRED_RUN, 0);
        settle();
        ck_assert_uint_eq(fake.n_started, 1);
        ck_assert(claimed_on_disk("a1"));
        ck_assert_int_eq(status_of("a1")->state, ATTEMPT_STARTING);
        ck_assert_uint_eq(executor_starting(x), 1);
        executor_runtime_events()->phase("a1", "pulling", x);
        ck_assert_str_eq(status_of("a1")->reason, "pulling");
        tell("a1", ATTEMPT_RUNNING, CAUSE_NONE);
        ck_assert_int_eq(status_of("a1")->state, ATTEMPT_RUNNING);
        ck_assert_int_eq(status_of("a1")->pid, 42);
        ck_assert_uint_eq(executor_starting(x), 0);
        tell("a1", ATTEMPT_ENDED, CAUSE_EXIT);
        settle();
        ck_assert_int_eq(status_of("a1")->cause, CAUSE_EXIT);
        ck_assert_int_eq(status_of("a1")->logs, LOGS_OPEN);
        ck_assert_uint_eq(logs_opened, 1);
        ck_assert_uint_eq(logs_ended, 1);
        tasks_find(tasks, "a1")->member = TASK_DROPPED;
        tasks_touch(tasks, tasks_find(tasks, "a1"));
        settle();
        ck_assert_uint_eq(fake.n_removed, 1);
        executor_runtime_events()->removed("a1", x);
        settle();
        ck_assert_ptr_null(tasks_find(tasks, "a1"));
        ck_assert(!claimed_on_disk("a1"));
        ck_assert_uint_eq(fake.n_started, 1);
    }
END_TEST

START_TEST(starts_are_bounded)
    {
        char id[ATTEMPT_ID_BYTES];
        engine_up();
        listed(NULL, ATTEMPT_ENDED);
        for (int i = 0; i < 5; i++) {
            (void)snprintf(id, sizeof(id), "a%d", i);
            assign(id, "i1", DESIRED_RUN, 0);
        }
        settle();
        ck_assert_uint_eq(fake.n_started, 2);
        ck_assert_int_eq(status_of("a4")->state, ATTEMPT_ASSIGNED);
        tell(fake.started[0], ATTEMPT_RUNNING, CAUSE_NONE);
        settle();
        ck_assert_uint_eq(fake.n_started, 3);
        tell(fake.started[1], ATTEMPT_ENDED, CAUSE_START_FAILED);
        tell(fake.started[2], ATTEMPT_ENDED, CAUSE_IMAGE);
        settle();
        ck_assert_uint_eq(fake.n_started, 5);
        ck_assert_uint_eq(executor_starting(x), 2);
    }
END_TEST

START_TEST(nothing_starts_before_listing_or_engine)
    {
        assign("a1", "i1", DESIRED_RUN, 0);
        settle();
        engine_up();
        settle();
        ck_assert_uint_eq(fake.n_started, 0);
        ck_assert(!executor_listed(x));
        listed(NULL, ATTEMPT_ENDED);
        settle();
        ck_assert_uint_eq(fake.n_started, 1);
        executor_runtime_events()->engine(false, "gone fishing", NULL, x);
        assign("a2", "i1", DESIRED_RUN, 0);
        settle();
        ck_assert_int_eq(status_of("a2")->cause, CAUSE_ENGINE);
        ck_assert_str_eq(status_of("a2")->reason, "gone fishing");
        ck_assert(!claimed_on_disk("a2"));
    }
END_TEST

START_TEST(leases_gate_starts)
    {
        char path[ATTEMPT_PATH_BYTES];
        char *text = NULL;
        size_t len;
        int64_t deadline;
        char boot[32];

        engine_up();
        listed(NULL, ATTEMPT_ENDED);
        assign("a1", "i1", DESIRED_RUN, 60000);
        settle();
        ck_assert_uint_eq(fake.n_started, 0); // no answered sync yet
        int64_t sent = clock_boot_ms();
        executor_lease(x, &(struct sync_answer){0}, sent);
        settle();
        ck_assert_uint_eq(fake.n_started, 1);
        attempt_run_path(&dirs, "a1", "lease", path);
        ck_assert_int_eq(atomic_file_read(path, 1000, &text, &len, NULL), 0);
        ck_assert_int_eq(sscanf(text, "meadow-lease 1 a1 %31s %ld", boot, &deadline), 2);
        ck_assert_int_eq(deadline, sent + 60000);
        free(text);
        tell("a1", ATTEMPT_RUNNING, CAUSE_NONE);
        executor_lease(x, &(struct sync_answer){0}, sent + 5000);
        ck_assert_int_eq(atomic_file_read(path, 1000, &text, &len, NULL), 0);
        ck_assert_int_eq(sscanf(text, "meadow-lease 1 a1 %31s %ld", boot, &deadline), 2);
        ck_assert_int_eq(deadline, sent + 65000);
        free(text);
    }
END_TEST

START_TEST(old_lease_does_not_start)
    {
        engine_up();
        listed(NULL, ATTEMPT_ENDED);
        executor_lease(x, &(struct sync_answer){0}, clock_boot_ms() - 10000);
        assign("a1", "i1", DESIRED_RUN, 5000);
        settle();
        ck_assert_uint_eq(fake.n_started, 0);
        executor_lease(x, &(struct sync_answer){0}, clock_boot_ms());
        settle();
        ck_assert_uint_eq(fake.n_started, 1);
    }
END_TEST

START_TEST(stop_before_and_during_start)
    {
        engine_up();
        listed(NULL, ATTEMPT_ENDED);
        assign("a1", "i1", DESIRED_STOP, 0);
        settle();
        ck_assert_int_eq(status_of("a1")->cause, CAUSE_STOPPED);
        ck_assert_int_eq(status_of("a1")->logs, LOGS_COMPLETE);
        assign("a2", "i1", DESIRED_RUN, 0);
        executor_run(x); // the claim is under way now
        assign("a2", "i1", DESIRED_STOP, 0);
        settle();
        ck_assert_int_eq(status_of("a2")->cause, CAUSE_STOPPED);
        ck_assert_uint_eq(fake.n_started, 0);
        assign("a3", "i1", DESIRED_RUN, 0);
        settle();
        assign("a3", "i1", DESIRED_STOP, 0);
        settle();
        ck_assert_uint_eq(fake.n_stopped, 1);
        ck_assert_int_eq(status_of("a3")->state, ATTEMPT_STOPPING);
        tell("a3", ATTEMPT_RUNNING, CAUSE_NONE);
        ck_assert_int_eq(status_of("a3")->state, ATTEMPT_STOPPING);
        tell("a3", ATTEMPT_ENDED, CAUSE_STOPPED);
        settle();
        ck_assert_uint_eq(executor_starting(x), 0);
    }
END_TEST

START_TEST(failed_preparation_ends_it)
    {
        engine_up();
        listed(NULL, ATTEMPT_ENDED);
        prepare_fails = true;
        assign("a1", "i1", DESIRED_RUN, 0);
        settle();
        ck_assert_int_eq(status_of("a1")->cause, CAUSE_ENGINE);
        ck_assert_str_eq(status_of("a1")->reason, "no room");
        ck_assert_uint_eq(fake.n_started, 0);
        ck_assert_uint_eq(executor_starting(x), 0);
        prepare_fails = false;
    }
END_TEST

START_TEST(restart_adopts_and_never_starts_twice)
    {
        engine_up();
        listed(NULL, ATTEMPT_ENDED);
        assign("a1", "i1", DESIRED_RUN, 0);
        assign("a2", "i1", DESIRED_RUN, 0);
        settle();
        ck_assert_uint_eq(fake.n_started, 2);
        restart("i2");
        ck_assert_uint_eq(tasks_count(tasks), 2);
        assign("a1", "i1", DESIRED_RUN, 0);
        assign("a2", "i1", DESIRED_RUN, 0);
        assign("a3", "i1", DESIRED_RUN, 0); // issued to the instance before, which never got it
        engine_up();
        settle();
        ck_assert(!tasks_find(tasks, "a1")->known); // not in any inventory before the listing
        listed("a1", ATTEMPT_RUNNING);
        settle();
        ck_assert_int_eq(status_of("a1")->state, ATTEMPT_RUNNING);
        ck_assert_int_eq(status_of("a2")->state, ATTEMPT_ENDED);
        ck_assert_int_eq(status_of("a2")->cause,
                         CAUSE_NEVER_STARTED); // same boot, no `started` record
        ck_assert_int_eq(status_of("a3")->cause, CAUSE_NEVER_STARTED);
        ck_assert_uint_eq(fake.n_started, 0);
        struct exit_record record;
        ck_assert_int_eq(attempt_exit_read(&dirs, "a2", &record, NULL), 0); // the verdict lasts
        ck_assert_int_eq(record.cause, CAUSE_NEVER_STARTED);
    }
END_TEST

START_TEST(started_but_gone_is_unknown)
    {
        char path[ATTEMPT_PATH_BYTES];
        engine_up();
        listed(NULL, ATTEMPT_ENDED);
        assign("a1", "i1", DESIRED_RUN, 0);
        settle();
        attempt_path(&dirs, "a1", "out/started", path);
        ck_assert_int_eq(atomic_file_write(path, "77 1000\n", 8, 0644, NULL), 0);
        dirs.boot_id[0] = _i ? 'B' : 'b';
        restart("i2");
        engine_up();
        listed(NULL, ATTEMPT_ENDED);
        settle();
        ck_assert_int_eq(status_of("a1")->cause, _i ? CAUSE_NODE_LOST : CAUSE_UNKNOWN);
    }
END_TEST

START_TEST(running_that_vanishes_is_unknown)
    {
        engine_up();
        listed("a9", ATTEMPT_RUNNING); // no claim: known by the runtime alone
        settle();
        ck_assert_int_eq(status_of("a9")->state, ATTEMPT_RUNNING);
        listed(NULL, ATTEMPT_ENDED);
        settle();
        ck_assert_int_eq(status_of("a9")->cause, CAUSE_UNKNOWN);
    }
END_TEST

START_TEST(existing_claim_is_never_started)
    {
        struct err e;
        struct attempt_spec *s = spec_of("a1", "i1", 0);
        engine_up();
        listed(NULL, ATTEMPT_ENDED);
        ck_assert_int_eq(attempt_claim(&dirs, s, &e), 0); // behind the executor's back
        attempt_spec_free(s);
        assign("a1", "i1", DESIRED_RUN, 0);
        settle();
        ck_assert_uint_eq(fake.n_started, 0);
        ck_assert_int_eq(status_of("a1")->cause, CAUSE_UNKNOWN);
    }
END_TEST

int main(void)
{
    TCase *tc = tcase_create("executor");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, life_of_an_attempt);
    tcase_add_test(tc, starts_are_bounded);
    tcase_add_test(tc, nothing_starts_before_listing_or_engine);
    tcase_add_test(tc, leases_gate_starts);
    tcase_add_test(tc, old_lease_does_not_start);
    tcase_add_test(tc, stop_before_and_during_start);
    tcase_add_test(tc, failed_preparation_ends_it);
    tcase_add_test(tc, restart_adopts_and_never_starts_twice);
    tcase_add_loop_test(tc, started_but_gone_is_unknown, 0, 2);
    tcase_add_test(tc, running_that_vanishes_is_unknown);
    tcase_add_test(tc, existing_claim_is_never_started);
    return run_case("executor", tc);
}
