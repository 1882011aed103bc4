// SPDX-License-Identifier: Apache-2.0
// Draining: what may finish, what the deadline stops and moves, which clock it goes by, and what
// orders that repeat or contradict each other do.
#include "test/unit/master/cluster_fixture.h"

#include "common/clock.h"
#include "master/cluster/cluster_internal.h"
#include "test/unit/suite.h"

#define JOB(more)                                                                                  \
    "{\"name\":\"j\",\"components\":{\"m\":{\"command\":\"x\",\"resources\":{\"cpu\":1}" more "}}" \
    "}"

static struct agent a, b;
static struct job *j;
static struct task *t;

static struct agent *other(const struct agent *x)
{
    return x == &a ? &b : &a;
}

// A job that runs; returns where.
static struct agent *start(const char *text)
{
    memset(&a, 0, sizeof(a));
    memset(&b, 0, sizeof(b));
    agent_join(&a, "n1", 4);
    agent_join(&b, "n2", 4);
    j = submit(text);
    settle();
    t = &j->tasks[0];
    struct agent *x = t->node == a.node ? &a : &b;
    ck_assert_uint_eq(agent_apply(x, NULL), 1);
    agent_state(x, 0, ATTEMPT_RUNNING, CAUSE_NONE, 0, LOGS_OPEN);
    return x;
}

static void drain(struct agent *x, const char *reason, int64_t deadline_ms)
{
    struct err e = {""};
    const struct drain_order o = {reason, deadline_ms, "ann"};
    ck_assert_msg(cluster_node_drain(cluster, x->node, &o, &e) == 0, "%s", e.text);
    settle();
}

// The loop runs until the deadline's timer has fired.
static void until_over(struct agent *x)
{
    while (!x->node->drain.over)
        (void)uv_run(&loop, UV_RUN_ONCE);
    settle();
}

static void stopped(struct agent *x, enum attempt_cause cause)
{
    enum desired_state want = DESIRED_RUN;
    ck_assert_int_eq(t->state, TASK_STOPPING);
    ck_assert_uint_eq(agent_apply(x, &want), 1);
    ck_assert_int_eq(want, DESIRED_STOP);
    agent_state(x, 0, ATTEMPT_ENDED, cause, 143, LOGS_COMPLETE);
}

START_TEST(without_deadline_it_may_finish)
    {
        struct agent *x = start(JOB(""));
        drain(x, "dust", DRAIN_KEEP);
        ck_assert_int_eq(t->state, TASK_RUNNING);
        ck_assert(!uv_is_active((uv_handle_t *)&cluster->node_timer));
        struct job *next = submit("{\"name\":\"k\",\"components\":{\"m\":{\"command\":\"x\"}}}");
        settle();
        ck_assert_ptr_eq(next->tasks[0].node, other(x)->node);
        ck_assert(!x->node->drain.empty_told);
        agent_state(x, 0, ATTEMPT_ENDED, CAUSE_EXIT, 0, LOGS_COMPLETE);
        ck_assert_int_eq(j->state, JOB_SUCCEEDED);
        ck_assert(x->node->drain.empty_told);
    }
END_TEST

START_TEST(deadline_stops_and_moves)
    {
        struct agent *x = start(JOB(""));
        drain(x, "dust", 1);
        until_over(x);
        stopped(x, CAUSE_STOPPED);
        ck_assert_ptr_eq(t->node, other(x)->node);
        ck_assert_int_eq(t->attempt, 2);
        ck_assert_int_eq(t->starts, 1); // not counted
        ck_assert_int_eq(t->infra_failures, 0);
        ck_assert(!t->moving);
    }
END_TEST

START_TEST(an_end_that_nobody_saw_moves_as_well)
    {
        struct agent *x = start(JOB(""));
        drain(x, NULL, 0);
        until_over(x);
        stopped(x, CAUSE_UNKNOWN);
        ck_assert_int_eq(t->attempt, 2);
    }
END_TEST

START_TEST(what_ended_before_the_stop_reached_it_has_ended)
    {
        struct agent *x = start(JOB(""));
        drain(x, NULL, 0);
        until_over(x);
        stopped(x, CAUSE_EXIT);
        ck_assert_int_eq(j->state, JOB_FAILED); // exit code 143 by itself, policy never
    }
END_TEST

START_TEST(what_must_not_start_again_is_lost)
    {
        struct agent *x = start(JOB(",\"on_node_lost\":{\"action\":\"fail\"}"));
        drain(x, "dust", 0);
        until_over(x);
        stopped(x, CAUSE_STOPPED);
        ck_assert_int_eq(t->state, TASK_LOST);
        ck_assert_int_eq(j->state, JOB_FAILED);
        ck_assert_ptr_nonnull(strstr(t->reason, "is drained by ann: its deadline is over"));
    }
END_TEST

START_TEST(a_stop_of_the_job_wins)
    {
        struct agent *x = start(JOB(""));
        drain(x, NULL, 0);
        until_over(x);
        cluster_job_stop(cluster, j, "ann", "enough");
        settle();
        stopped(x, CAUSE_STOPPED);
        ck_assert_int_eq(t->state, TASK_STOPPED);
        ck_assert_int_eq(j->state, JOB_STOPPED);
    }
END_TEST

// --- what runs there and is no task ---

// A node that holds nothing but an attempt of a job that nobody knows.
static struct agent *with_orphan(void)
{
    struct agent *x = other(start(JOB("")));
    cluster->options.orphans_ms = 3600000;
    x->n_held = 1;
    x->held[0] = (struct attempt_status){
        .id = "aaaaaaaaaaaaaaaaaaaaa", .job = "jaaaaaaaaaaaa", .state = ATTEMPT_RUNNING};
    return x;
}

START_TEST(orphans_are_work)
    {
        struct agent *x = with_orphan();
        enum desired_state want = DESIRED_RUN;
        ck_assert_int_eq(say(x, true, NULL, false), 0);
        ck_assert_int_eq(x->node->orphans, 1);
        drain(x, "dust", DRAIN_KEEP);
        ck_assert(!x->node->drain.empty_told);
        (void)agent_apply(x, &want);
        ck_assert_int_eq(want, DESIRED_RUN);
        drain(x, NULL, 0);
        until_over(x);
        (void)agent_apply(x, &want);
        ck_assert_int_eq(want, DESIRED_STOP);
        ck_assert(!x->node->drain.empty_told);
        agent_state(x, 0, ATTEMPT_ENDED, CAUSE_STOPPED, 143, LOGS_COMPLETE);
        ck_assert_int_eq(x->node->orphans, 0);
        ck_assert(x->node->drain.empty_told);
    }
END_TEST

START_TEST(orphans_that_come_after_the_deadline_are_stopped)
    {
        struct agent *x = with_orphan();
        enum desired_state want = DESIRED_RUN;
        drain(x, NULL, 0);
        until_over(x);
        ck_assert_int_eq(say(x, true, NULL, false), 0);
        (void)agent_apply(x, &want);
        ck_assert_int_eq(want, DESIRED_STOP);
    }
END_TEST

START_TEST(what_was_given_away_is_work)
    {
        struct agent *x = start(JOB(",\"on_node_lost\":{\"action\":\"restart\"}"));
        task_lost(cluster, x->node, t, "silent");
        settle();
        ck_assert_int_eq(x->node->given_away, 1);
        drain(x, NULL, DRAIN_KEEP);
        ck_assert_int_eq(x->node->tasks, 0);
        ck_assert(!x->node->drain.empty_told);
        agent_state(x, 0, ATTEMPT_ENDED, CAUSE_STOPPED, 143, LOGS_COMPLETE);
        ck_assert_int_eq(x->node->given_away, 0);
        ck_assert(x->node->drain.empty_told);
    }
END_TEST

START_TEST(logs_of_orphans_go_with_the_node)
    {
        struct agent *x = with_orphan();
        ck_assert_int_eq(say(x, true, NULL, false), 0);
        cluster_node_remove(cluster, x->node, "ann");
        ck_assert(!x->node->gone);
        ck_assert_int_eq(n_forgotten, 0);
        x->node->identity.remove_deadline_boot_ms = clock_boot_ms();
        node_remove_check(cluster, x->node);
        ck_assert_int_eq(n_forgotten, 1);
        ck_assert_str_eq(forgotten[0], x->held[0].id);
        settle();
    }
END_TEST

// --- orders that repeat and contradict ---

START_TEST(what_is_not_said_stays)
    {
        struct agent *x = start(JOB(""));
        const struct node_drain *d = &x->node->drain;
        drain(x, "dust", 3600000);
        int64_t at = d->deadline_boot_ms, events = cluster->last_event;
        drain(x, NULL, DRAIN_KEEP);
        drain(x, "dust", DRAIN_KEEP);
        ck_assert_int_eq(cluster->last_event, events); // nothing changed, nothing to tell
        drain(x, "fan", DRAIN_KEEP);
        ck_assert_str_eq(d->reason, "fan");
        ck_assert_int_eq(d->deadline_boot_ms, at);
        drain(x, NULL, 7200000);
        ck_assert_int_ge(d->deadline_boot_ms, at + 3600000);
        ck_assert_str_eq(d->reason, "fan");
        ck_assert(uv_is_active((uv_handle_t *)&cluster->node_timer));
        drain(x, NULL, DRAIN_NONE);
        ck_assert_int_eq(d->deadline_boot_ms, 0);
        ck_assert(!uv_is_active((uv_handle_t *)&cluster->node_timer));
        ck_assert(x->node->draining);
    }
END_TEST

START_TEST(resume_takes_all_back)
    {
        struct err e = {""};
        struct agent *x = start(JOB(""));
        drain(x, "dust", 1);
        for (int i = 0; i < 2; i++)
            ck_assert_int_eq(cluster_node_resume(cluster, x->node, "ann", &e), 0);
        ck_assert(!uv_is_active((uv_handle_t *)&cluster->node_timer));
        ck_assert_int_eq(x->node->drain.deadline_boot_ms, 0);
        ck_assert_str_eq(x->node->drain.reason, "");
        ck_assert_int_eq(t->state, TASK_RUNNING);
        // Too late for what the deadline has stopped: it goes on stopping, and may come back.
        drain(x, NULL, 0);
        until_over(x);
        ck_assert_int_eq(cluster_node_resume(cluster, x->node, "ann", &e), 0);
        stopped(x, CAUSE_STOPPED);
        ck_assert_int_eq(t->attempt, 2);
    }
END_TEST

START_TEST(a_removal_is_final)
    {
        struct err e = {""};
        struct agent *x = start(JOB(""));
        const struct drain_order o = {"dust", 0, "ann"};
        drain(x, "dust", 3600000);
        ck_assert_int_eq(cluster_node_replace(cluster, x->node, "ann", &e), 0);
        cluster_node_remove(cluster, x->node, "bob");
        cluster_node_remove(cluster, x->node, "bob");
        ck_assert_int_eq(cluster_node_drain(cluster, x->node, &o, &e), -EBUSY);
        ck_assert_ptr_nonnull(strstr(e.text, "is being removed by bob"));
        ck_assert_int_eq(cluster_node_resume(cluster, x->node, "ann", &e), -EBUSY);
        ck_assert_int_eq(cluster_node_replace(cluster, x->node, "ann", &e), -EBUSY);
        settle();
        stopped(x, CAUSE_STOPPED);
        ck_assert_ptr_eq(t->node, other(x)->node);
        ck_assert_int_eq(t->starts, 1);
    }
END_TEST

// --- over restarts of the master ---

static json_t *record_of(const struct node *n)
{
    char key[32];
    (void)snprintf(key, sizeof(key), "node:%s", n->id);
    json_t *r = json_loads(json_string_value(json_object_get(queue.records, key)), 0, NULL);
    ck_assert_ptr_nonnull(r);
    return r;
}

static void set_record(const struct node *n, const json_t *r)
{
    char key[32];
    char *text = json_dumps(r, 0);
    (void)snprintf(key, sizeof(key), "node:%s", n->id);
    json_put_str(queue.records, key, text);
    free(text);
}

// What is left of the deadline after a restart with the stored wall clock's moment moved by
// `step_ms`, in this boot or in another one.
static int64_t left_after(int64_t step_ms, bool same_boot)
{
    struct agent *x = start(JOB(""));
    drain(x, "dust", 3600000);
    cleanup_json json_t *r = record_of(x->node);
    json_t *d = json_object_get(r, "drain");
    json_put_time(d, "deadline", json_opt_time(d, "deadline") + step_ms);
    if (!same_boot)
        json_put_str(d, "boot_id", "another");
    set_record(x->node, r);
    restart_cluster(2);
    struct node *n = cluster_node_by_name(cluster, x == &a ? "n1" : "n2");
    ck_assert(n->draining);
    ck_assert_str_eq(n->drain.reason, "dust");
    ck_assert_str_eq(n->drain.by, "ann");
    ck_assert(uv_is_active((uv_handle_t *)&cluster->node_timer));
    return n->drain.deadline_boot_ms - clock_boot_ms();
}

START_TEST(a_step_of_the_wall_clock_moves_nothing)
    {
        int64_t left = left_after(-3000000, true);
        ck_assert_int_gt(left, 3500000);
        ck_assert_int_le(left, 3600000);
    }
END_TEST

START_TEST(after_a_reboot_the_wall_clock_tells)
    {
        int64_t left = left_after(-3000000, false);
        ck_assert_int_gt(left, 500000);
        ck_assert_int_le(left, 600000);
    }
END_TEST

START_TEST(a_deadline_that_passed_meanwhile)
    {
        struct agent *x = start(JOB(""));
        drain(x, "dust", 1);
        until_over(x);
        ck_assert_int_eq(t->state, TASK_STOPPING);
        char id[ID_BYTES];
        memcpy(id, j->id, sizeof(id));
        restart_cluster(2);
        x->node = cluster_node_by_name(cluster, x == &a ? "n1" : "n2");
        j = cluster_job_by_id(cluster, id);
        t = &j->tasks[0];
        ck_assert(t->moving);
        until_over(x);
        ck_assert_int_eq(say(x, true, node_info(4), false), 0);
        (void)agent_apply(x, NULL);
        agent_state(x, 0, ATTEMPT_ENDED, CAUSE_STOPPED, 143, LOGS_COMPLETE);
        ck_assert_int_eq(t->state, TASK_PENDING); // the other node was not heard yet
        ck_assert_int_eq(t->starts, 0);
    }
END_TEST

int main(void)
{
    TCase *k = tcase_create("draining");
    tcase_add_checked_fixture(k, setup, teardown);
    tcase_add_test(k, without_deadline_it_may_finish);
    tcase_add_test(k, deadline_stops_and_moves);
    tcase_add_test(k, an_end_that_nobody_saw_moves_as_well);
    tcase_add_test(k, what_ended_before_the_stop_reached_it_has_ended);
    tcase_add_test(k, what_must_not_start_again_is_lost);
    tcase_add_test(k, a_stop_of_the_job_wins);
    tcase_add_test(k, orphans_are_work);
    tcase_add_test(k, orphans_that_come_after_the_deadline_are_stopped);
    tcase_add_test(k, what_was_given_away_is_work);
    tcase_add_test(k, logs_of_orphans_go_with_the_node);
    tcase_add_test(k, what_is_not_said_stays);
    tcase_add_test(k, resume_takes_all_back);
    tcase_add_test(k, a_removal_is_final);
    tcase_add_test(k, a_step_of_the_wall_clock_moves_nothing);
    tcase_add_test(k, after_a_reboot_the_wall_clock_tells);
    tcase_add_test(k, a_deadline_that_passed_meanwhile);
    return run_case("node_drain", k);
}
