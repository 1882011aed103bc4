// SPDX-License-Identifier: Apache-2.0
// Stopping a running job for another: all of it waits again, whatever it says of lost nodes, and
// nothing of it starts while the rest is being stopped. The head of the queue, for which that is.
#include "test/unit/master/cluster_fixture.h"

#include "master/cluster/cluster_internal.h"
#include "master/scheduler/scheduler.h"
#include "master/scheduler/scheduler_internal.h"
#include "test/unit/suite.h"

#define LOW                                                                                        \
    "{\"name\":\"low\",\"priority\":10,\"preemptible\":true,\"components\":{"                      \
    "\"big\":{\"command\":\"x\",\"resources\":{\"cpu\":4},\"on_node_lost\":{\"action\":\"fail\"}}" \
    ",\"small\":{\"command\":\"x\",\"resources\":{\"cpu\":1},"                                     \
    "\"restart\":{\"policy\":\"on-failure\"}}}}"
#define HIGH                                                                                       \
    "{\"name\":\"high\",\"priority\":20,\"components\":{"                                          \
    "\"m\":{\"command\":\"x\",\"resources\":{\"cpu\":4}}}}"

static struct agent a, b; // of 4 cores, of 1
static struct job *low;
static struct task *big, *small;

static void begin(void)
{
    hold_after_ms = 600000;
    setup();
    memset(&a, 0, sizeof(a));
    memset(&b, 0, sizeof(b));
    agent_join(&a, "n1", 4);
    agent_join(&b, "n2", 1);
    low = submit(LOW);
    settle();
    big = &low->tasks[0];
    small = &low->tasks[1];
    ck_assert_ptr_eq(big->node, a.node);
    ck_assert_ptr_eq(small->node, b.node);
    (void)agent_apply(&a, NULL);
    (void)agent_apply(&b, NULL);
    agent_state(&a, 0, ATTEMPT_RUNNING, CAUSE_NONE, 0, LOGS_OPEN);
    agent_state(&b, 0, ATTEMPT_RUNNING, CAUSE_NONE, 0, LOGS_OPEN);
}

static void stopped(struct agent *x)
{
    enum desired_state want = DESIRED_RUN;
    ck_assert_uint_eq(agent_apply(x, &want), 1);
    ck_assert_int_eq(want, DESIRED_STOP);
    agent_state(x, 0, ATTEMPT_ENDED, CAUSE_STOPPED, 143, LOGS_COMPLETE);
}

START_TEST(waits_again_whatever_it_says_of_lost_nodes)
    {
        const struct job *high = submit(HIGH);
        settle();
        ck_assert_int_eq(big->state, TASK_STOPPING);
        stopped(&a);
        ck_assert_int_eq(big->state, TASK_PENDING);
        stopped(&b);
        ck_assert_int_eq(small->state, TASK_PENDING);
        ck_assert_ptr_eq(high->tasks[0].node, a.node);
    }
END_TEST

// One of its tasks ended by itself a moment ago, and is due while the others are being stopped.
START_TEST(no_task_of_it_starts_meanwhile)
    {
        (void)submit(HIGH);
        agent_state(&b, 0, ATTEMPT_ENDED, CAUSE_EXIT, 1, LOGS_COMPLETE);
        settle();
        ck_assert_int_eq(big->state, TASK_STOPPING);
        ck_assert_int_eq(small->state, TASK_PENDING);
        stopped(&a);
        ck_assert_int_eq(big->state, TASK_PENDING);
        ck_assert_int_eq(small->state, TASK_PENDING);
    }
END_TEST

START_TEST(the_head_stays_it_when_something_of_it_changed)
    {
        struct job *next = submit("{\"name\":\"next\",\"priority\":5,\"components\":{"
                                  "\"m\":{\"command\":\"x\",\"resources\":{\"cpu\":4}}}}");
        settle();
        struct plan_queue *q = cluster->scheduler->queue;
        ck_assert_ptr_eq(plan_queue_head(q).id, next->id);
        scheduler_job_stale(cluster, next);
        ck_assert_int_eq(scheduler_sync(cluster), 0);
        ck_assert(!next->plan_stale);
        ck_assert_ptr_eq(plan_queue_head(q).id, next->id);
    }
END_TEST

static struct job *fill(struct agent *x, const char *name, const char *text)
{
    memset(x, 0, sizeof(*x));
    agent_join(x, name, 4);
    struct job *j = submit(text);
    settle();
    ck_assert_ptr_eq(j->tasks[0].node, x->node);
    (void)agent_apply(x, NULL);
    agent_state(x, 0, ATTEMPT_RUNNING, CAUSE_NONE, 0, LOGS_OPEN);
    return j;
}

static void silent(const struct agent *x)
{
    x->node->seen_boot_ms -= 5000;
    cluster->judge_from_ms -= 5000;
    liveness_judge(cluster);
    settle();
    ck_assert_int_eq(x->node->state, NODE_UNREACHABLE);
}

// Four nodes of 4 cores with a job each, the first one waits for its node whatever happens.
#define FILL(name, priority)                                                                       \
    "{\"name\":\"" name "\",\"priority\":" priority ",\"preemptible\":true,\"components\":{"       \
    "\"m\":{\"command\":\"x\",\"resources\":{\"cpu\":4},\"on_node_lost\":{\"action\":\"wait\"}}}}"

START_TEST(one_that_cannot_be_stopped_keeps_nobody_from_it)
    {
        struct agent c, d;
        const struct job *next = fill(&c, "n3", FILL("next", "11"));
        const struct job *third = fill(&d, "n4", FILL("third", "12"));
        const struct job *high = submit(HIGH);
        settle();
        ck_assert(low->preempting);
        silent(&b); // nothing of it is needed for the head
        ck_assert(!next->preempting);
        silent(&a); // its big task does not end
        ck_assert(next->preempting);
        ck_assert(!third->preempting);
        stopped(&c);
        ck_assert_ptr_eq(high->tasks[0].node, c.node);
        ck_assert_int_eq(next->tasks[0].state, TASK_PENDING);
        ck_assert_int_eq(third->tasks[0].state, TASK_RUNNING);
        // It is heard again, and ends as it was told to: what waited starts there.
        ck_assert_int_eq(say(&a, false, NULL, false), 0);
        stopped(&a);
        ck_assert_ptr_eq(next->tasks[0].node, a.node);
    }
END_TEST

// The head needs two nodes; one of its victims has ended, the other one's node is silent.
START_TEST(what_was_freed_stays_with_the_head)
    {
        struct agent c, d, e;
        const struct job *next = fill(&c, "n3", FILL("next", "11"));
        const struct job *third = fill(&d, "n4", FILL("third", "12"));
        const struct job *fourth = fill(&e, "n5", FILL("fourth", "13"));
        const struct job *high = submit("{\"name\":\"high\",\"priority\":20,\"components\":{\"m\":{"
                                        "\"num\":2,\"command\":\"x\",\"resources\":{\"cpu\":3}}}}");
        (void)submit("{\"name\":\"small\",\"priority\":1,\"components\":{\"m\":{"
                     "\"command\":\"x\",\"resources\":{\"cpu\":4}}}}");
        settle();
        ck_assert(low->preempting && next->preempting && !third->preempting);
        silent(&c);
        ck_assert(third->preempting && !fourth->preempting); // in the place of `next` only
        stopped(&a);
        ck_assert_int_eq(a.node->tasks, 0);
        stopped(&d);
        ck_assert_int_eq(high->state, JOB_RUNNING);
        ck_assert_int_eq(high->tasks[0].state, TASK_ASSIGNED);
        ck_assert_ptr_ne(high->tasks[0].node, c.node);
        ck_assert_ptr_ne(high->tasks[1].node, c.node);
        ck_assert_int_eq(fourth->tasks[0].state, TASK_RUNNING);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("preempt");
    tcase_add_checked_fixture(t, begin, teardown);
    tcase_add_test(t, waits_again_whatever_it_says_of_lost_nodes);
    tcase_add_test(t, no_task_of_it_starts_meanwhile);
    tcase_add_test(t, one_that_cannot_be_stopped_keeps_nobody_from_it);
    tcase_add_test(t, what_was_freed_stays_with_the_head);
    tcase_add_test(t, the_head_stays_it_when_something_of_it_changed);
    return run_case("preempt", t);
}
