// SPDX-License-Identifier: Apache-2.0
// Leases in the executor: without a valid one nothing starts, each answer renews what it names, and
// what can't be written down is not started.
#include "test/unit/agent/executor_fixture.h"

static int64_t deadline_of(const char *id)
{
    char path[ATTEMPT_PATH_BYTES], boot[40];
    cleanup_free char *text = NULL;
    int64_t deadline;
    size_t len;
    attempt_run_path(&dirs, id, "lease", path);
    ck_assert_int_eq(atomic_file_read(path, 1000, &text, &len, NULL), 0);
    ck_assert_int_eq(sscanf(text, "meadow-lease 1 %*s %39s %ld", boot, &deadline), 2);
    return deadline;
}

START_TEST(leases_gate_starts)
    {
        engine_up();
        listed(NULL, ATTEMPT_ENDED);
        assign("a1", "i1", DESIRED_RUN, 60000);
        settle();
        ck_assert_uint_eq(fake.n_started, 0); // no answered sync yet
        int64_t sent = clock_boot_ms();
        executor_lease(x, &(struct sync_answer){0}, sent);
        settle();
        ck_assert_uint_eq(fake.n_started, 1);
        ck_assert_int_eq(deadline_of("a1"), sent + 60000);
        tell("a1", ATTEMPT_RUNNING, CAUSE_NONE);
        executor_lease(x, &(struct sync_answer){0}, sent + 5000);
        ck_assert_int_eq(deadline_of("a1"), sent + 65000);
    }
END_TEST

START_TEST(a_lease_that_can_not_be_written_does_not_start)
    {
        char path[ATTEMPT_PATH_BYTES];
        struct err e;
        engine_up();
        listed(NULL, ATTEMPT_ENDED);
        attempt_run_path(&dirs, "a1", "lease.tmp", path);
        ck_assert_int_eq(make_dirs(path, 0755, &e), 0); // no place for the file
        executor_lease(x, &(struct sync_answer){0}, clock_boot_ms());
        assign("a1", "i1", DESIRED_RUN, 60000);
        settle();
        ck_assert_uint_eq(fake.n_started, 0);
        ck_assert_int_eq(status_of("a1")->cause, CAUSE_ENGINE);
        ck_assert_ptr_nonnull(strstr(status_of("a1")->reason, "lease"));
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

START_TEST(what_an_answer_does_not_name_is_not_renewed)
    {
        engine_up();
        listed(NULL, ATTEMPT_ENDED);
        int64_t sent = clock_boot_ms();
        executor_lease(x, &(struct sync_answer){0}, sent);
        assign("a1", "i1", DESIRED_RUN, 60000);
        assign("a2", "i1", DESIRED_RUN, 60000);
        settle();
        tell("a1", ATTEMPT_RUNNING, CAUSE_NONE);
        tell("a2", ATTEMPT_RUNNING, CAUSE_NONE);
        char names[1][ATTEMPT_ID_BYTES] = {"a1"};
        struct sync_answer only = {.lease_scope = LEASES_ONLY, .leases = names, .n_leases = 1};
        executor_lease(x, &only, sent + 5000);
        ck_assert_int_eq(deadline_of("a1"), sent + 65000);
        ck_assert_int_eq(deadline_of("a2"), sent + 60000);
        struct sync_answer except = {.lease_scope = LEASES_EXCEPT, .leases = names, .n_leases = 1};
        executor_lease(x, &except, sent + 10000);
        ck_assert_int_eq(deadline_of("a1"), sent + 65000);
        ck_assert_int_eq(deadline_of("a2"), sent + 70000);
        executor_lease(x, &(struct sync_answer){0}, sent + 7000); // overtaken by a later one
        ck_assert_int_eq(deadline_of("a1"), sent + 65000);
    }
END_TEST

int main(void)
{
    TCase *tc = tcase_create("leases");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, leases_gate_starts);
    tcase_add_test(tc, a_lease_that_can_not_be_written_does_not_start);
    tcase_add_test(tc, old_lease_does_not_start);
    tcase_add_test(tc, what_an_answer_does_not_name_is_not_renewed);
    return run_case("executor_lease", tc);
}
