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

static void look(int64_t ms)
{
    job_limits_look(cluster, ms);
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
            jobs[i]->submitted_ms = 1; // all at one time
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
        ck_assert_uint_eq(cluster->n_limits, 0);
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
        ck_assert_int_eq(j->limit_ms, job_deadline(j));
        ck_assert_int_eq(y->limit_ms, job_deadline(y));
        look(j->submitted_ms + 60001);
        ck_assert_int_eq(y->state, JOB_FAILED);
        ck_assert_ptr_nonnull(strstr(y->reason, "its deadline has passed"));
        ck_assert_int_eq(j->state, JOB_RUNNING);
        char id[JOB_ID_BYTES];
        memcpy(id, j->id, sizeof(id));
        int64_t deadline = job_deadline(j);
        restart_cluster(2);
        j = cluster_job_by_id(cluster, id);
        ck_assert_int_eq(j->limit_ms, deadline);
        look(deadline);
        ck_assert_int_eq(j->state, JOB_STOPPING);
        ck_assert_int_eq(j->final, JOB_FAILED);
        ck_assert_uint_eq(cluster->n_limits, 0);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("job_limits");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, test_each_ends_at_its_time);
    tcase_add_test(t, test_one_that_started_only_has_its_deadline);
    return run_case("job_limits", t);
}
