// SPDX-License-Identifier: Apache-2.0
// The executor with real claims on disk and a scripted runtime: starts happen once, slots bound
// them, leases gate them, and what an earlier instance left is adopted or judged.
#include "test/unit/agent/executor_fixture.h"

#include <fcntl.h>
#include <sys/file.h>

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

// The start of an earlier instance comes through between the listing and the verdict: meadow-init
// holds its lock (0), or has left its record already (1).
START_TEST(a_start_that_comes_late_is_adopted)
    {
        char path[ATTEMPT_PATH_BYTES];
        engine_up();
        listed(NULL, ATTEMPT_ENDED);
        assign("a1", "i1", DESIRED_RUN, 0);
        settle();
        restart("i2");
        assign("a1", "i1", DESIRED_RUN, 0);
        attempt_path(&dirs, "a1", _i ? "out/exit" : "out/init.lock", path);
        cleanup_close int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        ck_assert_int_ge(fd, 0);
        if (_i)
            ck_assert_int_eq(write(fd, "3 0 exit 1 2 \n", 14), 14);
        else
            ck_assert_int_eq(flock(fd, LOCK_EX), 0);
        engine_up();
        listed(NULL, ATTEMPT_ENDED);
        settle();
        ck_assert_int_eq(status_of("a1")->state, ATTEMPT_STARTING);
        ck_assert_uint_eq(fake.n_adopted, 1);
        ck_assert_str_eq(fake.adopted[0], "a1");
        ck_assert_uint_eq(fake.n_started, 0);
        tell("a1", ATTEMPT_RUNNING, CAUSE_NONE);
        listed("a1", ATTEMPT_RUNNING); // told once
        settle();
        ck_assert_int_eq(status_of("a1")->state, ATTEMPT_RUNNING);
        assign("a1", "i1", DESIRED_STOP, 0);
        settle();
        ck_assert_uint_eq(fake.n_stopped, 1);
    }
END_TEST

// Nobody wants it any more, and the start of an earlier instance comes through now: its folders
// must not go while it lives.
START_TEST(a_late_start_of_a_dropped_one_is_stopped_first)
    {
        char path[ATTEMPT_PATH_BYTES];
        engine_up();
        listed(NULL, ATTEMPT_ENDED);
        assign("a1", "i1", DESIRED_RUN, 0);
        settle();
        restart("i2");
        attempt_path(&dirs, "a1", "out/init.lock", path);
        cleanup_close int fd = open(path, O_RDWR | O_CLOEXEC);
        ck_assert_int_eq(flock(fd, LOCK_EX), 0);
        tasks_find(tasks, "a1")->member = TASK_DROPPED;
        engine_up();
        listed(NULL, ATTEMPT_ENDED);
        settle();
        ck_assert_uint_eq(fake.n_adopted, 1);
        ck_assert_uint_eq(fake.n_stopped, 1);
        ck_assert_uint_eq(fake.n_removed, 0);
        ck_assert(claimed_on_disk("a1"));
        tell("a1", ATTEMPT_ENDED, CAUSE_STOPPED);
        settle();
        ck_assert_uint_eq(fake.n_removed, 1);
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
    tcase_add_test(tc, stop_before_and_during_start);
    tcase_add_test(tc, failed_preparation_ends_it);
    tcase_add_test(tc, restart_adopts_and_never_starts_twice);
    tcase_add_loop_test(tc, a_start_that_comes_late_is_adopted, 0, 2);
    tcase_add_test(tc, a_late_start_of_a_dropped_one_is_stopped_first);
    tcase_add_loop_test(tc, started_but_gone_is_unknown, 0, 2);
    tcase_add_test(tc, running_that_vanishes_is_unknown);
    tcase_add_test(tc, existing_claim_is_never_started);
    return run_case("executor", tc);
}
