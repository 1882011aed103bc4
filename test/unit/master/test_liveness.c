// SPDX-License-Identifier: Apache-2.0
// Silent nodes: when they are unreachable, when what ran there is lost, when nothing is moved, and
// what a node that comes back is told. Time passes by setting back when a node was heard.
#include "test/unit/master/cluster_fixture.h"

#include "common/clock.h"
#include "master/cluster/cluster_internal.h"
#include "test/unit/suite.h"

#define JOB(lost)                                                                                  \
    "{\"name\":\"j\",\"components\":{\"m\":{\"command\":\"x\",\"resources\":{\"cpu\":1},"          \
    "\"on_node_lost\":" lost "}}}"

static struct agent a, b, d; // three nodes
static struct task *t;

// `ms` pass in which the node is silent.
static void silence(struct agent *x, int64_t ms)
{
    x->node->seen_boot_ms -= ms;
    cluster->judge_from_ms -= ms;
    liveness_judge(cluster);
    settle();
}

static struct agent *where(const struct task *task)
{
    return task->node == a.node ? &a : task->node == b.node ? &b : &d;
}

static void others_are_heard(const struct agent *silent)
{
    struct agent *const all[] = {&a, &b, &d};
    for (size_t i = 0; i < 3; i++)
        if (all[i] != silent)
            ck_assert_int_eq(say(all[i], false, NULL, false), 0);
}

static struct agent *start(const char *text)
{
    memset(&a, 0, sizeof(a));
    memset(&b, 0, sizeof(b));
    memset(&d, 0, sizeof(d));
    agent_join(&a, "n1", 4);
    agent_join(&b, "n2", 4);
    agent_join(&d, "n3", 4);
    t = &submit(text)->tasks[0];
    settle();
    struct agent *x = where(t);
    ck_assert_uint_eq(agent_apply(x, NULL), 1);
    agent_state(x, 0, ATTEMPT_RUNNING, CAUSE_NONE, 0, LOGS_OPEN);
    return x;
}

static void silent_for(struct agent *x, int64_t ms)
{
    others_are_heard(x);
    silence(x, ms);
}

static bool renewed(struct agent *x, const char *id)
{
    struct sync_answer answer;
    bool listed = false;
    ck_assert_int_eq(cluster_node_answer(cluster, x->node, &x->applied, &answer), 0);
    for (size_t i = 0; i < answer.n_leases; i++)
        listed |= strcmp(answer.leases[i], id) == 0;
    bool yes =
        answer.lease_scope == LEASES_ALL || (answer.lease_scope == LEASES_ONLY ? listed : !listed);
    sync_answer_reset(&answer);
    return yes;
}

START_TEST(unreachable_moves_nothing)
    {
        struct agent *x = start(JOB("{\"after\":\"20s\"}"));
        silent_for(x, 3900);
        ck_assert_int_eq(x->node->state, NODE_READY);
        silent_for(x, 200);
        ck_assert_int_eq(x->node->state, NODE_UNREACHABLE);
        silent_for(x, 15000);
        ck_assert_int_eq(t->state, TASK_RUNNING);
        ck_assert_int_eq(t->attempt, 1);
        ck_assert_int_eq(say(x, false, NULL, false), 0);
        ck_assert_int_eq(x->node->state, NODE_READY);
        ck_assert(renewed(x, t->attempt_id));
    }
END_TEST

START_TEST(lost_after_the_lease_and_the_margin)
    {
        char old[ATTEMPT_ID_BYTES];
        struct agent *x = start(JOB("{\"after\":\"20s\"}"));
        memcpy(old, t->attempt_id, sizeof(old));
        silent_for(x, 22900); // 20 s and not all of the margin
        ck_assert_int_eq(t->attempt, 1);
        silent_for(x, 300);
        ck_assert_int_eq(t->state, TASK_ASSIGNED);
        ck_assert_int_eq(t->attempt, 2);
        ck_assert_int_eq(t->starts, 1); // not counted
        ck_assert_ptr_ne(t->node, x->node);
        ck_assert_int_eq(x->node->tasks, 0);
        silent_for(x, 60000);
        ck_assert_int_eq(x->node->state, NODE_LOST);
        // Back: no lease for the old one, told to stop it, and of use when that is done.
        ck_assert(!renewed(x, old));
        ck_assert_int_eq(say(x, false, NULL, false), 0);
        ck_assert_int_eq(x->node->state, NODE_NOT_READY);
        ck_assert(!renewed(x, old));
        enum desired_state want = DESIRED_RUN;
        ck_assert_uint_eq(agent_apply(x, &want), 1);
        ck_assert_int_eq(want, DESIRED_STOP);
        ck_assert(!renewed(x, old));
        ck_assert(cluster_node_holds(x->node, old)); // its log is still welcome
        agent_state(x, 0, ATTEMPT_ENDED, CAUSE_STOPPED, 137, LOGS_COMPLETE);
        ck_assert_int_eq(x->node->state, NODE_READY);
        ck_assert_int_eq(t->attempt, 2);
    }
END_TEST

START_TEST(not_durable_yet_is_not_renewed_either)
    {
        char old[ATTEMPT_ID_BYTES];
        struct agent *x = start(JOB("{\"after\":\"20s\"}"));
        memcpy(old, t->attempt_id, sizeof(old));
        x->node->seen_boot_ms -= 24000;
        cluster->judge_from_ms -= 24000;
        liveness_judge(cluster); // nothing of it is on the disk
        ck_assert(!cluster_node_settled(x->node));
        ck_assert(!renewed(x, old));
        settle();
    }
END_TEST

START_TEST(what_a_new_master_does_not_know_is_not_renewed)
    {
        struct agent *x = start(JOB("{\"after\":\"20s\"}"));
        struct sync_position applied = x->applied;
        x->applied = (struct sync_position){cluster->epoch - 1, 5};
        x->node->wants_inventory = true;
        ck_assert(renewed(x, t->attempt_id));
        ck_assert(!renewed(x, "aelse"));
        x->applied = applied;
        x->node->wants_inventory = false;
    }
END_TEST

START_TEST(fail_ends_the_job)
    {
        struct agent *x = start(JOB("{\"after\":\"20s\",\"action\":\"fail\"}"));
        silent_for(x, 24000);
        ck_assert_int_eq(t->state, TASK_LOST);
        ck_assert_int_eq(t->job->state, JOB_FAILED);
    }
END_TEST

START_TEST(wait_needs_a_word)
    {
        struct err e = {""};
        struct agent *x = start(JOB("{\"after\":\"20s\",\"action\":\"wait\"}"));
        ck_assert_int_eq(cluster_node_off(cluster, x->node, "ann", &e), -EBUSY);
        silent_for(x, 24000);
        silent_for(x, 240000);
        ck_assert_int_eq(t->attempt, 1);
        ck_assert_int_eq(x->node->state, NODE_UNREACHABLE);
        ck_assert_ptr_nonnull(strstr(x->node->reason, "wait"));
        ck_assert_int_eq(cluster_node_off(cluster, x->node, "ann", &e), 0);
        ck_assert_int_eq(cluster_node_off(cluster, x->node, "ann", &e), 0);
        settle();
        ck_assert_int_eq(t->attempt, 2);
        ck_assert_int_eq(x->node->state, NODE_LOST);
    }
END_TEST

START_TEST(stop_waits_for_the_lease)
    {
        struct agent *x = start(JOB("{\"after\":\"20s\",\"action\":\"wait\"}"));
        silent_for(x, 10000);
        cluster_job_stop(cluster, t->job, "ann", "enough");
        settle();
        ck_assert_int_eq(t->state, TASK_STOPPING);
        silent_for(x, 12000);
        ck_assert_int_eq(t->state, TASK_STOPPING);
        silent_for(x, 2000);
        ck_assert_int_eq(t->state, TASK_STOPPED);
        ck_assert_int_eq(t->job->state, JOB_STOPPED);
    }
END_TEST

START_TEST(who_comes_back_last_gets_a_new_term)
    {
        struct agent *x = start(JOB("{\"after\":\"20s\"}"));
        cluster->judge_from_ms -= 300000;
        a.node->seen_boot_ms -= 300000;
        b.node->seen_boot_ms -= 300000;
        silence(&d, 300000);
        ck_assert_ptr_nonnull(strstr(cluster_moves_held(cluster), "3 of 3"));
        silent_for(x, 0);
        ck_assert_str_eq(cluster_moves_held(cluster), "");
        ck_assert_int_eq(t->attempt, 1);
        silent_for(x, 22900);
        ck_assert_int_eq(t->attempt, 1);
        silent_for(x, 300);
        ck_assert_int_eq(t->attempt, 2);
    }
END_TEST

START_TEST(stop_ends_with_the_lease_also_when_nothing_is_moved)
    {
        (void)start(JOB("{\"after\":\"20s\"}"));
        cluster_job_stop(cluster, t->job, "ann", "enough");
        settle();
        cluster->judge_from_ms -= 22000;
        a.node->seen_boot_ms -= 22000;
        b.node->seen_boot_ms -= 22000;
        silence(&d, 22000);
        ck_assert_ptr_nonnull(strstr(cluster_moves_held(cluster), "3 of 3"));
        ck_assert_int_eq(t->state, TASK_STOPPING);
        a.node->seen_boot_ms -= 2000;
        b.node->seen_boot_ms -= 2000;
        silence(&d, 2000);
        ck_assert_int_eq(t->state, TASK_STOPPED);
        ck_assert_int_eq(t->node->state, NODE_UNREACHABLE);
    }
END_TEST

START_TEST(more_than_half_at_once_moves_nothing)
    {
        struct err e = {""};
        (void)start(JOB("{\"after\":\"20s\"}"));
        cluster->judge_from_ms -= 300000;
        a.node->seen_boot_ms -= 300000;
        b.node->seen_boot_ms -= 300000;
        d.node->seen_boot_ms -= 300000;
        ck_assert_int_eq(say(where(t) == &a ? &b : &a, false, NULL, false), 0);
        liveness_judge(cluster);
        settle();
        ck_assert_int_eq(t->attempt, 1);
        ck_assert_ptr_nonnull(strstr(cluster_moves_held(cluster), "2 of 3"));
        struct node *old = t->node;
        ck_assert_int_eq(cluster_node_off(cluster, t->node, "ann", &e), 0);
        settle();
        ck_assert_int_eq(t->attempt, 2);
        ck_assert_int_eq(old->state, NODE_LOST);
    }
END_TEST

START_TEST(a_longer_lease_of_the_master_before_is_waited_out)
    {
        struct agent *x = start(JOB("{\"after\":\"20s\"}"));
        x->node->granted_until_boot_ms = clock_boot_ms() + 1000000;
        silent_for(x, 100000);
        ck_assert_int_eq(t->attempt, 1);
        x->node->granted_until_boot_ms = clock_boot_ms() - 4000;
        silent_for(x, 10);
        ck_assert_int_eq(t->attempt, 2);
    }
END_TEST

START_TEST(an_agent_that_took_our_assignment_has_our_lease)
    {
        struct agent *x = start(JOB("{\"after\":\"20s\"}"));
        x->node->granted_until_boot_ms = clock_boot_ms() + 1000000;
        ck_assert_int_eq(say(x, false, NULL, false), 0);
        ck_assert_int_eq(x->node->granted_until_boot_ms, 0);
    }
END_TEST

START_TEST(a_shorter_interval_for_an_old_lease)
    {
        (void)start(JOB("{\"after\":\"20s\"}"));
        ck_assert_int_eq(cluster_lease_min(cluster), 9000);
        node_bound_interval(cluster, a.node, 9000);
        ck_assert_int_eq(cluster_node_interval(cluster, a.node), 1000);
        node_bound_interval(cluster, a.node, 7000);
        ck_assert_int_eq(cluster_node_interval(cluster, a.node), 500);
        node_bound_interval(cluster, a.node, 1000);
        ck_assert_int_eq(cluster_node_interval(cluster, a.node), 200);
    }
END_TEST

int main(void)
{
    TCase *k = tcase_create("judging");
    tcase_add_checked_fixture(k, setup, teardown);
    tcase_add_test(k, unreachable_moves_nothing);
    tcase_add_test(k, lost_after_the_lease_and_the_margin);
    tcase_add_test(k, not_durable_yet_is_not_renewed_either);
    tcase_add_test(k, what_a_new_master_does_not_know_is_not_renewed);
    tcase_add_test(k, fail_ends_the_job);
    tcase_add_test(k, wait_needs_a_word);
    tcase_add_test(k, stop_waits_for_the_lease);
    tcase_add_test(k, who_comes_back_last_gets_a_new_term);
    tcase_add_test(k, stop_ends_with_the_lease_also_when_nothing_is_moved);
    tcase_add_test(k, more_than_half_at_once_moves_nothing);
    tcase_add_test(k, a_longer_lease_of_the_master_before_is_waited_out);
    tcase_add_test(k, an_agent_that_took_our_assignment_has_our_lease);
    tcase_add_test(k, a_shorter_interval_for_an_old_lease);
    return run_case("liveness", k);
}
