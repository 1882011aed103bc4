// SPDX-License-Identifier: Apache-2.0
// Job arrays: one record until an element's turn comes, limits, states, elements that are looked
// at, stopped, held; and a restart in the middle.
#include "test/unit/master/cluster_fixture.h"

#include "master/cluster/array.h"
#include "master/cluster/dependency.h"
#include "test/unit/suite.h"

static struct job *put(const char *name, const char *array, const char *more)
{
    char text[500];
    (void)snprintf(text, sizeof(text),
                   "{\"name\":\"%s\",\"array\":\"%s\",%s\"components\":{\"m\":{\"command\":"
                   "\"true\",\"resources\":{\"cpu\":1}}}}",
                   name, array, more);
    struct job *j = submit(text);
    settle();
    return j;
}

static struct job *element(const struct job *array, int index)
{
    char ref[64];
    (void)snprintf(ref, sizeof(ref), "%s_%d", array->id, index);
    struct job *j = cluster_job_find(cluster, ref, "ann");
    ck_assert_ptr_nonnull(j);
    ck_assert_str_eq(j->id, ref);
    return j;
}

// Ends all that runs, the first with this exit code, the others with 0.
static void end_all(struct agent *a, int code)
{
    (void)agent_apply(a, NULL);
    size_t n = a->n_held;
    for (size_t i = 0; i < n; i++)
        agent_state(a, i, ATTEMPT_ENDED, CAUSE_EXIT, i == 0 ? code : 0, LOGS_COMPLETE);
    (void)agent_apply(a, NULL);
}

static int records(const char *prefix)
{
    const char *key;
    json_t *text;
    int n = 0;
    json_object_foreach (queue.records, key, text) {
        n += strncmp(key, prefix, strlen(prefix)) == 0;
    }
    return n;
}

START_TEST(test_what_waits_is_one_record)
    {
        struct agent a = {0};
        agent_join(&a, "n1", 3);
        struct job *j = put("x", "0-999", "");
        ck_assert_int_eq(j->n_tasks, 0);
        ck_assert_int_eq(j->elements->n[JOB_RUNNING], 3);
        ck_assert_int_eq(j->elements->n[JOB_PENDING], 1); // the next one
        ck_assert_int_eq(records("job:"), 5);
        ck_assert_int_eq(records("task:"), 3);
        ck_assert_int_eq(j->state, JOB_RUNNING);
        ck_assert_uint_eq(cluster_job_count_in(cluster, JOB_RUNNING), 1);
        cleanup_json json_t *v = array_view(j);
        ck_assert_int_eq(json_opt_i64(v, "pending", 0), 997);
        ck_assert_int_eq(json_opt_i64(v, "running", 0), 3);
        for (int i = 0; i < 3; i++) // in their order
            ck_assert_int_eq(element(j, i)->tasks[0].state, TASK_ASSIGNED);
        end_all(&a, 0);
        ck_assert_int_eq(element(j, 5)->state, JOB_RUNNING);
        ck_assert_int_eq(j->elements->n[JOB_SUCCEEDED], 3);
    }
END_TEST

START_TEST(test_a_limit_holds_and_the_array_ends_with_its_elements)
    {
        struct agent a = {0};
        char text[REASON_BYTES];
        agent_join(&a, "n1", 8);
        struct job *j = put("x", "1-5:2,9%2", ""); // 1 3 5 9
        struct job *after = put("after", "7", "\"after\":{\"job\":\"x\",\"when\":\"failed\"},");
        ck_assert_int_eq(j->elements->n[JOB_RUNNING], 2);
        ck_assert_int_eq(j->elements->n[JOB_PENDING], 0);
        array_text(j, text, sizeof(text));
        ck_assert_str_eq(text, "2 of its array's elements run, as many as it allows");
        end_all(&a, 1);
        ck_assert_int_eq(j->elements->n[JOB_FAILED], 1);
        ck_assert_int_eq(j->elements->n[JOB_RUNNING], 2);
        ck_assert_int_eq(after->elements->n[JOB_RUNNING], 0);
        end_all(&a, 0);
        ck_assert_int_eq(j->state, JOB_FAILED);
        ck_assert_str_eq(j->reason, "1 of 4 elements failed, the first is 1: m/0: exit code 1");
        ck_assert_int_eq(after->elements->n[JOB_RUNNING], 1);
        end_all(&a, 0);
        ck_assert_int_eq(after->state, JOB_SUCCEEDED);
    }
END_TEST

START_TEST(test_elements_can_be_looked_at_stopped_and_held)
    {
        struct agent a = {0};
        struct err e = {""};
        agent_join(&a, "n1", 1);
        struct job *j = put("x", "0-9", "");
        int before = records("job:");
        ck_assert_int_eq(element(j, 7)->state, JOB_PENDING);
        ck_assert_str_eq(element(j, 7)->name, "x_7");
        ck_assert_ptr_null(cluster_job_find(cluster, "x_10", "ann"));
        ck_assert_ptr_null(cluster_job_find(cluster, "x_7", "bob"));
        settle();
        ck_assert_int_eq(records("job:"), before); // looking changes nothing
        struct job *three = cluster_job_find(cluster, "x_3", "ann");
        cluster_job_make(cluster, three);
        cluster_job_stop(cluster, three, "ann", "stopped by ann");
        struct job *two = element(j, 2);
        cluster_job_make(cluster, two);
        ck_assert_int_eq(cluster_job_set_held(cluster, two, true, "ann", &e), 0);
        struct job *one = element(j, 1); // waits for its place
        ck_assert_ptr_eq(j->elements->next, one);
        ck_assert_int_eq(cluster_job_set_held(cluster, one, true, "ann", &e), 0);
        settle();
        ck_assert_ptr_eq(j->elements->next, element(j, 4));
        end_all(&a, 0);
        ck_assert_int_eq(element(j, 4)->state, JOB_RUNNING);
        ck_assert_int_eq(cluster_job_set_held(cluster, one, false, "ann", &e), 0);
        end_all(&a, 0);
        ck_assert_int_eq(element(j, 5)->state, JOB_RUNNING); // it waited already
        end_all(&a, 0);
        ck_assert_int_eq(one->state, JOB_RUNNING);
        ck_assert_int_eq(cluster_job_delete(cluster, three, "ann", &e), -EBUSY);
        ck_assert_int_eq(cluster_job_set_held(cluster, j, true, "ann", &e), 0);
        end_all(&a, 0);
        ck_assert_int_eq(j->elements->n[JOB_RUNNING], 0);
        ck_assert_int_eq(cluster_job_set_held(cluster, j, false, "ann", &e), 0);
        settle();
        ck_assert_int_eq(j->elements->n[JOB_RUNNING], 1);
        cluster_job_stop(cluster, j, "ann", "stopped by ann");
        settle();
        (void)agent_apply(&a, NULL);
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_STOPPED, 0, LOGS_COMPLETE);
        ck_assert_int_eq(j->state, JOB_STOPPED);
        ck_assert_int_eq(element(j, 9)->state, JOB_STOPPED); // its turn never came
        cleanup_json json_t *v = array_view(j);
        ck_assert_int_eq(json_opt_i64(v, "pending", -1), 0);
        ck_assert_int_eq(json_opt_i64(v, "succeeded", 0) + json_opt_i64(v, "stopped", 0), 10);
        ck_assert_int_eq(cluster_job_delete(cluster, j, "ann", &e), 0);
        settle();
        ck_assert_int_eq(records("job:"), 0);
        ck_assert_int_eq(records("task:"), 0);
        ck_assert_uint_eq(cluster_job_count(cluster), 0);
    }
END_TEST

START_TEST(test_a_job_waits_for_an_element)
    {
        struct agent a = {0};
        agent_join(&a, "n1", 1);
        struct job *j = put("x", "1-3", "");
        struct job *y = put("y", "1", "\"after\":\"x_2\",");
        struct job *z = put("z", "1", "\"after\":[\"x_3\",\"y\"],");
        ck_assert_int_eq(y->unmet, 1);
        end_all(&a, 0);
        end_all(&a, 0);
        ck_assert_int_eq(y->unmet, 0);
        cluster_job_stop(cluster, j, "ann", "stopped by ann");
        settle();
        (void)agent_apply(&a, NULL);
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_STOPPED, 0, LOGS_COMPLETE);
        ck_assert_int_eq(z->state, JOB_FAILED);
        struct job *late = put("late", "1", "\"after\":{\"job\":\"x_1\",\"when\":\"ok\"},");
        ck_assert_int_eq(late->unmet, 0);
    }
END_TEST

START_TEST(test_a_restarted_master_goes_on_with_the_rest)
    {
        struct agent a = {0};
        char id[JOB_ID_BYTES];
        agent_join(&a, "n1", 2);
        struct job *j = put("x", "0-9%3", "");
        end_all(&a, 0);
        struct job *eight = element(j, 8);
        cluster_job_make(cluster, eight);
        cluster_job_stop(cluster, eight, "ann", "stopped by ann");
        settle();
        memcpy(id, j->id, sizeof(id));
        restart_cluster(2);
        j = cluster_job_by_id(cluster, id);
        a.node = cluster_node_by_name(cluster, "n1");
        ck_assert_int_eq(j->elements->n[JOB_SUCCEEDED], 2);
        ck_assert_int_eq(j->elements->n[JOB_STOPPED], 1);
        ck_assert_int_eq(j->elements->n[JOB_RUNNING], 2);
        ck_assert_int_eq(say(&a, true, node_info(2), false), 0);
        for (int i = 0; i < 4; i++)
            end_all(&a, 0);
        ck_assert_int_eq(j->state, JOB_STOPPED);
        ck_assert_int_eq(j->elements->n[JOB_SUCCEEDED], 9);
        ck_assert_str_eq(j->reason, "1 of 10 elements were stopped");
    }
END_TEST

static const char *refused(const char *text)
{
    static struct err e;
    struct job_problems problems = {0};
    struct job_warnings warnings = {0};
    struct job_spec *spec = NULL;
    struct job *j = NULL;
    ck_assert_int_eq(
        job_spec_parse(text, strlen(text), "json", NULL, &spec, &problems, &warnings, &e), 0);
    ck_assert_int_eq(cluster_job_submit(cluster, spec, "ann", &j, &e), -EEXIST);
    job_spec_free(spec);
    job_problems_free(&problems);
    job_warnings_free(&warnings);
    return e.text;
}

#define PLAIN(name, more)                                                                          \
    "{\"name\":\"" name "\"," more "\"components\":{\"m\":{\"command\":\"true\"}}}"

// `job stop x_[1-3]` must never stop another job than the array's element.
START_TEST(test_a_name_means_one)
    {
        struct job *array = put("x", "1-3", "");
        ck_assert_ptr_nonnull(strstr(refused(PLAIN("x_1", "")), "an element of ann's array x"));
        const struct job *four = submit(PLAIN("x_4", ""));
        ck_assert_ptr_eq(cluster_job_find(cluster, "x_4", "ann"), four);
        cluster_job_stop(cluster, array, "ann", "test");
        settle();
        ck_assert_ptr_nonnull(
            strstr(refused(PLAIN("x", "\"array\":\"2-5\",")), "named x_4 already"));
        const struct job *one = submit(PLAIN("x_1", ""));
        ck_assert_ptr_eq(cluster_job_find(cluster, "x_1", "ann"), one);
        cluster_job_stop(cluster, cluster_job_find(cluster, "x_1", "ann"), "ann", "test");
        settle();
        ck_assert_ptr_eq(cluster_job_find(cluster, "x_1", "ann"), one); // both are over
        array = put("x", "1-3", "");
        ck_assert_ptr_eq(cluster_job_find(cluster, "x_1", "ann")->array, array);
    }
END_TEST

START_TEST(test_elements_are_counted_by_state)
    {
        struct agent a = {0};
        agent_join(&a, "n1", 3);
        struct job *j = put("x", "0-999", "");
        const struct job_filter waits = {NULL, JOB_IN(JOB_PENDING)},
                                run = {"ann", JOB_IN(JOB_RUNNING)}, bob = {"bob", ~0u};
        ck_assert_uint_eq(cluster_elements_matching(j, &waits), 997);
        ck_assert_uint_eq(cluster_elements_matching(j, &run), 3);
        ck_assert_uint_eq(cluster_elements_matching(j, &bob), 0);
        cluster_job_stop(cluster, j, "ann", "test");
        settle();
        end_all(&a, 1);
        ck_assert_uint_eq(cluster_elements_matching(j, &waits), 0);
        const struct job_filter over = {NULL, JOB_IN(JOB_STOPPED) | JOB_IN(JOB_FAILED) |
                                                  JOB_IN(JOB_SUCCEEDED)};
        ck_assert_uint_eq(cluster_elements_matching(j, &over), 1000);
    }
END_TEST

START_TEST(test_environment_names_the_element)
    {
        struct agent a = {0};
        struct sync_answer answer;
        agent_join(&a, "n1", 1);
        (void)agent_apply(&a, NULL);
        struct job *j = put("x", "5-9:2", "");
        ck_assert_int_eq(cluster_node_answer(cluster, a.node, &a.applied, &answer), 0);
        const struct attempt_spec *spec = answer.entries[0].spec;
        int seen = 0;
        for (size_t i = 0; i < spec->n_env; i++) {
            const char *k = spec->env[i].key, *v = spec->env[i].value;
            bool index = !strcmp(k, "MEADOW_ARRAY_INDEX") || !strcmp(k, "SLURM_ARRAY_TASK_ID");
            seen += index && !strcmp(v, "5");
            seen += !strcmp(k, "MEADOW_ARRAY_JOB") && !strcmp(v, j->id);
            seen += !strcmp(k, "SLURM_ARRAY_TASK_MAX") && !strcmp(v, "9");
            seen += !strcmp(k, "JOB_NAME") && !strcmp(v, "x_5");
        }
        ck_assert_int_eq(seen, 5);
        sync_answer_reset(&answer);
    }
END_TEST

// What is done to an element of an array that is ending must not keep the array from its end.
START_TEST(test_an_ending_array_takes_no_new_element_along)
    {
        struct agent a = {0};
        struct err e = {""};
        agent_join(&a, "n1", 1);
        struct job *j = put("x", "1-9", "");
        (void)agent_apply(&a, NULL);
        cluster_job_stop(cluster, j, "ann", "stopped by ann");
        settle();
        ck_assert_int_eq(j->state, JOB_STOPPING); // one runs
        struct job *y = put("y", "1", "\"after\":{\"job\":\"x_7\",\"when\":\"any\"},");
        ck_assert_int_eq(element(j, 7)->state, JOB_STOPPED);
        ck_assert_int_eq(y->unmet, 0);
        struct job *eight = element(j, 8);
        cluster_job_make(cluster, eight);
        ck_assert_int_eq(cluster_job_set_held(cluster, eight, true, "ann", &e), -EINVAL);
        (void)agent_apply(&a, NULL);
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_STOPPED, 0, LOGS_COMPLETE);
        (void)agent_apply(&a, NULL);
        ck_assert_int_eq(j->state, JOB_STOPPED);
    }
END_TEST

START_TEST(test_an_array_has_not_started_when_an_element_was_stopped)
    {
        struct agent a = {0};
        struct job *j = put("x", "1-3", "\"wait_limit\":\"1h\",");
        cluster_job_stop(cluster, element(j, 1), "ann", "stopped by ann"); // the one that waits
        settle();
        ck_assert_int_eq(j->elements->n[JOB_STOPPED], 1);
        ck_assert_int_eq(j->state, JOB_PENDING);
        ck_assert_int_eq(j->started_ms, 0);
        agent_join(&a, "n1", 1);
        settle();
        ck_assert_int_eq(j->state, JOB_RUNNING);
    }
END_TEST

// The store takes a large batch in pieces: a crash between two leaves some of them.
START_TEST(test_a_stop_that_was_cut_by_a_crash_goes_on)
    {
        char job[32], one[32], parallel[32];
        struct job *j = put("x", "1-3", "");
        struct job *p = submit("{\"name\":\"p\",\"components\":{\"m\":{\"command\":\"true\","
                               "\"num\":2}}}");
        settle();
        (void)snprintf(job, sizeof(job), "job:%s", j->id);
        (void)snprintf(one, sizeof(one), "job:%s_1", j->id);
        (void)snprintf(parallel, sizeof(parallel), "job:%s", p->id);
        cleanup_json json_t *waits = json_incref(json_object_get(queue.records, one));
        cleanup_json json_t *lives = json_incref(json_object_get(queue.records, parallel));
        cluster_job_stop(cluster, p, "ann", "stopped by ann");
        settle();
        // Its tasks' piece was taken, its own was not.
        (void)json_object_set(queue.records, parallel, lives);
        struct agent a = {0};
        agent_join(&a, "n1", 1); // for the array
        (void)agent_apply(&a, NULL);
        cluster_job_stop(cluster, j, "ann", "stopped by ann");
        settle();
        ck_assert_int_eq(j->state, JOB_STOPPING);
        // Here the array's was, its element's was not.
        (void)json_object_set(queue.records, one, waits);
        restart_cluster(2);
        ck_assert_int_eq(cluster_job_by_id(cluster, parallel + 4)->state, JOB_STOPPED);
        ck_assert_int_eq(cluster_job_by_id(cluster, one + 4)->state, JOB_STOPPING);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("array");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, test_what_waits_is_one_record);
    tcase_add_test(t, test_a_limit_holds_and_the_array_ends_with_its_elements);
    tcase_add_test(t, test_elements_can_be_looked_at_stopped_and_held);
    tcase_add_test(t, test_a_job_waits_for_an_element);
    tcase_add_test(t, test_a_restarted_master_goes_on_with_the_rest);
    tcase_add_test(t, test_a_name_means_one);
    tcase_add_test(t, test_elements_are_counted_by_state);
    tcase_add_test(t, test_environment_names_the_element);
    tcase_add_test(t, test_an_ending_array_takes_no_new_element_along);
    tcase_add_test(t, test_an_array_has_not_started_when_an_element_was_stopped);
    tcase_add_test(t, test_a_stop_that_was_cut_by_a_crash_goes_on);
    return run_case("array", t);
}
