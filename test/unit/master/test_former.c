// SPDX-License-Identifier: Apache-2.0
// A node whose place another machine takes: what the new one says of attempts that it does not run
// is no end of them; seeing one run is; and so is the lease, also for the next master.
#include "test/unit/master/cluster_fixture.h"
#include "test/unit/suite.h"

#include "common/clock.h"
#include "master/cluster/cluster_internal.h"

#define JOB                                                                                        \
    "{\"name\":\"j\",\"components\":{\"m\":{\"command\":\"x\","                                    \
    "\"on_node_lost\":{\"after\":\"20s\"}}}}"

static struct agent a;
static struct task *t;

static struct node *replace(const char *key)
{
    struct err e = {""};
    struct node *n = NULL;
    ck_assert_int_eq(cluster_node_replace(cluster, a.node, "op", &e), 0);
    const struct node_claim claim = {"n1", key, "", true};
    ck_assert_int_eq(cluster_node_join(cluster, &claim, &n, &e), 0);
    ck_assert_ptr_eq(n, a.node);
    return n;
}

// A task runs on n1, and another key takes the place of n1.
static void replaced(void)
{
    struct node *n;
    memset(&a, 0, sizeof(a));
    agent_join(&a, "n1", 4);
    t = &submit(JOB)->tasks[0];
    settle();
    ck_assert_uint_eq(agent_apply(&a, NULL), 1);
    agent_state(&a, 0, ATTEMPT_RUNNING, CAUSE_NONE, 0, LOGS_OPEN);
    n = replace("key-2");
    cluster_node_disconnected(cluster, n);
    n->answered_boot_ms = n->seen_boot_ms = clock_boot_ms() - 60000;
    struct agent fresh = {.node = n, .instance = "i-n1-new"};
    a = fresh;
    ck_assert_int_eq(say(&a, true, node_info(4), false), 0); // holds nothing
    ck_assert_int_eq(t->state, TASK_RUNNING);
    ck_assert_uint_eq(agent_apply(&a, NULL), 1);
}

static void over(int64_t ms_ago)
{
    a.node->former_seen_boot_ms = clock_boot_ms() - 20000 - lease_margin_ms(20000) - ms_ago;
    liveness_judge(cluster);
    settle();
}

START_TEST(the_new_ones_word_is_no_end)
    {
        replaced();
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_NEVER_STARTED, 0, LOGS_COMPLETE);
        a.n_held = 0;
        ck_assert_int_eq(say(&a, true, NULL, false), 0); // nor is what it does not list
        over(-1000);
        ck_assert_int_eq(t->state, TASK_RUNNING);
        ck_assert_int_eq(t->attempt, 1);
        over(0);
        ck_assert_int_eq(t->attempt, 2);
        ck_assert_int_eq(t->starts, 1); // not counted
        ck_assert(!t->former);
    }
END_TEST

START_TEST(one_that_ended_there_does_not_hold_the_node)
    {
        replaced();
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_NEVER_STARTED, 0, LOGS_COMPLETE);
        over(0);
        ck_assert_int_eq(t->attempt, 2);
        ck_assert_uint_eq(a.node->given_away, 0);
        ck_assert_int_eq(a.node->state, NODE_READY);
    }
END_TEST

START_TEST(the_same_machine_finds_it_running)
    {
        replaced();
        agent_state(&a, 0, ATTEMPT_RUNNING, CAUSE_NONE, 0, LOGS_OPEN);
        over(0);
        ck_assert_int_eq(t->attempt, 1);
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_EXIT, 0, LOGS_COMPLETE);
        ck_assert_int_eq(t->state, TASK_SUCCEEDED);
    }
END_TEST

START_TEST(a_stop_waits_for_it)
    {
        replaced();
        cluster_job_stop(cluster, t->job, "ann", "enough");
        settle();
        (void)agent_apply(&a, NULL);
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_STOPPED, 0, LOGS_COMPLETE);
        ck_assert_int_eq(t->state, TASK_STOPPING);
        over(0);
        ck_assert_int_eq(t->state, TASK_STOPPED);
    }
END_TEST

START_TEST(the_next_master_waits_too)
    {
        char id[JOB_ID_BYTES];
        replaced();
        memcpy(id, t->job->id, sizeof(id));
        restart_cluster(7);
        t = &cluster_job_by_id(cluster, id)->tasks[0];
        a.node = cluster_node_by_name(cluster, "n1");
        a.applied = (struct sync_position){0, 0};
        ck_assert_int_eq(say(&a, true, node_info(4), false), 0);
        (void)agent_apply(&a, NULL);
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_NEVER_STARTED, 0, LOGS_COMPLETE);
        ck_assert_int_eq(t->attempt, 1);
        over(-1000);
        ck_assert_int_eq(t->attempt, 1);
        over(0);
        ck_assert_int_eq(t->attempt, 2);
    }
END_TEST

// A master that stopped as planned had let the machine before run for longer than leases are.
static void granted_longer(void)
{
    replaced();
    a.node->former_granted_boot_ms = clock_boot_ms() + 600000;
}

START_TEST(the_new_ones_silence_is_no_end)
    {
        struct agent others[2] = {0};
        struct err e = {""};
        granted_longer();
        agent_join(&others[0], "n2", 4);
        agent_join(&others[1], "n3", 4);
        a.node->seen_boot_ms -= 300000;
        cluster->judge_from_ms -= 300000;
        liveness_judge(cluster);
        settle();
        ck_assert_int_eq(a.node->state, NODE_UNREACHABLE);
        ck_assert_int_eq(t->attempt, 1);
        ck_assert_int_eq(cluster_node_off(cluster, a.node, "op", &e), 0); // the new one is
        settle();
        ck_assert_int_eq(t->attempt, 1);
        a.node->former_granted_boot_ms = 0;
        over(0);
        ck_assert_int_eq(t->attempt, 2);
        ck_assert_int_eq(a.node->state, NODE_LOST);
    }
END_TEST

START_TEST(a_removal_waits_for_it)
    {
        granted_longer();
        cluster_node_remove(cluster, a.node, "op");
        ck_assert_int_ge(a.node->identity.remove_deadline_boot_ms, former_over_at(a.node, t));
        ck_assert_int_gt(former_over_at(a.node, t), clock_boot_ms() + 590000);
    }
END_TEST

START_TEST(the_first_of_several_has_its_time)
    {
        granted_longer();
        ck_assert_int_eq(a.node->granted_until_boot_ms, 0); // the second was answered since
        (void)replace("key-3");
        ck_assert_int_gt(former_over_at(a.node, t), clock_boot_ms() + 590000);
    }
END_TEST

int main(void)
{
    TCase *k = tcase_create("replaced");
    tcase_add_checked_fixture(k, setup, teardown);
    tcase_add_test(k, the_new_ones_word_is_no_end);
    tcase_add_test(k, one_that_ended_there_does_not_hold_the_node);
    tcase_add_test(k, the_same_machine_finds_it_running);
    tcase_add_test(k, a_stop_waits_for_it);
    tcase_add_test(k, the_next_master_waits_too);
    tcase_add_test(k, the_new_ones_silence_is_no_end);
    tcase_add_test(k, a_removal_waits_for_it);
    tcase_add_test(k, the_first_of_several_has_its_time);
    return run_case("former", k);
}
