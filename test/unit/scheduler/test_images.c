// SPDX-License-Identifier: Apache-2.0
// Who has which image, and that many nodes with it are found as few are.
#include "master/scheduler/images.h"
#include "master/scheduler/plan_internal.h"
#include "test/unit/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

static struct plan_images table;

static void set(struct plan_holder **h, const char *a, const char *b)
{
    const char *names[2] = {a, b};
    ck_assert_int_eq(plan_images_set(&table, h, names, (size_t)(a != NULL) + (b != NULL)), 0);
}

START_TEST(kept_by_name_and_by_node)
    {
        struct plan_holder *x = NULL, *y = NULL;
        set(&x, "a:1", "b:1");
        set(&y, "b:1", "b:1"); // counts once
        const struct plan_image *a = plan_images_find(&table, "a:1");
        const struct plan_image *b = plan_images_find(&table, "b:1");
        ck_assert_uint_eq(a->n, 1);
        ck_assert_uint_eq(b->n, 2);
        ck_assert(plan_image_on(a, x) && !plan_image_on(a, y));
        ck_assert(plan_image_on(b, x) && plan_image_on(b, y));
        ck_assert(!plan_image_on(NULL, x) && !plan_image_on(a, NULL));
        ck_assert_ptr_null(plan_images_find(&table, "c:1"));
        struct plan_holder *same = x;
        set(&x, "c:1", NULL);
        ck_assert_ptr_eq(x, same);
        ck_assert_ptr_null(plan_images_find(&table, "a:1")); // nobody has it any more
        ck_assert_uint_eq(b->n, 1);
        set(&x, NULL, NULL);
        ck_assert_ptr_null(plan_images_find(&table, "c:1"));
        plan_images_drop(&x);
        plan_images_drop(&y);
        plan_images_drop(&y);
        ck_assert_ptr_null(table.by_name);
    }
END_TEST

#define NODES 600

static char names[NODES][8];
static struct plan_node nodes[NODES];
static struct plan_holder *holders[NODES];

// Eight sizes of nodes; every second one has the image: more than are asked one by one.
static void make_nodes(void)
{
    for (size_t i = 0; i < NODES; i++) {
        int64_t cpu = 1000 * (1 + (int64_t)(i % 8));
        (void)snprintf(names[i], sizeof(names[i]), "n%03zu", (i * 7) % NODES);
        set(&holders[i], (i / 8) % 2 ? "a:1" : "b:1", NULL);
        holders[i]->slot = (uint32_t)i;
        nodes[i] = (struct plan_node){.name = names[i],
                                      .runtime = PLAN_RUNTIME_ANY,
                                      .total = {cpu, 1000, 0},
                                      .free = {cpu, 1000, 0},
                                      .holder = holders[i]};
    }
}

// Where each of as many tasks goes as have room.
static size_t play(bool by_tree, int *ret)
{
    size_t n = 0;
    struct plan_index *x;
    struct plan_refusals refused = {0};
    make_nodes();
    ck_assert_int_eq(plan_index_new(nodes, NODES, &x), 0);
    for (bool more = true; more; n += more) {
        struct plan_task t = {.demand = {.resources = {1000, 0, 0},
                                         .runtimes = PLAN_RUNTIME_ANY,
                                         .image = plan_images_find(&table, "a:1")}};
        struct plan_job j = {.id = "j", .alloc = ALLOC_COMPACTED, .tasks = &t, .n_tasks = 1};
        if (by_tree)
            ck_assert_int_eq(plan_index_prepare(x, ALLOC_COMPACTED, METRIC_CPU), 0);
        else
            x->asked[ALLOC_COMPACTED][METRIC_CPU] = 0;
        ck_assert_int_eq(plan_try(x, &refused, &j), 0);
        more = j.placed;
        ret[n] = t.node;
    }
    plan_index_free(x);
    return n;
}

START_TEST(a_tree_finds_what_a_look_at_all_finds)
    {
        static int look[NODES * 8], tree[NODES * 8];
        ck_assert_uint_eq(play(false, look), NODES * 36 / 8);
        ck_assert_uint_eq(play(true, tree), NODES * 36 / 8);
        for (size_t i = 0; i < NODES * 36 / 8; i++)
            ck_assert_int_eq(look[i], tree[i]);
        ck_assert_int_eq(tree[0] % 16, 8); // of the smallest, one that has it
        for (size_t i = 0; i < NODES; i++)
            plan_images_drop(&holders[i]);
        ck_assert_ptr_null(table.by_name);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("images");
    tcase_add_test(t, kept_by_name_and_by_node);
    tcase_add_test(t, a_tree_finds_what_a_look_at_all_finds);
    return run_case("images", t);
}
