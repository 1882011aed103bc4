// SPDX-License-Identifier: Apache-2.0
// Filling a cluster: what arrives, what of the free cards is of no use, and where each policy goes,
// worked out by hand.
#include "test/sim/lib/pack.h"

#include "test/unit/suite.h"

#include <errno.h>
#include <stdio.h>

#define NEAR(got, expected) ck_assert_double_eq_tol(got, expected, 1e-9)
#define CORES(n) ((n)*1000)

// b is larger than a in everything.
static const struct trace_node two[] = {{"a", "T4", {CORES(32), 100, 2}},
                                        {"b", "V100", {CORES(64), 100, 4}}};

static struct trace_job task(int64_t cores, int64_t cards, int milli, const char *models)
{
    struct trace_job j = {.need = {CORES(cores), 1, cards}, .milli = milli};
    (void)snprintf(j.models, sizeof(j.models), "%s", models);
    return j;
}

static size_t used(const struct pack *p, size_t node)
{
    return (size_t)((int64_t)p->from[node].total.gpu * WHOLE - pack_free_milli(&p->nodes[node]));
}

static struct pack *begin(const struct trace_job *jobs, size_t n, bool shared)
{
    struct pack *p = pack_new(two, 2, jobs, n, shared);
    ck_assert_ptr_nonnull(p);
    ck_assert_int_eq(pack_draw(p, 7), 0);
    return p;
}

static int64_t asked(const struct pack *p)
{
    int64_t sum = 0;
    for (size_t i = 0; i < p->n_order; i++)
        sum += pack_asks(&p->kinds[p->order[i]]);
    return sum;
}

START_TEST(what_arrives)
    {
        // 6 cards; a fifth of the tasks asks for all of two, the others for 0.4 of one, or for
        // none.
        const struct trace_job jobs[] = {task(1, 2, 1000, ""), task(1, 1, 400, ""),
                                         task(1, 1, 400, ""), task(1, 1, 400, ""),
                                         task(1, 0, 1000, "")};
        for (int shared = 0; shared < 2; shared++) {
            struct pack *p = begin(jobs, 5, shared);
            ck_assert_int_eq(p->all_milli, 6000);
            ck_assert_uint_eq(p->n_kinds, 3);
            NEAR(p->kinds[1].part, 3.0 / 5);
            ck_assert_int_eq(pack_asks(&p->kinds[1]), shared ? 400 : 1000);
            ck_assert_int_ge(asked(p), 7800); // 130 %
            ck_assert_int_lt(asked(p), 7800 + 2000);
            size_t n = p->n_order;
            int64_t sum = asked(p);
            ck_assert_int_eq(pack_draw(p, 7), 0); // the same seed, the same order
            ck_assert_uint_eq(p->n_order, n);
            ck_assert_int_eq(asked(p), sum);
            pack_free(p);
        }
        const struct trace_job no_cards = task(1, 0, 1000, "");
        struct pack *none = pack_new(two, 2, &no_cards, 1, false);
        ck_assert_int_eq(pack_draw(none, 7), -EINVAL);
        pack_free(none);
        // More than 130 %: without some.
        const struct trace_job many[] = {task(1, 2, 1000, ""), task(1, 2, 1000, ""),
                                         task(1, 2, 1000, ""), task(1, 2, 1000, ""),
                                         task(1, 2, 1000, "")};
        struct pack *p = begin(many, 5, true);
        ck_assert_int_eq(asked(p), 8000); // one less would be under
        pack_free(p);
    }
END_TEST

START_TEST(where_each_goes)
    {
        const struct trace_job jobs[] = {task(1, 1, 1000, "")};
        static const size_t expected[PACK_POLICIES] = {[PACK_FIRST] = 0,
                                                       [PACK_BEST] = 0,
                                                       [PACK_DOT] = 0,
                                                       [PACK_TETRIS] = 1,
                                                       [PACK_GRADIENT] = 0};
        for (int i = 0; i < PACK_POLICIES; i++) {
            struct pack *p = begin(jobs, 1, false);
            ck_assert(pack_place(p, (enum pack_policy)i, 0));
            ck_assert_uint_eq(used(p, expected[i]), WHOLE);
            ck_assert_int_eq(p->nodes[expected[i]].cpu, CORES(expected[i] ? 63 : 31));
            for (int k = 0; k < 5; k++)
                ck_assert(pack_place(p, (enum pack_policy)i, 0));
            ck_assert(!pack_place(p, (enum pack_policy)i, 0)); // six cards, six tasks
            pack_free(p);
        }
    }
END_TEST

// Half of the tasks need two cards. One card taken from a (of 2) leaves one of no use to those:
// half a card is lost. Of b (of 4) three stay, all of use.
START_TEST(the_gradient_keeps_cards_of_use)
    {
        const struct trace_job jobs[] = {task(1, 1, 1000, ""), task(1, 2, 1000, "")};
        struct pack *p = begin(jobs, 2, false);
        NEAR(pack_fragments(&p->nodes[0], p), 0);
        ck_assert(pack_place(p, PACK_GRADIENT, 0));
        ck_assert_uint_eq(used(p, 1), WHOLE);
        p->nodes[0].milli[0] = 0; // a has one left: taking that one wins half a card
        p->nodes[0].version++;
        p->nodes[0].fragments = pack_fragments(&p->nodes[0], p);
        NEAR(p->nodes[0].fragments, 500);
        ck_assert(pack_place(p, PACK_GRADIENT, 0));
        ck_assert_uint_eq(used(p, 0), 2 * WHOLE);
        pack_free(p);
    }
END_TEST

START_TEST(models_and_other_needs)
    {
        const struct trace_job jobs[] = {task(1, 1, 1000, "A100|V100"), task(40, 1, 1000, "T4"),
                                         task(40, 0, 1000, "T4")};
        struct pack *p = begin(jobs, 3, false);
        ck_assert(pack_place(p, PACK_FIRST, 0));
        ck_assert_uint_eq(used(p, 1), WHOLE);
        ck_assert(!pack_place(p, PACK_FIRST, 1)); // too much cpu for a
        ck_assert(pack_place(p, PACK_FIRST, 2));  // no card, so no model
        ck_assert_int_eq(p->nodes[1].cpu, CORES(64 - 1 - 40));
        // a: of 2 cards neither the first kind (model) nor the others (cpu; none) has any use.
        NEAR(pack_fragments(&p->nodes[0], p), 2000);
        pack_free(p);
    }
END_TEST

START_TEST(parts_of_a_card)
    {
        const struct trace_job jobs[] = {task(1, 1, 600, ""), task(1, 1, 300, ""),
                                         task(1, 1, 1000, "")};
        struct pack *p = begin(jobs, 3, true);
        ck_assert(pack_place(p, PACK_FIRST, 0));
        ck_assert_int_eq(p->nodes[0].milli[0], 400);
        // Of 1400: 400 are of no use to two of the three kinds.
        NEAR(pack_fragments(&p->nodes[0], p), (400 + 0 + 400) / 3.0);
        ck_assert(pack_place(p, PACK_FIRST, 1)); // the tightest card
        ck_assert_int_eq(p->nodes[0].milli[0], 100);
        ck_assert(pack_place(p, PACK_FIRST, 2)); // a whole one
        ck_assert_int_eq(p->nodes[0].milli[1], 0);
        pack_free(p);
    }
END_TEST

RUN_SUITE("pack", 10, what_arrives, where_each_goes, the_gradient_keeps_cards_of_use,
          models_and_other_needs, parts_of_a_card)
