// SPDX-License-Identifier: Apache-2.0
// Refusals end when every node has refused, or after many rounds.
#include "master/cluster/refusal.h"
#include "test/unit/suite.h"

#include <check.h>

static struct node a, b, gone;
static struct node *nodes;

static void setup(void)
{
    nodes = NULL;
    a = (struct node){.id = "na", .state = NODE_READY};
    b = (struct node){.id = "nb", .state = NODE_READY};
    gone = (struct node){.id = "nc", .state = NODE_LOST};
    HASH_ADD_STR(nodes, id, (&a));
    HASH_ADD_STR(nodes, id, (&b));
    HASH_ADD_STR(nodes, id, (&gone));
}

static void teardown(void)
{
    HASH_CLEAR(hh, nodes);
}

START_TEST(test_every_node_is_asked)
    {
        struct task t = {0};
        ck_assert(refusal_note(nodes, &t, &a));
        ck_assert(!refusal_note(nodes, &t, &b));
    }
END_TEST

START_TEST(test_not_for_ever)
    {
        struct task t = {0};
        int rounds = 1;
        while (refusal_note(nodes, &t, &a))
            rounds++;
        ck_assert_int_eq(rounds, 10);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("refusal");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, test_every_node_is_asked);
    tcase_add_test(t, test_not_for_ever);
    return run_case("refusal", t);
}
