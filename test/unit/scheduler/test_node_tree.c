// SPDX-License-Identifier: Apache-2.0
// The ordered tree of nodes: after any changes, its first fit is what a look through all of them
// finds.
#include "master/scheduler/node_tree.h"
#include "test/unit/suite.h"

#include <check.h>
#include <stdlib.h>

#define NODES 200

static unsigned state = 5;
static unsigned pick(unsigned n)
{
    state = state * 1103515245u + 12345u;
    return (state >> 10) % n;
}

static struct plan_key keys[NODES];
static struct plan_view views[NODES];

static void change(size_t i)
{
    keys[i] = (struct plan_key){pick(4), (int64_t)pick(9) - 4};
    views[i] = (struct plan_view){(int64_t)pick(10) - 2, (int64_t)pick(10) - 2, (uint16_t)pick(4),
                                  (uint16_t)pick(4), pick(32) | KIND_FIRST << pick(3)};
}

static struct plan_need random_need(void)
{
    return (struct plan_need){.cpu = pick(9),
                              .memory = pick(9),
                              .gpus = (int)pick(4),
                              .ports = (int)pick(4),
                              .whole = pick(8) << 2,
                              .runtimes = pick(4),
                              .most = {pick(9), pick(9), pick(4)},
                              .kinds = pick(2) ? KIND_FIRST << pick(3) : 0,
                              .spares = pick(3) == 0};
}

static bool before(size_t a, size_t b)
{
    if (keys[a].hi != keys[b].hi)
        return keys[a].hi < keys[b].hi;
    if (keys[a].lo != keys[b].lo)
        return keys[a].lo < keys[b].lo;
    return a < b;
}

static int64_t first_by_look(size_t n, const struct plan_need *need, int64_t but)
{
    int64_t best = -1;
    for (size_t i = 0; i < n; i++)
        if ((int64_t)i != but && plan_suits(&views[i], need) &&
            (best < 0 || before(i, (size_t)best)))
            best = (int64_t)i;
    return best;
}

static void settle(struct node_tree *t)
{
    int64_t i;
    while ((i = node_tree_next_dirty(t)) >= 0)
        node_tree_set(t, (uint32_t)i, keys[i], views[i]);
}

START_TEST(test_first_after_changes)
    {
        int found = 0;
        for (size_t n = 1; n <= NODES; n += 1 + n / 3) {
            struct node_tree *t = node_tree_new(n);
            ck_assert_ptr_nonnull(t);
            for (size_t i = 0; i < n; i++)
                change(i);
            ck_assert_int_eq(node_tree_build(t, keys, views), 0);
            for (int step = 0; step < 2000; step++) {
                struct plan_need need = random_need();
                int64_t but = pick(3) ? -1 : (int64_t)pick((unsigned)n);
                struct plan_but list = {{but}, but >= 0};
                int64_t at = node_tree_first(t, &need, NULL, &list);
                ck_assert_int_eq(at, first_by_look(n, &need, but));
                found += at >= 0;
                for (unsigned k = pick(4); k > 0; k--) {
                    unsigned i = pick((unsigned)n);
                    change(i);
                    node_tree_mark(t, i);
                    node_tree_mark(t, i);
                }
                settle(t);
            }
            node_tree_free(t);
        }
        ck_assert_int_gt(found, 1000);
    }
END_TEST

START_TEST(test_each_change_is_handed_back_once)
    {
        struct node_tree *t = node_tree_new(3);
        ck_assert_int_eq(node_tree_build(t, keys, views), 0);
        node_tree_mark(t, 1);
        node_tree_mark(t, 1);
        ck_assert_int_eq(node_tree_next_dirty(t), 1);
        ck_assert_int_eq(node_tree_next_dirty(t), -1);
        node_tree_mark(t, 1);
        ck_assert_int_eq(node_tree_next_dirty(t), 1);
        node_tree_free(t);
        node_tree_free(NULL);
    }
END_TEST

START_TEST(test_no_nodes)
    {
        struct node_tree *t = node_tree_new(0);
        const struct plan_need need = {.runtimes = 3};
        ck_assert_int_eq(node_tree_build(t, keys, views), 0);
        ck_assert_int_eq(node_tree_first(t, &need, NULL, &(struct plan_but){.n = 0}), -1);
        node_tree_free(t);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("tree");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, test_first_after_changes);
    tcase_add_test(t, test_each_change_is_handed_back_once);
    tcase_add_test(t, test_no_nodes);
    return run_case("node_tree", t);
}
