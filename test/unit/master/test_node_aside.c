// SPDX-License-Identifier: Apache-2.0
// A node where starts keep failing: when it is set aside, what it gets then, and what brings it
// back.
#include "test/unit/master/cluster_fixture.h"

#include "common/clock.h"
#include "master/cluster/cluster_internal.h"
#include "test/unit/suite.h"

static struct agent a, b;

// n1 is the only one with room for what is submitted with two cards.
#define CARDS                                                                                      \
    "{\"name\":\"%s\",\"components\":{\"m\":{\"command\":\"x\",\"num\":%d,"                        \
    "\"resources\":{\"gpu\":1},\"constraints\":{\"node\":\"n1\"}}}}"

static struct job *card_job(const char *name, int num)
{
    char text[256];
    (void)snprintf(text, sizeof(text), CARDS, name, num);
    struct job *j = submit(text);
    settle();
    return j;
}

static void start(void)
{
    memset(&a, 0, sizeof(a));
    memset(&b, 0, sizeof(b));
    cluster->options.aside.failures = 3;
    cluster->options.aside.pause_ms = 60000;
    cluster->options.aside.max_pause_ms = 240000;
    agent_join(&a, "n1", 4);
    agent_join(&b, "n2", 4);
}

// All that n1 was given ends as said before it ran.
static void end_all(enum attempt_cause cause, bool pull)
{
    (void)agent_apply(&a, NULL);
    for (size_t i = 0; i < a.n_held; i++) {
        struct attempt_status *s = &a.held[i];
        if (s->state == ATTEMPT_ENDED)
            continue;
        (void)snprintf(s->reason, sizeof(s->reason), "the cards are asleep");
        s->pull = pull;
        agent_state(&a, i, ATTEMPT_ENDED, cause, 0, LOGS_COMPLETE);
    }
    (void)agent_apply(&a, NULL);
}

// Pauses between tries of one task are over.
static void retries_now(void)
{
    for (size_t i = 0; i < cluster->waits.n; i++) // all alike: still in order
        ((struct task *)cluster->waits.items[i])->not_before_boot_ms = 0;
    task_timer_fired(cluster);
    settle();
}

static void pause_over(void)
{
    ck_assert_int_eq(a.node->aside.phase, ASIDE_PAUSE);
    a.node->aside.until_boot_ms = clock_boot_ms();
    node_timer_arm(cluster);
    while (a.node->aside.phase == ASIDE_PAUSE)
        (void)uv_run(&loop, UV_RUN_ONCE);
    settle();
}

// Two jobs whose starts fail until n1 is set aside.
static struct job *set_aside(void)
{
    (void)card_job("one", 1);
    struct job *two = card_job("two", 1);
    end_all(CAUSE_ENGINE, false);
    ck_assert_int_eq(a.node->state, NODE_READY); // two in a row
    retries_now();
    end_all(CAUSE_ENGINE, false);
    ck_assert_int_eq(a.node->aside.phase, ASIDE_PAUSE);
    return two;
}

START_TEST(set_aside_with_the_reason)
    {
        start();
        struct job *j = set_aside();
        ck_assert_int_eq(a.node->state, NODE_NOT_READY);
        ck_assert_ptr_nonnull(strstr(a.node->reason, "set aside: 3 starts in a row failed there"));
        ck_assert_ptr_nonnull(strstr(a.node->reason, "the cards are asleep"));
        int64_t left = a.node->aside.until_boot_ms - clock_boot_ms();
        ck_assert_int_gt(left, 29000);
        ck_assert_int_le(left, 60000);
        ck_assert(uv_is_active((uv_handle_t *)&cluster->node_timer));
        ck_assert_int_eq(say(&a, false, NULL, false), 0); // it speaks, and stays aside
        ck_assert_int_eq(a.node->state, NODE_NOT_READY);
        retries_now();
        ck_assert_int_eq(j->tasks[0].state, TASK_PENDING);
    }
END_TEST

START_TEST(what_is_no_fault_of_the_node)
    {
        static const struct {
            enum attempt_cause cause;
            bool pull;
        } others[] = {{CAUSE_ENGINE, true},        {CAUSE_IMAGE, false},
                      {CAUSE_START_FAILED, false}, {CAUSE_NEVER_STARTED, false},
                      {CAUSE_POLICY, false},       {CAUSE_UNKNOWN, false}};
        start();
        for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
            char name[8];
            (void)snprintf(name, sizeof(name), "j%zu", i);
            struct job *j = card_job(name, 2);
            end_all(others[i].cause, others[i].pull);
            ck_assert_int_eq(a.node->aside.failures, 0);
            cluster_job_stop(cluster, j, "ann", "next");
            settle();
            end_all(CAUSE_STOPPED, false);
        }
    }
END_TEST

START_TEST(one_job_alone_proves_nothing)
    {
        start();
        (void)card_job("one", 2);
        for (int i = 0; i < 4; i++) {
            end_all(CAUSE_ENGINE, false);
            retries_now();
        }
        ck_assert_int_eq(a.node->aside.failures, 8);
        ck_assert_int_eq(a.node->state, NODE_READY);
    }
END_TEST

START_TEST(a_start_that_works_ends_the_row)
    {
        start();
        (void)card_job("one", 1);
        (void)card_job("two", 1);
        end_all(CAUSE_ENGINE, false);
        ck_assert_int_eq(a.node->aside.failures, 2);
        retries_now();
        (void)agent_apply(&a, NULL);
        a.held[0].started_ms = clock_real_ms();
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_EXIT, 0, LOGS_COMPLETE); // too short to be seen
        ck_assert_int_eq(a.node->aside.failures, 0);
    }
END_TEST

START_TEST(the_end_of_what_started_long_ago_is_no_start)
    {
        start();
        struct job *old = card_job("old", 1);
        (void)agent_apply(&a, NULL);
        agent_state(&a, 0, ATTEMPT_RUNNING, CAUSE_NONE, 0, LOGS_OPEN);
        for (int i = 0; i < 3; i++) {
            char name[8];
            (void)snprintf(name, sizeof(name), "j%d", i);
            struct job *j = card_job(name, 1);
            (void)agent_apply(&a, NULL);
            ck_assert_uint_eq(a.n_held, 2);
            agent_state(&a, 1, ATTEMPT_ENDED, CAUSE_ENGINE, 0, LOGS_COMPLETE);
            cluster_job_stop(cluster, j, "ann", "next");
            settle();
            (void)agent_apply(&a, NULL);
        }
        ck_assert_int_eq(a.node->aside.phase, ASIDE_PAUSE);
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_EXIT, 0, LOGS_COMPLETE);
        ck_assert_int_eq(old->state, JOB_SUCCEEDED);
        ck_assert_int_eq(a.node->aside.phase, ASIDE_PAUSE);
        ck_assert_int_eq(a.node->state, NODE_NOT_READY);
    }
END_TEST

START_TEST(a_row_that_begins_anew_is_of_one_job)
    {
        start();
        struct job *one = card_job("one", 1), *two = card_job("two", 1);
        end_all(CAUSE_ENGINE, false);
        ck_assert(a.node->aside.jobs_differ);
        node_aside_mended(cluster, a.node); // as by an engine or a disk that is well again
        cluster_job_stop(cluster, one, "ann", "enough");
        cluster_job_stop(cluster, two, "ann", "enough");
        settle();
        end_all(CAUSE_STOPPED, false);
        (void)card_job("three", 1);
        end_all(CAUSE_ENGINE, false);
        ck_assert_int_eq(a.node->aside.failures, 1);
        ck_assert(!a.node->aside.jobs_differ);
    }
END_TEST

START_TEST(the_probe_is_one_job)
    {
        start();
        struct job *two = set_aside();
        retries_now();
        pause_over();
        int placed = 0;
        for (struct job *j = cluster->oldest; j; j = j->next)
            placed += j->tasks[0].state == TASK_ASSIGNED;
        ck_assert_int_eq(placed, 1);
        ck_assert_int_eq(a.node->aside.phase, ASIDE_TRYING);
        ck_assert_int_eq(a.node->state, NODE_NOT_READY);
        // It fails: a longer pause.
        end_all(CAUSE_ENGINE, false);
        ck_assert_int_eq(a.node->aside.phase, ASIDE_PAUSE);
        ck_assert_ptr_nonnull(strstr(a.node->reason, "5 starts"));
        int64_t left = a.node->aside.until_boot_ms - clock_boot_ms();
        ck_assert_int_gt(left, 59000);
        ck_assert_int_le(left, 120000);
        // The next one is stopped before it began: that told nothing.
        retries_now();
        pause_over();
        ck_assert_int_eq(a.node->aside.phase, ASIDE_TRYING);
        for (struct job *j = cluster->oldest; j; j = j->next)
            if (j->tasks[0].state == TASK_ASSIGNED)
                cluster_job_stop(cluster, j, "ann", "enough");
        settle();
        end_all(CAUSE_STOPPED, false);
        ck_assert_int_eq(a.node->aside.phase, ASIDE_TRYING); // the other job
        (void)agent_apply(&a, NULL);
        for (size_t i = 0; i < a.n_held; i++)
            if (a.held[i].state != ATTEMPT_ENDED)
                agent_state(&a, i, ATTEMPT_RUNNING, CAUSE_NONE, 0, LOGS_OPEN);
        ck_assert_int_eq(a.node->aside.phase, ASIDE_NO);
        ck_assert_int_eq(a.node->aside.pause.failures, 0);
        ck_assert_int_eq(a.node->state, NODE_READY);
        (void)two;
    }
END_TEST

START_TEST(resume_brings_it_back)
    {
        struct err e = {""};
        start();
        struct job *two = set_aside();
        retries_now();
        ck_assert_int_eq(cluster_node_resume(cluster, a.node, "ann", &e), 0);
        settle();
        ck_assert_int_eq(a.node->state, NODE_READY);
        ck_assert_int_eq(two->tasks[0].state, TASK_ASSIGNED);
        ck_assert(!uv_is_active((uv_handle_t *)&cluster->node_timer));
    }
END_TEST

START_TEST(an_engine_that_is_back_is_tried_at_once)
    {
        start();
        (void)set_aside();
        json_t *info = node_info(4);
        json_put_bool(info, "ready", false);
        ck_assert_int_eq(say(&a, false, info, false), 0);
        ck_assert_int_eq(a.node->aside.phase, ASIDE_PAUSE);
        retries_now();
        ck_assert_int_eq(say(&a, false, node_info(4), false), 0);
        ck_assert_int_eq(a.node->aside.phase, ASIDE_TRYING);
    }
END_TEST

// The agent comes to the new master.
static void come_back(void)
{
    restart_cluster(2);
    a.node = cluster_node_by_name(cluster, "n1");
    b.node = cluster_node_by_name(cluster, "n2");
    ck_assert_int_eq(say(&b, true, node_info(4), true), 0);
    ck_assert_int_eq(say(&a, true, node_info(4), true), 0);
}

START_TEST(a_new_master_goes_on)
    {
        struct err e = {""};
        start();
        struct job *two = set_aside();
        char reason[REASON_BYTES];
        memcpy(reason, a.node->reason, sizeof(reason));
        int64_t until = a.node->aside.until_boot_ms;
        aside_failures = 3;
        come_back();
        ck_assert_int_eq(a.node->aside.phase, ASIDE_PAUSE);
        ck_assert_int_eq(a.node->aside.until_boot_ms, until);
        ck_assert_int_eq(a.node->state, NODE_NOT_READY);
        ck_assert_str_eq(a.node->reason, reason);
        ck_assert_int_eq(b.node->state, NODE_READY);
        ck_assert(uv_is_active((uv_handle_t *)&cluster->node_timer));
        // The next failure makes a longer pause, as it would have before.
        retries_now();
        pause_over();
        end_all(CAUSE_ENGINE, false);
        ck_assert_int_eq(a.node->aside.phase, ASIDE_PAUSE);
        ck_assert_uint_eq(a.node->aside.pause.failures, 2);
        // What an operator took back stays so.
        ck_assert_int_eq(cluster_node_resume(cluster, a.node, "ann", &e), 0);
        settle();
        come_back();
        ck_assert_int_eq(a.node->aside.phase, ASIDE_NO);
        ck_assert_int_eq(a.node->state, NODE_READY);
        (void)two;
    }
END_TEST

START_TEST(a_probe_is_made_by_the_new_master)
    {
        start();
        (void)set_aside();
        retries_now();
        pause_over();
        ck_assert_int_eq(a.node->aside.phase, ASIDE_TRYING);
        aside_failures = 3;
        come_back();
        ck_assert(a.node->aside.phase == ASIDE_PROBE || a.node->aside.phase == ASIDE_TRYING);
        ck_assert_int_eq(a.node->state, NODE_NOT_READY);
        // One that sets no nodes aside takes it back.
        aside_failures = 0;
        come_back();
        ck_assert_int_eq(a.node->state, NODE_READY);
    }
END_TEST

START_TEST(never_more_than_half)
    {
        start();
        b.node->aside.phase = ASIDE_PROBE;
        (void)card_job("one", 1);
        (void)card_job("two", 1);
        for (int i = 0; i < 3; i++) {
            end_all(CAUSE_ENGINE, false);
            retries_now();
        }
        ck_assert_int_eq(a.node->aside.failures, 6);
        ck_assert_int_eq(a.node->aside.phase, ASIDE_NO);
        ck_assert_int_eq(a.node->state, NODE_READY);
    }
END_TEST

int main(void)
{
    TCase *k = tcase_create("set aside");
    tcase_add_checked_fixture(k, setup, teardown);
    tcase_add_test(k, set_aside_with_the_reason);
    tcase_add_test(k, what_is_no_fault_of_the_node);
    tcase_add_test(k, one_job_alone_proves_nothing);
    tcase_add_test(k, a_start_that_works_ends_the_row);
    tcase_add_test(k, the_end_of_what_started_long_ago_is_no_start);
    tcase_add_test(k, a_row_that_begins_anew_is_of_one_job);
    tcase_add_test(k, the_probe_is_one_job);
    tcase_add_test(k, resume_brings_it_back);
    tcase_add_test(k, an_engine_that_is_back_is_tried_at_once);
    tcase_add_test(k, a_new_master_goes_on);
    tcase_add_test(k, a_probe_is_made_by_the_new_master);
    tcase_add_test(k, never_more_than_half);
    return run_case("node_aside", k);
}
