// SPDX-License-Identifier: Apache-2.0
// How long jobs that are over are kept.
#include "test/unit/master/cluster_fixture.h"

#include "common/clock.h"
#include "master/cluster/array.h"
#include "master/cluster/cluster_internal.h"
#include "test/unit/suite.h"

// A job that waits, stopped: over.
static struct job *over(int number)
{
    char text[128];
    (void)snprintf(text, sizeof(text),
                   "{\"name\":\"j%d\",\"components\":{\"m\":{\"command\":\"true\"}}}", number);
    struct job *j = submit(text);
    cluster_job_stop(cluster, j, "ann", "enough");
    settle();
    ck_assert_int_eq(j->state, JOB_STOPPED);
    return j;
}

static void keep(int64_t jobs, int64_t age_ms)
{
    keep_jobs = jobs;
    keep_age_ms = age_ms;
    restart_cluster(2);
}

static unsigned left(void)
{
    history_look(cluster);
    settle();
    return cluster_job_count(cluster);
}

START_TEST(test_the_newest_are_kept)
    {
        for (int i = 0; i < 180; i++)
            (void)over(i);
        ck_assert_uint_eq(left(), 180); // without limits all are
        struct job *lives =
            submit("{\"name\":\"lives\",\"components\":{\"m\":{\"command\":\"x\"}}}");
        settle();
        keep(20, 0);
        ck_assert_uint_eq(left(), 21);                          // what lives is not counted
        ck_assert_uint_eq(json_object_size(queue.records), 41); // each with its task, but the last
        ck_assert_ptr_nonnull(cluster_job_find(cluster, "lives", NULL));
        ck_assert_ptr_nonnull(cluster_job_find(cluster, "j160", NULL));
        ck_assert_ptr_null(cluster_job_find(cluster, "j159", NULL));
        lives = cluster_job_find(cluster, "lives", NULL);
        cluster_job_stop(cluster, lives, "ann", "enough");
        settle();
        ck_assert_uint_eq(left(), 20);
        ck_assert_ptr_null(cluster_job_find(cluster, "j160", NULL));
    }
END_TEST

START_TEST(test_a_few_at_a_time)
    {
        for (int i = 0; i < 180; i++)
            (void)over(i);
        keep(1, 0);
        history_look(cluster);
        collect_only(); // one step, on its way to the store
        ck_assert_uint_eq(cluster_job_count(cluster), 130);
        history_look(cluster); // goes on by itself when that is durable
        ck_assert_uint_eq(cluster_job_count(cluster), 130);
        settle();
        ck_assert_uint_eq(cluster_job_count(cluster), 1);
    }
END_TEST

// The agent speaks to this master; its clock is ahead by that much.
static void told(struct agent *a, int64_t ahead_ms)
{
    a->node = cluster_node_by_name(cluster, "n1");
    clock_ahead_ms = ahead_ms;
    ck_assert_int_eq(say(a, true, node_info(4), false), 0);
    ck_assert_int_eq(a->node->state, NODE_READY);
    clock_ahead_ms = 0;
}

START_TEST(test_old_ones_go)
    {
        struct agent a = {0};
        struct job *j = over(1), *b = over(2);
        agent_join(&a, "n1", 4);
        j->ended_ms -= 3600000;
        job_dirty(cluster, j);
        settle();
        (void)b;
        keep(0, 1800000);
        told(&a, 0);
        ck_assert_uint_eq(left(), 1);
        ck_assert_ptr_null(cluster_job_find(cluster, "j1", NULL));
        cluster_job_find(cluster, "j2", NULL)->ended_ms -= 3600000; // as after an hour more
        ck_assert_uint_eq(left(), 0);
    }
END_TEST

START_TEST(test_nothing_is_old_by_a_clock_that_no_node_agrees_with)
    {
        struct agent a = {0};
        const int64_t years = INT64_C(378432000000);
        for (int i = 0; i < 3; i++) {
            over(i)->ended_ms -= years; // as for a master whose clock is twelve years ahead
            job_dirty(cluster, cluster->newest);
        }
        agent_join(&a, "n1", 4);
        settle();
        keep(2, 1800000);
        ck_assert_uint_eq(left(), 2); // nobody has told; their number needs no clock
        told(&a, -years);
        ck_assert_uint_eq(left(), 2);
        told(&a, 0);
        ck_assert_uint_eq(left(), 0);
    }
END_TEST

START_TEST(test_logs_go_with_the_job)
    {
        struct agent a = {0};
        char attempt[ATTEMPT_ID_BYTES];
        agent_join(&a, "n1", 4);
        struct job *j = submit("{\"name\":\"one\",\"components\":{\"m\":{\"command\":\"true\"}}}");
        settle();
        memcpy(attempt, j->tasks[0].attempt_id, sizeof(attempt));
        (void)agent_apply(&a, NULL);
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_EXIT, 0, LOGS_COMPLETE);
        ck_assert_int_eq(j->state, JOB_SUCCEEDED);
        (void)over(2);
        cluster->options.history.jobs = 1;
        ck_assert_uint_eq(left(), 1);
        ck_assert_int_eq(n_forgotten, 1);
        ck_assert_str_eq(forgotten[0], attempt);
        (void)agent_apply(&a, NULL);
        ck_assert_uint_eq(a.n_held, 0);
    }
END_TEST

// A job that ran and is over; its log takes a byte.
static struct job *ran(struct agent *a, int number)
{
    char text[128];
    (void)snprintf(text, sizeof(text),
                   "{\"name\":\"r%d\",\"components\":{\"m\":{\"command\":\"true\"}}}", number);
    struct job *j = submit(text);
    settle();
    (void)agent_apply(a, NULL);
    agent_state(a, a->n_held - 1, ATTEMPT_ENDED, CAUSE_EXIT, 0, LOGS_COMPLETE);
    (void)agent_apply(a, NULL);
    ck_assert_int_eq(j->state, JOB_SUCCEEDED);
    log_bytes++;
    return j;
}

START_TEST(test_logs_are_bounded_in_bytes)
    {
        struct agent a = {0};
        agent_join(&a, "n1", 4);
        for (int i = 0; i < 6; i++)
            (void)ran(&a, i);
        ck_assert_uint_eq(left(), 6);
        ck_assert_int_eq(n_forgotten, 0);
        cluster->options.history.log_bytes = 4;
        ck_assert_uint_eq(left(), 6); // the records stay
        ck_assert_int_eq(n_forgotten, 2);
        ck_assert_int_eq(log_bytes, 4);
        struct job *first = cluster_job_find(cluster, "r0", NULL);
        ck_assert_str_eq(forgotten[0], first->tasks[0].attempt_id);
        cleanup_json json_t *x = task_view(&first->tasks[0]);
        ck_assert_str_eq(json_opt_str(x, "logs", ""), "incomplete");
        cleanup_json json_t *y = task_view(&cluster_job_find(cluster, "r2", NULL)->tasks[0]);
        ck_assert_str_eq(json_opt_str(y, "logs", ""), "complete");
        // A new master goes on where this one was.
        restart_cluster(2);
        cluster->options.history.log_bytes = 3;
        ck_assert(cluster_job_find(cluster, "r0", NULL)->logs_gone);
        ck_assert_uint_eq(left(), 6);
        ck_assert_int_eq(n_forgotten, 3);
        ck_assert_str_eq(forgotten[2], cluster_job_find(cluster, "r2", NULL)->tasks[0].attempt_id);
    }
END_TEST

START_TEST(test_an_array_goes_whole)
    {
        struct job *array = submit("{\"name\":\"arr\",\"array\":\"1-3\",\"components\":{\"m\":"
                                   "{\"command\":\"true\"}}}");
        settle();
        struct job *element = cluster_job_find(cluster, "arr_2", "ann");
        ck_assert_ptr_nonnull(element);
        cluster_job_stop(cluster, array, "ann", "enough");
        settle();
        ck_assert_int_eq(array->state, JOB_STOPPED);
        (void)over(1);
        cluster->options.history.jobs = 1;
        ck_assert_uint_eq(left(), 1);
        ck_assert_ptr_null(cluster_job_find(cluster, "arr", NULL));
        ck_assert_uint_eq(json_object_size(queue.records), 2); // a job and its task
    }
END_TEST

// An array that is over, with so many elements that were made.
static struct job *array_over(const char *name, int made)
{
    char text[128];
    (void)snprintf(text, sizeof(text),
                   "{\"name\":\"%s\",\"array\":\"1-99\",\"components\":{\"m\":"
                   "{\"command\":\"true\"}}}",
                   name);
    struct job *array = submit(text);
    for (int i = 0; i < made; i++)
        cluster_job_make(cluster, cluster_job_element(cluster, array, i));
    cluster_job_stop(cluster, array, "ann", "enough");
    settle();
    ck_assert_int_eq(array->state, JOB_STOPPED);
    return array;
}

START_TEST(test_an_array_counts_with_its_elements)
    {
        (void)over(1);
        (void)array_over("arr", 3);
        cluster->options.history.jobs = 5;
        ck_assert_uint_eq(left(), 5);
        cluster->options.history.jobs = 4;
        ck_assert_uint_eq(left(), 4);
        cluster->options.history.jobs = 2; // larger than what is kept
        ck_assert_uint_eq(left(), 4);
        (void)over(2);
        ck_assert_uint_eq(left(), 5);
        (void)over(3);
        ck_assert_uint_eq(left(), 2);
        ck_assert_ptr_null(cluster_job_find(cluster, "arr", NULL));
        ck_assert_int_eq(cluster->n_history, 2);
        (void)array_over("again", 4);
        keep(9, 0); // a new master counts the same
        ck_assert_int_eq(cluster->n_history, 7);
    }
END_TEST

// What is pending becomes durable, and who waits for that is told, once.
static void one_batch(void)
{
    collect_only();
    int n = queue.n_waiters;
    for (int i = 0; i < n; i++) { // new ones stand behind them
        queue.waiters[i].fn(0, queue.waiters[i].userdata);
    }
    queue.n_waiters -= n;
    memmove(queue.waiters, queue.waiters + n, (size_t)queue.n_waiters * sizeof(queue.waiters[0]));
}

// The master is killed: nobody is told any more.
static void killed(void)
{
    queue.marked = false;
    queue.n_waiters = 0;
    restart_cluster(2);
}

START_TEST(test_a_large_array_goes_in_steps)
    {
        struct err e = {""};
        struct job *array = array_over("arr", 99);
        (void)over(1);
        size_t before = json_object_size(queue.records);
        ck_assert_uint_eq(before, 2 * 99 + 1 + 2); // each element and its task, the array
        ck_assert_int_eq(cluster_job_delete(cluster, array, "ann", &e), 0);
        ck_assert_uint_eq(cluster_job_count(cluster), 1); // nobody sees it any more
        ck_assert_ptr_null(cluster_job_find(cluster, "arr", NULL));
        ck_assert_ptr_null(cluster_job_find(cluster, "arr_7", NULL));
        collect_only();
        ck_assert_uint_eq(json_object_size(queue.records), before);
        if (_i == 0) { // the master ends before the first step
            killed();
        } else { // or amidst
            one_batch();
            one_batch();
            ck_assert_uint_eq(json_object_size(queue.records), before - 100);
            if (_i == 1)
                killed();
        }
        ck_assert_uint_eq(cluster_job_count(cluster), 1);
        settle();
        ck_assert_uint_eq(json_object_size(queue.records), 2);
    }
END_TEST

START_TEST(test_a_cluster_may_end_while_an_array_goes)
    {
        struct err e = {""};
        ck_assert_int_eq(cluster_job_delete(cluster, array_over("arr", 60), "ann", &e), 0);
        one_batch(); // the rest is the sanitizer's
        ck_assert_uint_eq(cluster_job_count(cluster), 0);
    }
END_TEST

START_TEST(test_logs_of_a_large_array_go_in_steps)
    {
        cluster->options.history.log_bytes = 1;
        struct job *array = array_over("arr", 99);
        log_bytes = 1000; // no attempt has one: none of it goes
        history_look(cluster);
        ck_assert(!array->logs_gone);
        ck_assert_int_eq(array->elements->without_logs, 49);
        settle();
        ck_assert(array->logs_gone);
    }
END_TEST

// A job of many tasks, which all have a log.
static struct job *with_logs(int num)
{
    char text[128];
    (void)snprintf(text, sizeof(text),
                   "{\"name\":\"large\",\"components\":{\"m\":{\"command\":\"true\",\"num\":%d}}}",
                   num);
    struct job *j = submit(text);
    cluster_job_stop(cluster, j, "ann", "enough");
    for (int i = 0; i < num; i++)
        (void)snprintf(j->tasks[i].attempt_id, ATTEMPT_ID_BYTES, "a%d", i);
    settle();
    log_bytes = num;
    return j;
}

START_TEST(test_logs_of_a_large_job_go_in_steps)
    {
        struct err e = {""};
        ck_assert_int_eq(cluster_job_delete(cluster, with_logs(120), "ann", &e), 0);
        ck_assert_int_eq(log_bytes, 70);
        ck_assert_ptr_null(cluster_job_find(cluster, "large", NULL));
        if (_i == 0) {
            killed(); // it was not told to anybody: all is as before
            ck_assert_uint_eq(json_object_size(queue.records), 121);
            return;
        }
        one_batch();
        ck_assert_int_eq(log_bytes, 20);
        ck_assert_uint_eq(json_object_size(queue.records), 121);
        if (_i == 1) {
            killed(); // begins with those that are gone
            ck_assert_uint_eq(cluster_job_count(cluster), 0);
        }
        settle();
        ck_assert_int_eq(log_bytes, 0);
        ck_assert_uint_eq(json_object_size(queue.records), 0);
    }
END_TEST

START_TEST(test_logs_that_make_room_go_in_steps)
    {
        const struct job *j = with_logs(120);
        cluster->options.history.log_bytes = 1;
        history_look(cluster);
        ck_assert(!j->logs_gone);
        ck_assert_int_eq(log_bytes, 71);
        settle();
        ck_assert(j->logs_gone);
        ck_assert_int_eq(log_bytes, 0);
    }
END_TEST

START_TEST(test_what_waited_for_it_is_decided_first)
    {
        struct job *first =
            submit("{\"name\":\"first\",\"components\":{\"m\":{\"command\":\"x\"}}}");
        struct job *then =
            submit("{\"name\":\"then\",\"after\":[{\"job\":\"first\",\"when\":\"any\"}],"
                   "\"components\":{\"m\":{\"command\":\"x\"}}}");
        settle();
        cluster->options.history.jobs = 1;
        cluster_job_stop(cluster, first, "ann", "enough");
        history_look(cluster);
        settle();
        (void)over(1);
        ck_assert_uint_eq(left(), 2);
        ck_assert_ptr_null(cluster_job_find(cluster, "first", NULL));
        ck_assert_int_eq(then->state, JOB_PENDING);
        ck_assert_int_eq(then->unmet, 0);
        restart_cluster(3);
        then = cluster_job_find(cluster, "then", NULL);
        ck_assert_int_eq(then->state, JOB_PENDING);
        ck_assert_int_eq(then->unmet, 0);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("history");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, test_the_newest_are_kept);
    tcase_add_test(t, test_a_few_at_a_time);
    tcase_add_test(t, test_old_ones_go);
    tcase_add_test(t, test_nothing_is_old_by_a_clock_that_no_node_agrees_with);
    tcase_add_test(t, test_logs_go_with_the_job);
    tcase_add_test(t, test_logs_are_bounded_in_bytes);
    tcase_add_test(t, test_an_array_goes_whole);
    tcase_add_test(t, test_an_array_counts_with_its_elements);
    tcase_add_loop_test(t, test_a_large_array_goes_in_steps, 0, 3);
    tcase_add_test(t, test_a_cluster_may_end_while_an_array_goes);
    tcase_add_test(t, test_logs_of_a_large_array_go_in_steps);
    tcase_add_loop_test(t, test_logs_of_a_large_job_go_in_steps, 0, 3);
    tcase_add_test(t, test_logs_that_make_room_go_in_steps);
    tcase_add_test(t, test_what_waited_for_it_is_decided_first);
    tcase_set_timeout(t, 120);
    return run_case("history", t);
}
