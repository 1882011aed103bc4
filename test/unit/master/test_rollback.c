// SPDX-License-Identifier: Apache-2.0
// A store that went back: numbers are left out, nothing is placed, nodes are asked anew.
#include "test/unit/master/cluster_fixture.h"
#include "test/unit/suite.h"

#define ONE(name)                                                                                  \
    "{\"name\":\"" name "\",\"components\":{\"m\":{\"command\":\"x\",\"resources\":{\"cpu\":1}}}}"

START_TEST(test_numbers_are_left_out_once_and_nothing_is_placed)
    {
        struct agent a = {0};
        restart_cluster(2);
        agent_join(&a, "n1", 1);
        struct job *runs = submit(ONE("runs")), *waits = submit(ONE("waits"));
        settle();
        ck_assert_int_eq(runs->tasks[0].attempt, 1);
        ck_assert_int_eq(cluster_lost_commits(cluster), 0);
        cluster_rolled_back(cluster, a.node, 5, "x");
        cluster_rolled_back(cluster, a.node, 3, "x"); // less than is known
        cluster_rolled_back(cluster, a.node, 7, "x");
        settle();
        ck_assert_int_eq(cluster_lost_commits(cluster), 7);
        ck_assert_int_eq(runs->tasks[0].attempt, 1); // it keeps its own
        ck_assert_int_eq(waits->tasks[0].attempts_lost, 7);
        ck_assert_int_gt(cluster_settle_ms(cluster), 1);
        ck_assert_int_eq(waits->state, JOB_PENDING);
        char id[ID_BYTES];
        memcpy(id, waits->id, sizeof(id));
        restart_cluster(3); // the numbers left out are durable
        waits = cluster_job_by_id(cluster, id);
        ck_assert_int_eq(waits->tasks[0].attempts_lost, 7);
        struct agent b = {0};
        agent_join(&b, "n2", 4);
        settle();
        ck_assert_int_eq(waits->tasks[0].attempt, 8);
        ck_assert_int_eq(waits->tasks[0].attempts_lost, 0);
    }
END_TEST

START_TEST(test_elements_that_are_not_made_yet_leave_numbers_out_too)
    {
        struct agent a = {0};
        struct job *array = submit("{\"name\":\"a\",\"array\":\"0-3\",\"components\":{\"m\":{"
                                   "\"command\":\"x\",\"resources\":{\"cpu\":1}}}}");
        char id[ID_BYTES];
        memcpy(id, array->id, sizeof(id));
        settle();
        agent_join(&a, "n1", 1);
        settle();
        cluster_rolled_back(cluster, a.node, 5, "x");
        settle();
        restart_cluster(2);
        array = cluster_job_by_id(cluster, id);
        struct job *first = cluster_job_element(cluster, array, 0);
        ck_assert_int_eq(first->tasks[0].attempt, 1);
        ck_assert_int_eq(first->tasks[0].attempts_lost, 5);
        struct job *last = cluster_job_element(cluster, array, 3);
        ck_assert_int_eq(last->tasks[0].attempt, 0);
        ck_assert_int_eq(last->tasks[0].attempts_lost, 5);
    }
END_TEST

START_TEST(test_a_higher_epoch_asks_every_node_anew)
    {
        struct agent a = {0};
        agent_join(&a, "n1", 4);
        settle();
        a.node->wants_inventory = false;
        a.node->inventory_seen = true;
        a.node->applied_generation = 9;
        cluster_set_epoch(cluster, 12);
        ck_assert_int_eq(cluster_epoch(cluster), 12);
        ck_assert(a.node->wants_inventory && !a.node->inventory_seen);
        ck_assert_int_eq(a.node->applied_generation, 0);
    }
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_add_test(all, test_numbers_are_left_out_once_and_nothing_is_placed);
    tcase_add_test(all, test_elements_that_are_not_made_yet_leave_numbers_out_too);
    tcase_add_test(all, test_a_higher_epoch_asks_every_node_anew);
    return run_case("rollback", all);
}
