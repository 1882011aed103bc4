// SPDX-License-Identifier: Apache-2.0
// Four jobs on two nodes, small enough to be worked out by hand: every figure of a replay.
//   n1: 8 cpu, 8 GiB, 2 cards; n2: 4 cpu, 8 GiB
//   p1: 2 cpu, 2 GiB, 1 card, comes at 0 s, lasts 100 s, user LS
//   p2: 2 cpu, 2 GiB, 2 cards, at 10 s, 50 s, BE
//   p3: 2 cpu, 2 GiB, 1 card, at 20 s, 90 s, LS
//   p4: 1 cpu, 1 GiB, no card, at 60 s, 20 s, BE
// What is used is measured from 0 to 60 s. Of a free card, half of the mix (p2; p4) has no use when
// one is free, p4 when two are.
#include "test/sim/lib/engine.h"
#include "test/unit/suite.h"

#define NEAR(got, expected) ck_assert_double_eq_tol(got, expected, 1e-6)

static struct trace_node *nodes;
static struct trace_job *jobs;
static size_t n_nodes, n_jobs;

static void load(void)
{
    ck_assert_int_eq(trace_nodes("test/unit/sim/tiny_nodes.csv", &nodes, &n_nodes), 0);
    ck_assert_int_eq(trace_jobs("test/unit/sim/tiny_pods.csv", &jobs, &n_jobs), 0);
    ck_assert_uint_eq(n_nodes, 2);
    ck_assert_uint_eq(n_jobs, 4);
}

static struct engine_result play(const struct engine_policy *p)
{
    struct engine_result first, again;
    load();
    struct engine *e = engine_new(nodes, n_nodes, jobs, n_jobs);
    ck_assert_ptr_nonnull(e);
    ck_assert_int_eq(engine_play(e, p, NULL, &first), 0);
    ck_assert_int_eq(engine_play(e, p, NULL, &again), 0); // a run leaves nothing behind
    NEAR(again.wait_s[0], first.wait_s[0]);
    NEAR(again.used[2], first.used[2]);
    NEAR(again.rho_p99, first.rho_p99);
    ck_assert_uint_eq(first.starts, 4);
    ck_assert(first.us_per_start > 0 && first.turn_p99_ms > 0);
    engine_free(e);
    free(nodes);
    free(jobs);
    return first;
}

START_TEST(load_is_what_is_asked_for)
    {
        double cards, cpu;
        load();
        struct engine *e = engine_new(nodes, n_nodes, jobs, n_jobs);
        engine_load(e, &cards, &cpu);
        NEAR(cards, (60.0 + 2 * 50 + 40) / (2 * 60));
        NEAR(cpu, (2 * 60.0 + 2 * 50 + 2 * 40) / (12 * 60));
        engine_free(e);
        free(nodes);
        free(jobs);
    }
END_TEST

// p1 0-100, p2 100-150, p3 150-240, p4 150-170. Contention (cards asked for by half of them): 1 to
// 10 s, 1.5 to 20, 2 to 100, 1.5 to 150, then 1; summed up: 10, 25, 105 (60 s), 185, 260, 280 (170
// s), 350 (240 s).
START_TEST(first_in_first_out)
    {
        struct engine_result r =
            play(&(struct engine_policy){.mode = ALLOC_BEST_FIT, .strict = true});
        NEAR(r.used[0], 2.0 / 12);
        NEAR(r.used[1], 2.0 / 16);
        NEAR(r.used[2], 1.0 / 2);
        NEAR(r.fragmented, 0.5);
        NEAR(r.wait_s[0], (0 + 90 + 130 + 90) / 4.0);
        NEAR(r.wait_s[1], 90);
        NEAR(r.wait_s[2], 130);
        NEAR(r.wait_s[3], 130);
        NEAR(r.large_s, 90);
        double slow[] = {1, 140.0 / 50, 220.0 / 90, 110.0 / 20};
        NEAR(r.slow[0], (slow[0] + slow[1] + slow[2] + slow[3]) / 4);
        NEAR(r.slow[1], slow[2]);
        NEAR(r.slow[2], slow[3]);
        double ls = (slow[0] + slow[2]) / 2, be = (slow[1] + slow[3]) / 2;
        NEAR(r.jain, (ls + be) * (ls + be) / (2 * (ls * ls + be * be)));
        // p1 0.54, p2 1.57, p3 220 x 220 / (90 x 325) = 1.65, p4 110 x 110 / (20 x 175)
        NEAR(r.unfair, 3.0 / 4);
        NEAR(r.rho_p99, 110.0 * 110 / (20 * 175));
        NEAR(r.backfilled, 0);
        NEAR(r.span_h, 240.0 / 3600);
    }
END_TEST

// p1 0-100, p3 20-110, p4 60-80, p2 110-160.
START_TEST(whatever_fits)
    {
        struct engine_result r = play(&(struct engine_policy){.mode = ALLOC_COMPACTED});
        NEAR(r.used[0], (2.0 * 60 + 2 * 40) / (12 * 60));
        NEAR(r.used[1], (2.0 * 60 + 2 * 40) / (16 * 60));
        NEAR(r.used[2], (60.0 + 40) / (2 * 60));
        NEAR(r.fragmented, 0.5); // one card, for 20 s
        NEAR(r.wait_s[0], 100.0 / 4);
        NEAR(r.wait_s[1], 0);
        NEAR(r.large_s, 100);
        NEAR(r.backfilled, 2.0 / 4); // p3, p4 while p2 waits
        NEAR(r.span_h, 160.0 / 3600);
    }
END_TEST

// p2 is the head at 10 s. p1's limit is 120 s, so p2 starts then at the latest, on n1; p3, with a
// limit of 120 s, would end after it and keeps off n1; p4 starts on n2. p2 100-150, p3 150-240.
START_TEST(a_reservation)
    {
        struct engine_policy p = {
            .mode = ALLOC_BEST_FIT, .queue = {0, true, 600000, PLAN_OVERTAKES, 0}, .limits = true};
        struct engine_result r = play(&p);
        NEAR(r.used[2], 1.0 / 2);
        NEAR(r.wait_s[0], (90 + 130) / 4.0);
        NEAR(r.wait_s[2], 130);
        NEAR(r.large_s, 90);
        NEAR(r.backfilled, 1.0 / 4);
        NEAR(r.span_h, 240.0 / 3600);
        p.limits = false; // nothing is known of p1: p3 starts at 20 s, and p2 after it
        r = play(&p);
        NEAR(r.wait_s[0], 100.0 / 4);
        NEAR(r.backfilled, 2.0 / 4);
    }
END_TEST

// The same jobs when only n2 is there: those with cards would wait for ever, so they are left out.
START_TEST(what_fits_nowhere_is_left_out)
    {
        struct engine_result r;
        load();
        struct engine *e = engine_new(nodes + 1, 1, jobs, n_jobs);
        struct engine_policy p = {.mode = ALLOC_BEST_FIT, .strict = true};
        ck_assert_int_eq(engine_play(e, &p, NULL, &r), 0);
        ck_assert_uint_eq(r.starts, 1);
        NEAR(r.wait_s[3], 0);
        NEAR(r.span_h, 80.0 / 3600);
        engine_free(e);
        free(nodes);
        free(jobs);
    }
END_TEST

// 20 cards on nodes of 8: two tasks of 8 and one of 4.
START_TEST(large_jobs_are_many_tasks)
    {
        struct trace_node three[3] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
        struct trace_job two[2] = {
            {.user = "u", .need = {0, 0, 20}, .milli = 1000, .lasts_ms = 50000},
            {.user = "u",
             .need = {0, 0, 4},
             .milli = 1000,
             .arrives_ms = 10000,
             .lasts_ms = 30000}};
        struct engine_result r;
        for (int i = 0; i < 3; i++)
            three[i].total.gpu = 8;
        struct engine *e = engine_new(three, 3, two, 2);
        struct engine_policy p = {.mode = ALLOC_BEST_FIT};
        ck_assert_int_eq(engine_play(e, &p, NULL, &r), 0);
        NEAR(r.used[2], 20.0 / 24);
        NEAR(r.fragmented, 1.0 / 2); // 4 cards of one node; half of the four tasks need 8
        NEAR(r.wait_s[3], 0);
        NEAR(r.large_s, 0);
        engine_free(e);
    }
END_TEST

RUN_SUITE("replay", 20, load_is_what_is_asked_for, first_in_first_out, whatever_fits, a_reservation,
          what_fits_nowhere_is_left_out, large_jobs_are_many_tasks)
