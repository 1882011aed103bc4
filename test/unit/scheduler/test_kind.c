// SPDX-License-Identifier: Apache-2.0
// Kinds of nodes: which has most left, what a change of cards does, and more kinds than are told
// apart.
#include "master/scheduler/kind.h"

#include "test/unit/suite.h"

#include <stdio.h>

#define NODES 30

static struct plan_node nodes[NODES];
static char names[NODES][8];
static const struct plan_card t4 = {.model = "T4"}, a100 = {.model = "A100"};

// `cards` of each node; a node without model when the pointer is NULL.
static struct plan_index *index_of(size_t n, const int *cards, const struct plan_card *const *of)
{
    struct plan_index *x = NULL;
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "n%zu", i);
        nodes[i] = (struct plan_node){.name = names[i],
                                      .runtime = PLAN_RUNTIME_ANY,
                                      .total = {1000, 0, cards[i]},
                                      .free = {1000, 0, cards[i]},
                                      .gpus_free = (UINT64_C(1) << cards[i]) - 1,
                                      .cards = of ? of[i] : NULL,
                                      .n_cards = of && of[i]};
    }
    ck_assert_int_eq(plan_index_new(nodes, n, &x), 0);
    return x;
}

static void fill(struct plan_index *x, size_t node)
{
    nodes[node].free.gpu = 0;
    nodes[node].gpus_free = 0;
    (void)plan_index_touch(x, node);
}

START_TEST(the_greatest_part_comes_first)
    {
        // Two of one card, three of two, one without.
        struct plan_index *x = index_of(6, (const int[]){1, 1, 2, 2, 2, 0}, NULL);
        uint32_t left = KIND_ALL, one = kind_bit(x, 0), two = kind_bit(x, 2);
        ck_assert_uint_eq(kind_bit(x, 1), one);
        ck_assert_uint_ne(two, one);
        ck_assert_uint_eq(kind_next(x, &left), one | two); // nothing is full
        ck_assert_uint_eq(kind_next(x, &left), 0);         // no cards, no turn
        fill(x, 0);                                        // 1/2 and 3/3
        left = KIND_ALL;
        ck_assert_uint_eq(kind_next(x, &left), two);
        ck_assert_uint_eq(kind_next(x, &left), one);
        fill(x, 2);
        fill(x, 3); // 1/2 and 1/3
        left = KIND_ALL;
        ck_assert_uint_eq(kind_next(x, &left), one);
        left = two;
        ck_assert_uint_eq(kind_next(x, &left), two);
        fill(x, 4);
        left = two;
        ck_assert_uint_eq(kind_next(x, &left), 0);
        plan_index_free(x);
    }
END_TEST

START_TEST(models_are_kinds)
    {
        const struct plan_card *of[] = {&t4, &t4, &a100};
        struct plan_index *x = index_of(3, (const int[]){1, 1, 1}, of);
        uint32_t left = KIND_ALL;
        ck_assert_uint_eq(kind_bit(x, 1), kind_bit(x, 0));
        ck_assert_uint_ne(kind_bit(x, 2), kind_bit(x, 0));
        fill(x, 0);
        ck_assert_uint_eq(kind_next(x, &left), kind_bit(x, 2)); // 1/1 before 1/2
        nodes[1].cards = &a100;
        (void)plan_index_relabel(x, 1); // T4 0/1, A100 2/2
        ck_assert_uint_eq(kind_bit(x, 1), kind_bit(x, 2));
        left = kind_bit(x, 0);
        ck_assert_uint_eq(kind_next(x, &left), 0);
        plan_index_free(x);
    }
END_TEST

START_TEST(too_many_kinds_share_one)
    {
        int cards[NODES];
        for (int i = 0; i < NODES; i++)
            cards[i] = i + 1;
        struct plan_index *x = index_of(NODES, cards, NULL);
        uint32_t left = KIND_ALL;
        for (size_t i = 0; i < NODES; i++)
            ck_assert_uint_eq(kind_bit(x, i),
                              KIND_FIRST << (i < PLAN_KINDS_MAX ? i : PLAN_KINDS_MAX - 1));
        fill(x, NODES - 1);
        ck_assert_uint_eq(kind_next(x, &left), KIND_ALL & ~kind_bit(x, NODES - 1));
        ck_assert_uint_eq(kind_next(x, &left), kind_bit(x, NODES - 1)); // 6 of 7
        plan_index_free(x);
    }
END_TEST

RUN_SUITE("kind", 10, the_greatest_part_comes_first, models_are_kinds, too_many_kinds_share_one)
