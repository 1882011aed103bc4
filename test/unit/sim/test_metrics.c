// SPDX-License-Identifier: Apache-2.0
// The arithmetic of a replay, against numbers worked out by hand.
#include "test/sim/lib/metrics.h"

#include "test/unit/suite.h"

#define NEAR(got, expected) ck_assert_double_eq_tol(got, expected, 1e-9)

START_TEST(percentiles_are_by_nearest_rank)
    {
        double v[] = {50, 15, 40, 20, 35};
        NEAR(metric_percentile(v, 5, 0.05), 15);
        NEAR(metric_percentile(v, 5, 0.30), 20);
        NEAR(metric_percentile(v, 5, 0.40), 20);
        NEAR(metric_percentile(v, 5, 0.50), 35);
        NEAR(metric_percentile(v, 5, 1), 50);
        NEAR(metric_percentile(v, 1, 0), 15);
        NEAR(metric_percentile(v, 0, 0.5), 0);
    }
END_TEST

START_TEST(slowdown_is_bounded)
    {
        NEAR(metric_slowdown(30, 60), 1.5);
        NEAR(metric_slowdown(30, 2), 3.2); // as if it ran for 10 s
        NEAR(metric_slowdown(0, 2), 1);
    }
END_TEST

START_TEST(jains_index)
    {
        NEAR(metric_jain((double[]){3, 3, 3}, 3), 1);
        NEAR(metric_jain((double[]){1, 0, 0, 0}, 4), 0.25);
        NEAR(metric_jain((double[]){1, 3}, 2), 0.8);
        NEAR(metric_jain(NULL, 0), 1);
    }
END_TEST

START_TEST(finish_time_fairness)
    {
        NEAR(metric_rho(100, 100, 1), 1);
        NEAR(metric_rho(200, 100, 2), 1); // its half of the cluster
        NEAR(metric_rho(300, 100, 2), 1.5);
    }
END_TEST

START_TEST(fragments_are_cards_of_no_use)
    {
        const struct metric_kind mix[] = {{{1000, 10, 1}, UINT64_MAX, 0.4},
                                          {{1000, 10, 4}, UINT64_MAX, 0.3},
                                          {{1000, 10, 1}, 2, 0.2}, // cards of model 1 only
                                          {{1000, 10, 0}, UINT64_MAX, 0.1}};
        const struct resources full = {8000, 80, 4}, started = {8000, 80, 3}, no_cpu = {500, 80, 3},
                               no_memory = {8000, 5, 3}, none = {8000, 80, 0};
        NEAR(metric_fragments(&full, 1, mix, 4), 4 * 0.1);
        NEAR(metric_fragments(&full, 0, mix, 4), 4 * 0.3);
        NEAR(metric_fragments(&started, 1, mix, 4), 3 * 0.4);
        NEAR(metric_fragments(&no_cpu, 1, mix, 4), 3);
        NEAR(metric_fragments(&no_memory, 1, mix, 4), 3);
        NEAR(metric_fragments(&none, 1, mix, 4), 0);
    }
END_TEST

START_TEST(use_is_summed_until_the_window_ends)
    {
        struct metric_use u = {.at_ms = 10, .until_ms = 100};
        u.now[USE_GPU] = 3;
        metric_advance(&u, 30);
        u.now[USE_GPU] = 5;
        metric_advance(&u, 90);
        metric_advance(&u, 120);
        metric_advance(&u, 150);
        NEAR(u.sum[USE_GPU], 3 * 20 + 5 * 70);
        NEAR(u.sum[USE_CPU], 0);
    }
END_TEST

RUN_SUITE("metrics", 10, percentiles_are_by_nearest_rank, slowdown_is_bounded, jains_index,
          finish_time_fairness, fragments_are_cards_of_no_use, use_is_summed_until_the_window_ends)
