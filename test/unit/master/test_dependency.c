// SPDX-License-Identifier: Apache-2.0
// Jobs that wait for others' ends: met, never met, over a restart, in long chains.
#include "test/unit/master/cluster_fixture.h"

#include "master/cluster/dependency.h"
#include "test/unit/suite.h"

static struct job *put(const char *name, const char *after)
{
    char text[500];
    (void)snprintf(text, sizeof(text),
                   "{\"name\":\"%s\",%s%s%s\"components\":{\"m\":{\"command\":\"true\","
                   "\"resources\":{\"cpu\":1}}}}",
                   name, *after ? "\"after\":" : "", after, *after ? "," : "");
    struct job *j = submit(text);
    settle();
    return j;
}

// Ends the attempt of the job's only task.
static void end(struct agent *a, const struct job *j, int code)
{
    (void)agent_apply(a, NULL);
    for (size_t i = 0; i < a->n_held; i++)
        if (strcmp(a->held[i].id, j->tasks[0].attempt_id) == 0) {
            agent_state(a, i, ATTEMPT_ENDED, CAUSE_EXIT, code, LOGS_COMPLETE);
            (void)agent_apply(a, NULL);
            return;
        }
    ck_abort_msg("it does not run");
}

static bool runs(const struct job *j)
{
    return j->tasks[0].state == TASK_ASSIGNED;
}

START_TEST(test_after_ok_starts_when_the_other_succeeded)
    {
        struct agent a = {0};
        char text[REASON_BYTES];
        agent_join(&a, "n1", 4);
        struct job *x = put("x", ""), *y = put("y", "\"x\""), *z = put("z", "[\"x\",\"y\"]");
        ck_assert(runs(x) && !runs(y) && !runs(z));
        dependency_text(z, text, sizeof(text));
        ck_assert_ptr_nonnull(strstr(text, "waits for job x"));
        ck_assert_ptr_nonnull(strstr(text, "to succeed, and for 1 more"));
        end(&a, x, 0);
        ck_assert(runs(y) && !runs(z));
        dependency_text(y, text, sizeof(text));
        ck_assert_str_eq(text, "");
        end(&a, y, 0);
        ck_assert(runs(z));
        struct job *late = put("late", "\"x\""); // met already
        ck_assert(runs(late));
    }
END_TEST

START_TEST(test_what_can_never_be_met_ends_the_job_and_what_hangs_on_it)
    {
        struct agent a = {0};
        agent_join(&a, "n1", 4);
        struct job *x = put("x", ""), *y = put("y", "\"x\""), *z = put("z", "\"y\"");
        struct job *any = put("any", "{\"job\":\"x\",\"when\":\"any\"}");
        struct job *bad = put("bad", "{\"job\":\"x\",\"when\":\"failed\"}");
        struct job *both = put("both", "[{\"job\":\"y\",\"when\":\"failed\"},\"any\"]");
        end(&a, x, 1);
        ck_assert_int_eq(y->state, JOB_FAILED);
        ck_assert_ptr_nonnull(strstr(y->reason, "depends on job x"));
        ck_assert_ptr_nonnull(strstr(y->reason, "which failed"));
        ck_assert_int_eq(z->state, JOB_FAILED);
        ck_assert(runs(any) && runs(bad) && !runs(both));
        end(&a, any, 0);
        ck_assert(runs(both));
        struct job *late = put("late", "\"x\"");
        ck_assert_int_eq(late->state, JOB_FAILED);
        struct job *never = put("never", "{\"job\":\"any\",\"when\":\"failed\"}");
        ck_assert_ptr_nonnull(strstr(never->reason, "which succeeded"));
    }
END_TEST

START_TEST(test_unknown_jobs_and_oneself_are_refused)
    {
        static const char *const files[] = {
            "{\"name\":\"x\",\"after\":\"nobody\",\"components\":{\"m\":{\"command\":\"a\"}}}",
            "{\"name\":\"x\",\"after\":\"x\",\"components\":{\"m\":{\"command\":\"a\"}}}"};
        static const char *const says[] = {"there is no job nobody", "x is this job itself"};
        for (int i = 0; i < 2; i++) {
            struct err e = {""};
            struct job_problems problems = {0};
            struct job_warnings warnings = {0};
            struct job_spec *spec = NULL;
            struct job *j = NULL;
            ck_assert_int_eq(job_spec_parse(files[i], strlen(files[i]), "json", NULL, &spec,
                                            &problems, &warnings, &e),
                             0);
            ck_assert_int_eq(dependency_check(cluster, spec, "ann", &e), -EINVAL);
            ck_assert_int_eq(cluster_job_submit(cluster, spec, "ann", &j, &e), -EINVAL);
            ck_assert_ptr_nonnull(strstr(e.text, says[i]));
            job_spec_free(spec);
        }
        ck_assert_uint_eq(cluster_job_count(cluster), 0);
    }
END_TEST

// A stop unbinds: the end of the other finds nobody.
START_TEST(test_a_waiting_job_can_be_stopped_held_and_deleted)
    {
        struct agent a = {0};
        struct err e = {""};
        agent_join(&a, "n1", 4);
        struct job *x = put("x", ""), *y = put("y", "\"x\""), *z = put("z", "\"x\"");
        cluster_job_stop(cluster, y, "ann", "stopped by ann");
        ck_assert_int_eq(cluster_job_delete(cluster, y, "ann", &e), 0);
        ck_assert_int_eq(cluster_job_set_held(cluster, z, true, "ann", &e), 0);
        end(&a, x, 0);
        ck_assert_int_eq(cluster_job_delete(cluster, x, "ann", &e), 0);
        settle();
        ck_assert(!runs(z));
        ck_assert_int_eq(cluster_job_set_held(cluster, z, false, "ann", &e), 0);
        settle();
        ck_assert(runs(z));
    }
END_TEST

START_TEST(test_a_restarted_master_knows_what_is_met_and_what_is_not)
    {
        struct agent a = {0};
        struct err e = {""};
        char id[4][JOB_ID_BYTES];
        agent_join(&a, "n1", 1);
        struct job *x = put("x", ""), *y = put("y", ""), *z = put("z", "[\"x\",\"y\"]");
        struct job *any = put("any", "[{\"job\":\"z\",\"when\":\"any\"}]");
        end(&a, x, 0);
        ck_assert_int_eq(z->unmet, 1);
        ck_assert_int_eq(cluster_job_delete(cluster, x, "ann", &e), 0);
        settle();
        memcpy(id[0], y->id, JOB_ID_BYTES);
        memcpy(id[1], z->id, JOB_ID_BYTES);
        memcpy(id[2], any->id, JOB_ID_BYTES);
        restart_cluster(2);
        y = cluster_job_by_id(cluster, id[0]);
        z = cluster_job_by_id(cluster, id[1]);
        ck_assert_int_eq(z->unmet, 1);
        ck_assert_int_eq(z->state, JOB_PENDING);
        // Gone without a trace: an interrupted deletion.
        char key[32];
        (void)snprintf(key, sizeof(key), "job:%s", y->id);
        (void)json_object_del(queue.records, key);
        restart_cluster(2);
        z = cluster_job_by_id(cluster, id[1]);
        any = cluster_job_by_id(cluster, id[2]);
        ck_assert_int_eq(z->state, JOB_FAILED);
        ck_assert_ptr_nonnull(strstr(z->reason, "was deleted"));
        ck_assert_int_eq(any->unmet, 0);
    }
END_TEST

START_TEST(test_a_long_chain_ends_without_deep_recursion)
    {
        enum { LENGTH = 20000 };
        char name[16], after[32] = "";
        struct job *first = NULL, *last = NULL;
        for (int i = 0; i < LENGTH; i++) {
            (void)snprintf(name, sizeof(name), "c%d", i);
            last = put(name, after);
            first = first ? first : last;
            (void)snprintf(after, sizeof(after), "\"%s\"", name);
        }
        cluster_job_stop(cluster, first, "ann", "stopped by ann");
        settle();
        ck_assert_int_eq(last->state, JOB_FAILED);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("dependency");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, test_after_ok_starts_when_the_other_succeeded);
    tcase_add_test(t, test_what_can_never_be_met_ends_the_job_and_what_hangs_on_it);
    tcase_add_test(t, test_unknown_jobs_and_oneself_are_refused);
    tcase_add_test(t, test_a_waiting_job_can_be_stopped_held_and_deleted);
    tcase_add_test(t, test_a_restarted_master_knows_what_is_met_and_what_is_not);
    tcase_add_test(t, test_a_long_chain_ends_without_deep_recursion);
    return run_case("dependency", t);
}
