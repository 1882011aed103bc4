// SPDX-License-Identifier: Apache-2.0
// Attempts of jobs that the master does not know: what they take of their node, what else it gets
// meanwhile, and how long they are kept.
#include "test/unit/master/cluster_fixture.h"

#include "master/cluster/cluster_internal.h"
#include "master/scheduler/scheduler_internal.h"
#include "test/unit/suite.h"

#define HOUR INT64_C(3600000)
#define ORPHAN "aorphanaaaaaaaaaaaaaa"

static struct agent a;

static void start(void)
{
    memset(&a, 0, sizeof(a));
    cluster->options.orphans_ms = HOUR;
    agent_join(&a, "n1", 4);
}

static void hold_orphan(const struct attempt_holds *h)
{
    size_t i = a.n_held++;
    a.held[i] = (struct attempt_status){
        .id = ORPHAN, .job = "jaaaaaaaaaaaa", .state = ATTEMPT_RUNNING, .change = ++a.change};
    a.holds[i] = h ? *h : (struct attempt_holds){0};
    ck_assert_int_eq(say(&a, true, NULL, true), 0);
    ck_assert_int_eq(a.node->orphans, 1);
}

static struct job *put(const char *name, const char *resources)
{
    char text[256];
    (void)snprintf(
        text, sizeof(text),
        "{\"name\":\"%s\",\"components\":{\"m\":{\"command\":\"x\",\"resources\":{%s}}}}", name,
        resources);
    struct job *j = submit(text);
    settle();
    return j;
}

static bool placed(const struct job *j)
{
    return j->tasks[0].state == TASK_ASSIGNED;
}

static struct assignment *orphan(void)
{
    return assignment_find(a.node, ORPHAN);
}

static const struct attempt_holds three_cores = {
    .known = true, .resources = {3000, 1 << 20, 1}, .gpus = 1, .ports = {20000}, .n_ports = 1};

START_TEST(others_get_what_it_leaves)
    {
        start();
        hold_orphan(&three_cores);
        ck_assert_int_eq(a.node->state, NODE_READY);
        struct job *large = put("large", "\"cpu\":2"), *small = put("small", "\"cpu\":1,\"gpu\":1");
        ck_assert(!placed(large));
        ck_assert(placed(small));
        ck_assert_uint_eq(small->tasks[0].gpus, 2); // the other card
        ck_assert_int_eq(a.node->reserved.cpu_milli, 4000);
        cleanup_json json_t *view = node_view(a.node);
        const json_t *o = json_array_get(json_object_get(view, "orphans"), 0);
        ck_assert_int_eq(json_opt_i64(json_object_get(o, "holds"), "cpu", 0), 3000);
        // It ends; its logs are still coming.
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_EXIT, 0, LOGS_OPEN);
        ck_assert_int_eq(a.node->orphans, 1);
        ck_assert_int_eq(a.node->reserved.cpu_milli, 3000);
        ck_assert(placed(large));
        ck_assert_uint_eq(a.node->gpus_taken, 2);
        a.held[0].change = ++a.change;
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_EXIT, 0, LOGS_COMPLETE);
        ck_assert_int_eq(a.node->orphans, 0);
        ck_assert_int_eq(a.node->reserved.cpu_milli, 3000);
    }
END_TEST

START_TEST(an_exclusive_job_is_not_put_beside_it)
    {
        start();
        hold_orphan(&three_cores);
        struct job *j = submit("{\"name\":\"alone\",\"exclusive\":true,\"components\":{\"m\":{"
                               "\"command\":\"x\",\"resources\":{\"cpu\":1}}}}");
        settle();
        ck_assert(!placed(j));
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_EXIT, 0, LOGS_COMPLETE);
        ck_assert(placed(j));
    }
END_TEST

START_TEST(its_node_is_kept_from_others_when_it_is_not_known_what_it_takes)
    {
        start();
        hold_orphan(NULL);
        ck_assert_int_eq(a.node->state, NODE_NOT_READY);
        ck_assert_ptr_nonnull(strstr(a.node->reason, "does not say what they take"));
        struct job *j = put("waits", "\"cpu\":1");
        ck_assert(!placed(j));
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_EXIT, 0, LOGS_OPEN);
        ck_assert_int_eq(a.node->state, NODE_READY);
        ck_assert(placed(j));
        ck_assert_int_eq(a.node->orphans_unknown, 0);
    }
END_TEST

// The store went back to a task that had ended; its card and its port were given on since.
START_TEST(what_a_forgotten_job_was_given_after_another_stays_taken)
    {
        start();
        struct job *j = put("before", "\"cpu\":1,\"gpu\":2");
        ck_assert_uint_eq(j->tasks[0].gpus, 3);
        (void)agent_apply(&a, NULL);
        agent_state(&a, 0, ATTEMPT_RUNNING, CAUSE_NONE, 0, LOGS_OPEN);
        hold_orphan(&three_cores);
        ck_assert_uint_eq(a.node->gpus_taken, 3);
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_EXIT, 0, LOGS_COMPLETE);
        ck_assert_int_eq(j->state, JOB_SUCCEEDED);
        ck_assert_uint_eq(a.node->gpus_taken, 1);
        ck_assert_uint_eq(a.node->ports_taken[0] & 1, 1);
        struct job *two = put("two", "\"gpu\":2"), *one = put("one", "\"gpu\":1");
        ck_assert(!placed(two));
        ck_assert(placed(one));
        ck_assert_uint_eq(one->tasks[0].gpus, 2);
    }
END_TEST

// The next master; the agent comes to it.
static void next_master(int64_t epoch)
{
    restart_cluster(epoch);
    cluster->options.orphans_ms = HOUR;
    a.node = cluster_node_by_name(cluster, "n1");
}

START_TEST(its_time_goes_on_with_the_next_master)
    {
        start();
        hold_orphan(&three_cores);
        int64_t until = orphan()->orphan_until_boot_ms;
        ck_assert_int_le(until, clock_boot_ms() + HOUR);
        until = orphan()->orphan_until_boot_ms -= HOUR / 2; // as after half an hour
        node_dirty(cluster, a.node);
        settle();
        next_master(2);
        node_dirty(cluster, a.node); // written anew before the node has told
        settle();
        next_master(3);
        ck_assert_int_eq(say(&a, true, node_info(4), true), 0);
        ck_assert_int_eq(a.node->state, NODE_READY);
        ck_assert_int_eq(a.node->reserved.cpu_milli, 3000);
        ck_assert_int_eq(orphan()->orphan_until_boot_ms, until);
        ck_assert_ptr_null(a.node->orphan_times);
        orphan_expire(cluster, a.node, until - 1);
        ck_assert_int_eq(orphan()->desired, DESIRED_RUN);
        orphan_expire(cluster, a.node, until);
        ck_assert_int_eq(orphan()->desired, DESIRED_STOP);
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_STOPPED, 0, LOGS_COMPLETE);
        settle();
        char key[8 + ID_BYTES];
        (void)snprintf(key, sizeof(key), "node:%s", a.node->id);
        ck_assert_ptr_null(strstr(json_opt_str(queue.records, key, ""), "orphans"));
    }
END_TEST

START_TEST(a_master_that_keeps_them_shorter_does)
    {
        start();
        hold_orphan(&three_cores);
        next_master(2);
        cluster->options.orphans_ms = 60000;
        ck_assert_int_eq(say(&a, true, node_info(4), true), 0);
        ck_assert_int_le(orphan()->orphan_until_boot_ms, clock_boot_ms() + 60000);
    }
END_TEST

// Else all that wait would be tried anew at each of its messages.
START_TEST(a_node_that_has_one_did_not_grow)
    {
        struct kept_change change;
        struct kept *k = &cluster->scheduler->kept;
        start();
        hold_orphan(&three_cores);
        ck_assert_int_eq(kept_refresh(k, cluster->nodes, &change), 0);
        kept_stale(k, a.node);
        ck_assert_int_eq(kept_refresh(k, cluster->nodes, &change), 0);
        ck_assert(!change.grew);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("orphan");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, others_get_what_it_leaves);
    tcase_add_test(t, an_exclusive_job_is_not_put_beside_it);
    tcase_add_test(t, a_node_that_has_one_did_not_grow);
    tcase_add_test(t, its_node_is_kept_from_others_when_it_is_not_known_what_it_takes);
    tcase_add_test(t, what_a_forgotten_job_was_given_after_another_stays_taken);
    tcase_add_test(t, its_time_goes_on_with_the_next_master);
    tcase_add_test(t, a_master_that_keeps_them_shorter_does);
    return run_case("orphan", t);
}
