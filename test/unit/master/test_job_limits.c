// SPDX-License-Identifier: Apache-2.0
// Deadlines and limits of waiting, in any order of submission; and after a restart.
#include "test/unit/master/cluster_fixture.h"

#include "master/cluster/cluster_internal.h"
#include "master/cluster/job_limits.h"
#include "test/unit/suite.h"

static struct job *put(const char *name, const char *limits)
{
    char text[500];
    (void)snprintf(text, sizeof(text),
                   "{\"name\":\"%s\",%s,\"components\":{\"m\":{\"command\":\"true\","
                   "\"resources\":{\"cpu\":1}}}}",
                   name, limits);
    struct job *j = submit(text);
    settle();
    return j;
}

static void look(int64_t boot_ms)
{
    job_limits_look(cluster, LIMIT_BOOT, boot_ms);
    settle();
}

START_TEST(test_each_ends_at_its_time)
    {
        enum { N = 50 };
        char name[16], limits[64];
        struct job *jobs[N];
        for (int i = 0; i < N; i++) { // 7 and 50 have no common divisor: each once, scrambled
            (void)snprintf(name, sizeof(name), "x%d", i);
            (void)snprintf(limits, sizeof(limits), "\"%s\":\"%dm\"",
                           i % 2 ? "wait_limit" : "deadline", 10 + i * 7 % N);
            jobs[i] = put(name, limits);
            jobs[i]->submitted_boot_ms = 1; // all at one time
        }
        for (int i = 0; i < N; i++) // as if they had been submitted then
            job_limits_update(cluster, jobs[i]);
        cluster_job_stop(cluster, jobs[3], "ann", "stopped by ann");
        for (int step = 0; step < 2 * N; step++) { // one ms before, and then
            int ended = step / 2 + step % 2;
            look(INT64_C(60000) * (10 + step / 2) + step % 2);
            for (int i = 0; i < N; i++)
                ck_assert_int_eq(jobs[i]->state, i == 3              ? JOB_STOPPED
                                                 : i * 7 % N < ended ? JOB_FAILED
                                                                     : JOB_PENDING);
        }
        ck_assert_uint_eq(cluster->limits[LIMIT_BOOT].n, 0);
        ck_assert_str_eq(jobs[1]->reason, "it had not started within its wait_limit of 17m");
    }
END_TEST

START_TEST(test_one_that_started_only_has_its_deadline)
    {
        struct agent a = {0};
        agent_join(&a, "n1", 1);
        struct job *j = put("x", "\"wait_limit\":\"1m\",\"deadline\":\"1h\"");
        struct job *y = put("y", "\"wait_limit\":\"1m\",\"deadline\":\"30s\"");
        ck_assert_int_eq(j->tasks[0].state, TASK_ASSIGNED);
        ck_assert_int_eq(j->limits[LIMIT_BOOT].ms, j->submitted_boot_ms + 3600000);
        ck_assert_int_eq(y->limits[LIMIT_BOOT].ms, y->submitted_boot_ms + 30000);
        ck_assert_int_eq(job_deadline(j), j->submitted_ms + 3600000);
        look(j->submitted_boot_ms + 60001);
        ck_assert_int_eq(y->state, JOB_FAILED);
        ck_assert_ptr_nonnull(strstr(y->reason, "its deadline has passed"));
        ck_assert_int_eq(j->state, JOB_RUNNING);
        char id[JOB_ID_BYTES];
        memcpy(id, j->id, sizeof(id));
        int64_t deadline = j->limits[LIMIT_BOOT].ms;
        restart_cluster(2);
        j = cluster_job_by_id(cluster, id);
        ck_assert_int_eq(j->limits[LIMIT_BOOT].ms, deadline);
        look(deadline);
        ck_assert_int_eq(j->state, JOB_STOPPING);
        ck_assert_int_eq(j->final, JOB_FAILED);
        ck_assert_uint_eq(cluster->limits[LIMIT_BOOT].n, 0);
    }
END_TEST

// A record as another master has left it: `member` of the job's is this.
static void stored(const char *name, const char *member, json_t *value)
{
    char key[64];
    (void)snprintf(key, sizeof(key), "job:%s", cluster_job_find(cluster, name, NULL)->id);
    cleanup_json json_t *r = json_loads(json_opt_str(queue.records, key, ""), 0, NULL);
    json_put(r, member, value);
    cleanup_free char *text = json_text(r);
    json_put_str(queue.records, key, text);
}

// What is counted from the submission goes on when the clock turns out to have been wrong; a time
// of day is one.
START_TEST(test_a_clock_that_is_put_right_moves_no_promise)
    {
        const int64_t hour = 3600000;
        char fixed[64] = "\"deadline\":\"", at[CLOCK_TEXT_BYTES];
        clock_format_ms(clock_real_ms() + 2 * hour, at);
        (void)snprintf(fixed + 12, sizeof(fixed) - 12, "%s\"", at);
        struct job *j = put("x", "\"wait_limit\":\"30m\",\"deadline\":\"50m\"");
        (void)put("y", fixed);
        ck_assert_uint_eq(cluster->limits[LIMIT_BOOT].n, 1);
        ck_assert_uint_eq(cluster->limits[LIMIT_WALL].n, 1);
        int64_t boot = j->submitted_boot_ms, real = j->submitted_ms;
        clock_format_ms(real - hour, at);
        stored("x", "submitted_at", json_string(at)); // by a clock that was an hour behind
        restart_cluster(2);
        j = cluster_job_find(cluster, "x", NULL);
        struct job *y = cluster_job_find(cluster, "y", NULL);
        ck_assert_int_eq(j->submitted_ms, real - hour);
        ck_assert_int_eq(j->limits[LIMIT_BOOT].ms, boot + hour / 2);
        ck_assert_int_le(llabs(job_start_by(j) - (real + hour / 2)), 1000);
        ck_assert_int_le(llabs(job_deadline(j) - (real + 50 * 60000)), 1000);
        job_limits_look(cluster, LIMIT_WALL, real + hour);
        ck_assert_int_eq(j->state, JOB_PENDING);
        ck_assert_int_eq(y->state, JOB_PENDING);
        look(boot + hour / 2 - 1);
        ck_assert_int_eq(j->state, JOB_PENDING);
        look(boot + hour / 2);
        ck_assert_int_eq(j->state, JOB_FAILED);
        job_limits_look(cluster, LIMIT_WALL, real + 3 * hour);
        ck_assert_int_eq(y->state, JOB_FAILED);
    }
END_TEST

// Of another boot only the wall clock is left.
START_TEST(test_after_a_reboot_the_wall_clock_tells)
    {
        struct job *j = put("x", "\"deadline\":\"50m\"");
        int64_t boot = j->submitted_boot_ms;
        stored("x", "boot_id", json_string("another"));
        stored("x", "submitted_boot_ms", json_integer(5));
        restart_cluster(2);
        j = cluster_job_find(cluster, "x", NULL);
        ck_assert_int_le(llabs(j->submitted_boot_ms - boot), 1000);
        ck_assert_int_eq(job_deadline(j), j->submitted_ms + 3000000);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("job_limits");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, test_each_ends_at_its_time);
    tcase_add_test(t, test_one_that_started_only_has_its_deadline);
    tcase_add_test(t, test_a_clock_that_is_put_right_moves_no_promise);
    tcase_add_test(t, test_after_a_reboot_the_wall_clock_tells);
    return run_case("job_limits", t);
}
