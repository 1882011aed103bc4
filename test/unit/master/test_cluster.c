// SPDX-License-Identifier: Apache-2.0
// The cluster model against a scripted agent.
#include "test/unit/master/cluster_fixture.h"

#include "common/clock.h"
#include "test/unit/suite.h"

#define ONE                                                                                        \
    "{\"name\":\"one\",\"components\":{\"m\":{\"command\":\"true\",\"resources\":{\"cpu\":2}}}}"
#define AGAIN                                                                                      \
    "{\"name\":\"again\",\"components\":{\"m\":{\"command\":\"false\",\"restart\":{\"policy\":"    \
    "\"on-failure\",\"max_attempts\":2}}}}"

START_TEST(test_nothing_leaves_before_it_is_durable)
    {
        struct agent a = {0};
        agent_join(&a, "n1", 4);
        (void)agent_apply(&a, NULL);
        moved = 0;
        int64_t last = cluster_last_event(cluster);
        struct job *j = submit(ONE);
        collect_only(); // placed, and on its way to the store
        ck_assert_int_eq(j->tasks[0].state, TASK_ASSIGNED);
        ck_assert_int_eq(moved, 0);
        ck_assert_int_eq(cluster_last_event(cluster), last);
        ck_assert(!cluster_node_settled(a.node));
        ck_assert_uint_eq(agent_apply(&a, NULL), 0);
        settle();
        ck_assert_int_eq(moved, 1);
        ck_assert_int_gt(cluster_last_event(cluster), last);
        ck_assert_uint_eq(agent_apply(&a, NULL), 1);
        ck_assert_uint_eq(agent_apply(&a, NULL), 0);
    }
END_TEST

START_TEST(test_a_job_runs_to_its_end_and_frees_its_node)
    {
        struct agent a = {0};
        agent_join(&a, "n1", 4);
        struct job *j = submit(ONE);
        settle();
        ck_assert_int_eq(a.node->reserved.cpu_milli, 2000);
        ck_assert_uint_eq(agent_apply(&a, NULL), 1);
        agent_state(&a, 0, ATTEMPT_RUNNING, CAUSE_NONE, 0, LOGS_OPEN);
        ck_assert_int_eq(j->state, JOB_RUNNING);
        ck_assert_int_eq(j->tasks[0].state, TASK_RUNNING);
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_EXIT, 0, LOGS_OPEN);
        ck_assert_int_eq(a.node->reserved.cpu_milli, 0);   // the process is gone
        ck_assert_int_eq(j->tasks[0].state, TASK_RUNNING); // shown as ended when its logs are in
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_EXIT, 0, LOGS_COMPLETE);
        ck_assert_int_eq(j->tasks[0].state, TASK_SUCCEEDED);
        ck_assert_int_eq(j->state, JOB_SUCCEEDED);
        (void)agent_apply(&a, NULL);
        ck_assert_uint_eq(a.n_held, 0); // told to forget it
        ck_assert_int_eq(say(&a, false, NULL, false), 0);
        ck_assert_ptr_null(a.node->assignments);
        ck_assert(!a.node->wants_inventory);
    }
END_TEST

START_TEST(test_restart_gets_a_new_attempt_and_then_fails)
    {
        struct agent a = {0};
        char first[ATTEMPT_ID_BYTES];
        agent_join(&a, "n1", 4);
        struct job *j = submit(AGAIN);
        settle();
        memcpy(first, j->tasks[0].attempt_id, sizeof(first));
        (void)agent_apply(&a, NULL);
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_EXIT, 1, LOGS_OPEN);
        ck_assert_int_eq(j->tasks[0].attempt, 2);
        ck_assert_str_ne(j->tasks[0].attempt_id, first);
        ck_assert_str_eq(j->tasks[0].previous[0], first);
        ck_assert_uint_eq(agent_apply(&a, NULL), 1);
        ck_assert_uint_eq(a.n_held, 2); // the first one is held until its logs are in
        ck_assert(cluster_node_holds(a.node, first));
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_EXIT, 1, LOGS_COMPLETE);
        ck_assert(!cluster_node_holds(a.node, first));
        agent_state(&a, 1, ATTEMPT_ENDED, CAUSE_EXIT, 1, LOGS_COMPLETE);
        ck_assert_int_eq(j->state, JOB_FAILED);
        ck_assert_str_eq(j->reason, "m/0: exit code 1");
    }
END_TEST

START_TEST(test_all_or_nothing_and_freed_room_starts_the_next)
    {
        struct agent a = {0};
        agent_join(&a, "n1", 4);
        struct job *big = submit("{\"name\":\"b\",\"components\":{\"m\":{\"command\":\"x\",\"num\":"
                                 "2,\"resources\":{\"cpu\":2}}}}");
        struct job *waits = submit("{\"name\":\"w\",\"components\":{\"m\":{\"command\":\"x\","
                                   "\"num\":2,\"resources\":{\"cpu\":1}}}}");
        settle();
        ck_assert_int_eq(big->state, JOB_RUNNING);
        ck_assert_int_eq(waits->state, JOB_PENDING);
        ck_assert_int_eq(waits->totals[TASK_PENDING], 2);
        cluster_job_stop(cluster, big, "ann", "enough");
        settle();
        ck_assert_int_eq(big->state, JOB_STOPPING);
        enum desired_state d = DESIRED_RUN;
        ck_assert_uint_eq(agent_apply(&a, &d), 2);
        ck_assert_int_eq(d, DESIRED_STOP);
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_STOPPED, 0, LOGS_COMPLETE);
        // The room is reported and, in the same batch, given away.
        ck_assert_int_eq(waits->state, JOB_RUNNING);
        ck_assert_int_eq(waits->totals[TASK_ASSIGNED], 2);
        agent_state(&a, 1, ATTEMPT_ENDED, CAUSE_STOPPED, 0, LOGS_COMPLETE);
        ck_assert_int_eq(big->state, JOB_STOPPED);
    }
END_TEST

START_TEST(test_stop_of_a_waiting_job_ends_it_at_once)
    {
        struct job *j = submit(ONE);
        settle();
        ck_assert_int_eq(j->state, JOB_PENDING);
        cluster_job_stop(cluster, j, "ann", "no");
        cluster_job_stop(cluster, j, "ann", "no");
        settle();
        ck_assert_int_eq(j->state, JOB_STOPPED);
        struct err e;
        ck_assert_int_eq(cluster_job_delete(cluster, j, "ann", &e), 0);
        settle();
        ck_assert_uint_eq(cluster_job_count(cluster), 0);
        ck_assert_uint_eq(json_object_size(queue.records), 0);
    }
END_TEST

START_TEST(test_absence_counts_only_in_a_complete_inventory_that_includes_it)
    {
        struct agent a = {0};
        agent_join(&a, "n1", 4);
        struct job *j = submit(ONE);
        settle();
        ck_assert_int_eq(say(&a, true, NULL, false), 0); // has not applied the generation yet
        ck_assert_int_eq(j->tasks[0].state, TASK_ASSIGNED);
        (void)agent_apply(&a, NULL);
        agent_state(&a, 0, ATTEMPT_RUNNING, CAUSE_NONE, 0, LOGS_OPEN);
        a.n_held = 0; // somebody removed it behind the agent's back
        ck_assert_int_eq(say(&a, false, NULL, false), 0);
        ck_assert_int_eq(j->tasks[0].state, TASK_RUNNING);
        ck_assert(a.node->wants_inventory); // but the digest tells
        ck_assert_int_eq(say(&a, true, NULL, false), 0);
        ck_assert_int_eq(j->tasks[0].state, TASK_UNKNOWN);
        ck_assert_int_eq(j->state, JOB_FAILED);
        ck_assert_int_eq(a.node->reserved.cpu_milli, 0);
    }
END_TEST

START_TEST(test_a_new_instance_says_never_started_and_another_attempt_follows)
    {
        struct agent a = {0};
        agent_join(&a, "n1", 4);
        struct job *j = submit(ONE);
        settle();
        (void)agent_apply(&a, NULL);
        cluster_node_disconnected(cluster, a.node);
        (void)snprintf(a.instance, sizeof(a.instance), "i-n1-2");
        a.seq = a.change = 0;
        a.applied = (struct sync_position){0};
        a.n_held = 0;
        ck_assert_int_eq(say(&a, true, node_info(4), false), 0);
        ck_assert_int_eq(j->tasks[0].attempt,
                         1); // its generation was not applied by this instance: not gone
        (void)agent_apply(&a, NULL);
        ck_assert_uint_eq(a.n_held, 1);
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_NEVER_STARTED, 0, LOGS_COMPLETE);
        ck_assert_int_eq(j->tasks[0].attempt, 2);
        ck_assert_str_eq(j->tasks[0].issued_to, "i-n1-2");
        ck_assert_int_eq(j->tasks[0].starts, 1); // the lost one is not counted
    }
END_TEST

START_TEST(test_a_second_live_instance_is_refused)
    {
        struct agent a = {0}, b;
        agent_join(&a, "n1", 4);
        b = a;
        (void)snprintf(b.instance, sizeof(b.instance), "i-clone");
        ck_assert_int_eq(say(&b, true, NULL, false), -EBUSY);
        cluster_node_disconnected(cluster, a.node);
        ck_assert_int_eq(say(&b, true, NULL, false), 0);
    }
END_TEST

// A report on a fresh connection may arrive after the sync that was sent after it.
START_TEST(test_an_overtaken_report_still_tells_about_its_node)
    {
        struct agent a = {0};
        agent_join(&a, "n1", 4);
        a.seq = 10;
        ck_assert_int_eq(say(&a, false, NULL, false), 0); // 11: overtook
        a.seq = 9;
        ck_assert_int_eq(say(&a, false, node_info(6), false), 0); // 10
        ck_assert_int_eq(a.node->total.cpu_milli, 6000);
        a.seq = 8;
        ck_assert_int_eq(say(&a, false, node_info(5), false), 0); // 9: older than what is known
        ck_assert_int_eq(a.node->total.cpu_milli, 6000);
    }
END_TEST

START_TEST(test_old_and_repeated_statuses_change_nothing)
    {
        struct agent a = {0};
        agent_join(&a, "n1", 4);
        struct job *j = submit(ONE);
        settle();
        (void)agent_apply(&a, NULL);
        struct attempt_status old = a.held[0];
        agent_state(&a, 0, ATTEMPT_RUNNING, CAUSE_NONE, 0, LOGS_OPEN);
        int puts = queue.puts;
        struct attempt_status now = a.held[0];
        a.held[0] = old;
        ck_assert_int_eq(say(&a, false, NULL, true), 0);
        a.held[0] = now;
        ck_assert_int_eq(say(&a, false, NULL, true), 0);
        ck_assert_int_eq(j->tasks[0].state, TASK_RUNNING);
        ck_assert_int_eq(queue.puts, puts);
    }
END_TEST

// What the records say is what there was: a master that starts on them goes on.
START_TEST(test_restart_of_the_master_goes_on)
    {
        struct agent a = {0};
        char id[JOB_ID_BYTES], attempt[ATTEMPT_ID_BYTES];
        agent_join(&a, "n1", 4);
        struct job *j = submit(ONE);
        struct job *never = submit("{\"name\":\"never\",\"components\":{\"m\":{\"command\":"
                                   "\"x\",\"resources\":{\"cpu\":99}}}}");
        cluster_job_stop(cluster, never, "ann", "stopped"); // its tasks never had an attempt
        settle();
        (void)agent_apply(&a, NULL);
        agent_state(&a, 0, ATTEMPT_RUNNING, CAUSE_NONE, 0, LOGS_OPEN);
        memcpy(id, j->id, sizeof(id));
        memcpy(attempt, j->tasks[0].attempt_id, sizeof(attempt));
        restart_cluster(2);
        j = cluster_job_by_id(cluster, id);
        a.node = cluster_node_by_name(cluster, "n1");
        ck_assert_int_eq(j->state, JOB_RUNNING);
        ck_assert_int_eq(a.node->state, NODE_NOT_READY);
        ck_assert_int_eq(a.node->reserved.cpu_milli, 2000);
        ck_assert_int_eq(say(&a, true, node_info(4), false), 0);
        (void)agent_apply(&a, NULL);
        ck_assert_uint_eq(a.n_held, 1);
        ck_assert_str_eq(a.held[0].id, attempt); // the same attempt
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_EXIT, 0, LOGS_COMPLETE);
        ck_assert_int_eq(j->state, JOB_SUCCEEDED);
        ck_assert_int_eq(j->tasks[0].attempt, 1);
    }
END_TEST

// A pause goes on where it was, and is never longer than it was.
START_TEST(test_a_pause_outlives_the_master)
    {
        struct agent a = {0};
        char id[ID_BYTES];
        agent_join(&a, "n1", 4);
        struct job *j =
            submit("{\"name\":\"p\",\"components\":{\"m\":{\"command\":\"x\",\"restart\":{"
                   "\"policy\":\"on-failure\",\"max_attempts\":9,\"backoff\":\"1h\","
                   "\"max_backoff\":\"2h\"}}}}");
        settle();
        for (int i = 0; i < 3; i++) {
            ck_assert(!j->tasks[0].in_backoff || i == 2);
            (void)agent_apply(&a, NULL);
            if (!j->tasks[0].in_backoff)
                agent_state(&a, a.n_held - 1, ATTEMPT_ENDED, CAUSE_EXIT, 1, LOGS_COMPLETE);
        }
        int64_t left = j->tasks[0].not_before_boot_ms - clock_boot_ms();
        ck_assert_int_ge(left, 1800000 - 1000);
        ck_assert_int_le(left, 3600000);
        memcpy(id, j->id, sizeof(id));
        restart_cluster(2);
        const struct task *t = &cluster_job_by_id(cluster, id)->tasks[0];
        ck_assert(t->in_backoff);
        ck_assert_int_eq(t->starts, 2);
        ck_assert_int_eq(t->ends, 2);
        // The record has it in wall clock time: two clocks, each cut to a millisecond.
        ck_assert_int_le(t->not_before_boot_ms - clock_boot_ms(), left + 2);
        ck_assert_int_gt(t->not_before_boot_ms - clock_boot_ms(), left - 60000);
    }
END_TEST

START_TEST(test_environment)
    {
        struct agent a = {0};
        struct sync_answer answer;
        agent_join(&a, "n1", 8);
        (void)submit("{\"name\":\"e\",\"components\":{\"a-b\":{\"command\":\"x\",\"num\":2,"
                     "\"ports\":1,\"env\":{\"K\":\"v\",\"RANK\":\"no\"}},"
                     "\"w\":{\"command\":\"x\"}}}");
        settle();
        ck_assert_int_eq(cluster_node_answer(cluster, a.node, &a.applied, &answer), 0);
        ck_assert_uint_eq(answer.n_entries, 3);
        const struct attempt_spec *s = answer.entries[1].spec;
        ck_assert_str_eq(s->component, "a-b");
        int found = 0;
        for (size_t i = 0; i < s->n_env; i++) {
            const char *k = s->env[i].key, *v = s->env[i].value;
            found += (strcmp(k, "K") == 0 && strcmp(v, "v") == 0) ||
                     (strcmp(k, "RANK") == 0 && strcmp(v, "1") == 0) ||
                     (strcmp(k, "WORLD_SIZE") == 0 && strcmp(v, "2") == 0) ||
                     (strcmp(k, "MASTER_ADDR") == 0 && strcmp(v, "10.0.0.1") == 0) ||
                     (strcmp(k, "MEADOW_W_ADDRS") == 0 && strcmp(v, "10.0.0.1") == 0) ||
                     (strcmp(k, "MEADOW_A_B_ADDRS") == 0 && strncmp(v, "10.0.0.1:200", 12) == 0 &&
                      strchr(v, ','));
        }
        ck_assert_int_eq(found, 6);
        ck_assert_uint_eq(answer.entries[0].spec->n_ports, 2); // its own and MASTER_PORT
        ck_assert_uint_eq(s->n_ports, 1);
        sync_answer_reset(&answer);
    }
END_TEST

START_TEST(test_absurd_numbers_of_a_node_are_refused)
    {
        static const json_int_t ports[][2] = {
            {INT64_MAX, INT64_MAX}, {65000, 1000}, {-1, 5}, {1, -5}, {0, 65536}};
        struct agent a = {0};
        agent_join(&a, "n1", 8);
        for (size_t i = 0; i < ARRAY_SIZE(ports); i++) {
            json_t *range = json_pack("{s:I, s:I}", "first", ports[i][0], "count", ports[i][1]);
            json_t *info = node_info(8);
            json_put(info, "ports", range);
            ck_assert_int_eq(say(&a, false, info, false), -EPROTO);
        }
        // The scheduler adds up what all nodes have.
        static const char *const all[] = {"cpu", "memory", "gpu"};
        for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
            json_t *info = node_info(8);
            json_put_i64(json_object_get(info, "resources"), all[i], INT64_MAX);
            ck_assert_int_eq(say(&a, false, info, false), -EPROTO);
        }
        // It is stored and shown to everybody.
        json_t *long_info = node_info(8);
        json_put(long_info, "hardware", json_sprintf("%070000d", 0));
        ck_assert_int_eq(say(&a, false, long_info, false), -EPROTO);
        said_usage = json_pack("{s:o}", "x", json_sprintf("%070000d", 0));
        ck_assert_int_eq(say(&a, false, NULL, false), -EPROTO);
        ck_assert_int_eq(a.node->total.cpu_milli, 8000);
        ck_assert_int_eq(a.node->port_first, 20000);
        ck_assert_int_eq(a.node->n_gpus, 2);
    }
END_TEST

// Restarted while it waited for an ended task's logs, the master must not give the task out again
// once its node has forgotten it.
START_TEST(test_an_ended_task_never_comes_back_with_a_restart)
    {
        struct agent a = {0};
        enum desired_state desired = DESIRED_RUN;
        agent_join(&a, "n1", 4);
        const struct job *j = submit(ONE);
        settle();
        (void)agent_apply(&a, NULL);
        agent_state(&a, 0, ATTEMPT_RUNNING, CAUSE_NONE, 0, LOGS_OPEN);
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_EXIT, 0, LOGS_OPEN);
        ck_assert(j->tasks[0].logs_late);
        restart_cluster(2);
        a.node = cluster_node_by_name(cluster, "n1");
        ck_assert_int_eq(say(&a, true, node_info(4), false), 0);
        ck_assert_uint_eq(agent_apply(&a, &desired), 1); // its logs may still come
        ck_assert_int_eq(desired, DESIRED_STOP);
        a.n_held = 0; // but the node lost them
        ck_assert_int_eq(say(&a, true, node_info(4), false), 0);
        restart_cluster(3);
        a.node = cluster_node_by_name(cluster, "n1");
        ck_assert_int_eq(say(&a, true, node_info(4), false), 0);
        ck_assert_uint_eq(agent_apply(&a, NULL), 0);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("model");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, test_nothing_leaves_before_it_is_durable);
    tcase_add_test(t, test_a_job_runs_to_its_end_and_frees_its_node);
    tcase_add_test(t, test_restart_gets_a_new_attempt_and_then_fails);
    tcase_add_test(t, test_all_or_nothing_and_freed_room_starts_the_next);
    tcase_add_test(t, test_stop_of_a_waiting_job_ends_it_at_once);
    tcase_add_test(t, test_absence_counts_only_in_a_complete_inventory_that_includes_it);
    tcase_add_test(t, test_a_new_instance_says_never_started_and_another_attempt_follows);
    tcase_add_test(t, test_a_second_live_instance_is_refused);
    tcase_add_test(t, test_an_overtaken_report_still_tells_about_its_node);
    tcase_add_test(t, test_old_and_repeated_statuses_change_nothing);
    tcase_add_test(t, test_restart_of_the_master_goes_on);
    tcase_add_test(t, test_a_pause_outlives_the_master);
    tcase_add_test(t, test_environment);
    tcase_add_test(t, test_absurd_numbers_of_a_node_are_refused);
    tcase_add_test(t, test_an_ended_task_never_comes_back_with_a_restart);
    return run_case("cluster", t);
}
