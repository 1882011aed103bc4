// SPDX-License-Identifier: Apache-2.0
// Keys, certificates, replacing and removing in the cluster model, in orders that contradict each
// other.
#include "common/clock.h"
#include "test/unit/master/cluster_fixture.h"
#include "test/unit/suite.h"

#define ALWAYS                                                                                     \
    "{\"name\":\"w\",\"components\":{\"m\":{\"command\":\"true\",\"restart\":{\"policy\":"         \
    "\"never\"}}}}"
#define LATER (clock_real_ms() + 1000000)

static int join_as(const char *name, const char *key, struct node **ret)
{
    struct err e = {""};
    const struct node_claim claim = {name, key, "machine", true};
    return cluster_node_join(cluster, &claim, ret, &e);
}

START_TEST(test_certificates_follow_each_other)
    {
        struct agent a = {0};
        agent_join(&a, "n1", 4);
        struct node *n = a.node;
        cluster_node_issued(cluster, n, "c1", LATER);
        ck_assert(cluster_node_uses(cluster, n, "c1", LATER));
        ck_assert(!cluster_node_uses(cluster, n, "c0", LATER));
        cluster_node_issued(cluster, n, "c2", LATER);
        cluster_node_issued(cluster, n, "c3", LATER); // the answer with c2 was lost
        ck_assert(cluster_node_uses(cluster, n, "c1", LATER));
        ck_assert(!cluster_node_uses(cluster, n, "c2", LATER));
        ck_assert(cluster_node_uses(cluster, n, "c3", LATER));
        ck_assert(!cluster_node_uses(cluster, n, "c1", LATER));
        ck_assert(cluster_node_uses(cluster, n, "c3", LATER));
        settle();
    }
END_TEST

START_TEST(test_a_name_goes_to_another_key_once)
    {
        struct err e = {""};
        struct agent a = {0};
        struct node *n = NULL;
        agent_join(&a, "n1", 4);
        cluster_node_issued(cluster, a.node, "c1", LATER);
        ck_assert(cluster_node_uses(cluster, a.node, "c1", LATER));
        ck_assert_int_eq(join_as("n1", "key-2", &n), -EEXIST);
        ck_assert_int_eq(cluster_node_replace(cluster, a.node, "op", &e), 0);
        ck_assert_int_eq(cluster_node_replace(cluster, a.node, "op", &e), 0);
        ck_assert_int_eq(join_as("n1", "key-2", &n), 0);
        ck_assert_ptr_eq(n, a.node);
        ck_assert(n->approved);
        cluster_node_issued(cluster, n, "c2", LATER);
        ck_assert(!cluster_node_uses(cluster, n, "c1", LATER));
        ck_assert(cluster_node_uses(cluster, n, "c2", LATER));
        ck_assert_int_eq(join_as("n1", "key-3", &n), -EEXIST); // once
        ck_assert_int_eq(join_as("n1", "key-2", &n), 0);       // the same again
        settle();
    }
END_TEST

START_TEST(test_removed_when_its_work_is_over)
    {
        struct err e = {""};
        struct agent a = {0};
        struct node *n = NULL;
        char id[ID_BYTES];
        agent_join(&a, "n1", 4);
        memcpy(id, a.node->id, sizeof(id));
        struct job *j = submit(ALWAYS);
        settle();
        (void)agent_apply(&a, NULL);
        agent_state(&a, 0, ATTEMPT_RUNNING, CAUSE_NONE, 0, LOGS_OPEN);
        cluster_node_remove(cluster, a.node, "op");
        cluster_node_remove(cluster, a.node, "other");
        settle();
        ck_assert_int_eq(a.node->state, NODE_LEFT);
        ck_assert_str_eq(a.node->identity.removed_by, "op");
        ck_assert_int_eq(cluster_node_approve(cluster, a.node, "op", &e), -EBUSY);
        ck_assert_int_eq(cluster_node_replace(cluster, a.node, "op", &e), -EBUSY);
        ck_assert_int_eq(join_as("n1", "key-of-n1", &n), -EBUSY);
        enum desired_state desired = DESIRED_RUN;
        ck_assert_uint_eq(agent_apply(&a, &desired), 1);
        ck_assert_int_eq(desired, DESIRED_STOP);
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_STOPPED, 0, LOGS_COMPLETE);
        ck_assert(a.node->gone);
        ck_assert_ptr_null(cluster_node_by_id(cluster, id));
        ck_assert_ptr_null(cluster_node_by_name(cluster, "n1"));
        const struct gone_node *g = cluster_node_gone(cluster, id);
        ck_assert_ptr_nonnull(g);
        ck_assert_str_eq(g->name, "n1");
        ck_assert_ptr_eq(cluster_node_gone(cluster, "n1"), g);
        ck_assert_int_eq(j->tasks[0].state,
                         TASK_PENDING); // goes elsewhere, though restart is never
        ck_assert_ptr_null(j->tasks[0].node);
        struct agent b = {0};
        agent_join(&b, "n1", 4); // a new node of that name
        ck_assert_str_ne(b.node->id, id);
    }
END_TEST

START_TEST(test_an_idle_node_goes_at_once)
    {
        struct agent a = {0};
        agent_join(&a, "n1", 4);
        cluster_node_remove(cluster, a.node, "op");
        ck_assert(a.node->gone);
        settle();
        ck_assert_uint_eq(cluster_node_count(cluster), 0);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("model");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, test_certificates_follow_each_other);
    tcase_add_test(t, test_a_name_goes_to_another_key_once);
    tcase_add_test(t, test_removed_when_its_work_is_over);
    tcase_add_test(t, test_an_idle_node_goes_at_once);
    return run_case("node_identity", t);
}
