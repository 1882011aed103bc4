// SPDX-License-Identifier: Apache-2.0
// What a new master must know of the queue of the one before: for which job nodes are kept, which
// jobs are being stopped for it, which nodes failed a job, who used how much. And what a silent
// node changes of it.
#include "test/unit/master/cluster_fixture.h"

#include "master/cluster/cluster_internal.h"
#include "master/scheduler/queue_internal.h"
#include "master/scheduler/scheduler.h"
#include "master/scheduler/scheduler_internal.h"
#include "test/unit/suite.h"

#define JOB(name, priority, num, cpu)                                                              \
    "{\"name\":\"" name "\",\"priority\":" priority ",\"preemptible\":true,\"components\":{"       \
    "\"m\":{\"command\":\"x\",\"num\":" num ",\"resources\":{\"cpu\":" cpu "}}}}"

#define LIMITED(name, timeout)                                                                     \
    "{\"name\":\"" name "\",\"components\":{\"m\":{\"command\":\"x\",\"resources\":{\"cpu\":4},"   \
    "\"timeout\":\"" timeout "\"}}}"

static struct agent a, b; // of 4 cores each

static void begin(void)
{
    hold_after_ms = 600000;
    setup();
    memset(&a, 0, sizeof(a));
    memset(&b, 0, sizeof(b));
    agent_join(&a, "n1", 4);
    agent_join(&b, "n2", 4);
}

static void heard(struct agent *x, const char *name)
{
    x->node = cluster_node_by_name(cluster, name);
    ck_assert_int_eq(say(x, true, node_info(4), false), 0);
    ck_assert_int_eq(x->node->state, NODE_READY);
}

static struct job *again(const char *id)
{
    return cluster_job_by_id(cluster, id);
}

static const char *head(void)
{
    const char *id = plan_queue_head(cluster->scheduler->queue).id;
    return id ? id : "none";
}

// `wide` needs both nodes, of which one is busy; `late` came after it and would fit on the other.
struct scene {
    char busy[20], wide[20], late[20];
};

static struct scene wait_for_both(void)
{
    struct scene s;
    const struct job *busy = submit(LIMITED("busy", "1h"));
    settle();
    (void)agent_apply(busy->tasks[0].node == a.node ? &a : &b, NULL);
    const struct job *wide = submit(JOB("wide", "50", "2", "4"));
    const struct job *late = submit(LIMITED("late", "2h"));
    settle();
    (void)snprintf(s.busy, sizeof(s.busy), "%s", busy->id);
    (void)snprintf(s.wide, sizeof(s.wide), "%s", wide->id);
    (void)snprintf(s.late, sizeof(s.late), "%s", late->id);
    return s;
}

START_TEST(nodes_are_kept_while_others_come_back)
    {
        struct scene s = wait_for_both();
        bool on_a = strcmp(again(s.busy)->tasks[0].node_name, "n1") == 0;
        ck_assert_str_eq(head(), s.wide);
        ck_assert_int_eq(again(s.late)->state, JOB_PENDING);
        restart_cluster(2);
        struct agent *idle = on_a ? &b : &a, *full = on_a ? &a : &b;
        heard(idle, on_a ? "n2" : "n1");
        ck_assert_int_eq(again(s.late)->state, JOB_PENDING);
        ck_assert_str_eq(head(), s.wide);
        liveness_judge(cluster); // the other one may still come
        settle();
        ck_assert_int_eq(again(s.late)->state, JOB_PENDING);
        heard(full, on_a ? "n1" : "n2");
        ck_assert_str_eq(head(), s.wide);
        cluster_job_stop(cluster, again(s.busy), "ann", "test");
        settle();
        (void)agent_apply(full, NULL);
        agent_state(full, 0, ATTEMPT_ENDED, CAUSE_STOPPED, 143, LOGS_COMPLETE);
        ck_assert_int_eq(again(s.wide)->state, JOB_RUNNING);
        ck_assert_int_eq(again(s.late)->state, JOB_PENDING);
    }
END_TEST

START_TEST(a_node_that_stays_away_is_not_waited_for)
    {
        struct scene s = wait_for_both();
        cluster_job_stop(cluster, again(s.late), "ann", "test");
        settle();
        ck_assert_str_eq(head(), s.wide);
        bool on_a = strcmp(again(s.busy)->tasks[0].node_name, "n1") == 0;
        struct agent *idle = on_a ? &b : &a;
        restart_cluster(2);
        heard(idle, on_a ? "n2" : "n1");
        ck_assert_str_eq(head(), s.wide);
        const struct job *next = submit(JOB("next", "50", "1", "0"));
        settle();
        ck_assert_int_eq(next->state, JOB_PENDING);
        cluster->judge_from_ms -= 5000;
        liveness_judge(cluster);
        settle();
        ck_assert_int_eq(next->state, JOB_PENDING);
        ck_assert_int_eq(cluster_node_by_name(cluster, on_a ? "n1" : "n2")->state,
                         NODE_UNREACHABLE);
        cluster->judge_from_ms -= 70000; // its lease is over
        idle->node->seen_boot_ms = clock_boot_ms();
        liveness_judge(cluster);
        settle();
        ck_assert_int_eq(next->state, JOB_RUNNING);
        ck_assert_str_eq(head(), "none");
    }
END_TEST

START_TEST(what_is_being_stopped_waits_as_a_whole)
    {
        const struct job *low = submit(JOB("low", "10", "2", "4"));
        settle();
        char id[20];
        (void)snprintf(id, sizeof(id), "%s", low->id);
        (void)agent_apply(&a, NULL);
        (void)agent_apply(&b, NULL);
        (void)submit(JOB("high", "90", "2", "4"));
        settle();
        ck_assert(again(id)->preempting);
        (void)agent_apply(&a, NULL);
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_STOPPED, 143, LOGS_COMPLETE);
        restart_cluster(2);
        heard(&a, "n1");
        ck_assert(again(id)->preempting);
        heard(&b, "n2");
        ck_assert_int_eq(scheduler_preempting(cluster->scheduler), 1);
        ck_assert(!job_admissible(again(id)));
        (void)agent_apply(&b, NULL);
        agent_state(&b, 0, ATTEMPT_ENDED, CAUSE_STOPPED, 143, LOGS_COMPLETE);
        ck_assert(!again(id)->preempting);
        restart_cluster(3);
        ck_assert(!again(id)->preempting);
        ck_assert(job_admissible(again(id)));
    }
END_TEST

START_TEST(what_somebody_used_counts_on)
    {
        struct plan_user_state before, after;
        half_life_ms = 3600000;
        restart_cluster(2);
        heard(&a, "n1");
        heard(&b, "n2");
        const struct job *j = submit(JOB("j", "50", "2", "4"));
        settle();
        (void)agent_apply(&a, NULL);
        (void)agent_apply(&b, NULL);
        user_of(cluster->scheduler->queue, "ann")->usage.at_ms -= 1000; // since a second
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_EXIT, 0, LOGS_COMPLETE);
        agent_state(&b, 0, ATTEMPT_ENDED, CAUSE_EXIT, 0, LOGS_COMPLETE);
        ck_assert_int_eq(j->state, JOB_SUCCEEDED);
        plan_queue_user(cluster->scheduler->queue, "ann", 0, &before);
        ck_assert_int_gt(before.usage.used[0], 0);
        restart_cluster(3);
        plan_queue_user(cluster->scheduler->queue, "ann", 0, &after);
        ck_assert_int_eq(after.usage.used[0], before.usage.used[0]);
        ck_assert_int_eq(after.usage.at_ms, before.usage.at_ms);
        half_life_ms = 0;
    }
END_TEST

START_TEST(nodes_that_failed_a_job_are_known)
    {
        const struct job *j =
            submit("{\"name\":\"j\",\"components\":{\"m\":{\"command\":\"x\","
                   "\"restart\":{\"policy\":\"on-failure\",\"backoff\":\"1h\"}}}}");
        settle();
        char id[20];
        (void)snprintf(id, sizeof(id), "%s", j->id);
        struct agent *x = j->tasks[0].node == a.node ? &a : &b;
        (void)agent_apply(x, NULL);
        agent_state(x, 0, ATTEMPT_ENDED, CAUSE_EXIT, 1, LOGS_COMPLETE);
        ck_assert_str_eq(again(id)->avoid, x->node->name);
        restart_cluster(2);
        ck_assert_str_eq(again(id)->avoid, x == &a ? "n1" : "n2");
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("head");
    tcase_add_checked_fixture(t, begin, teardown);
    tcase_add_test(t, nodes_are_kept_while_others_come_back);
    tcase_add_test(t, a_node_that_stays_away_is_not_waited_for);
    tcase_add_test(t, what_is_being_stopped_waits_as_a_whole);
    tcase_add_test(t, what_somebody_used_counts_on);
    tcase_add_test(t, nodes_that_failed_a_job_are_known);
    return run_case("head", t);
}
