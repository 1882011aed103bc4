// SPDX-License-Identifier: Apache-2.0
// Shares of use that fade: exact sums, halves after a half life, the largest of three kinds counts.
#include "master/scheduler/share.h"
#include "test/unit/suite.h"

#include <check.h>

#define HALF INT64_C(6400000) // 64 steps of 100 s

static const struct resources total = {100000, INT64_C(1000) << 20, 10};

static int64_t rank_after(int64_t cpu, int64_t gpu, int64_t held_ms, int64_t idle_ms)
{
    struct share_usage u = {.at_ms = HALF};
    const struct resources held = {cpu, 0, gpu}, none = {0};
    share_advance(&u, &held, &total, HALF + held_ms, HALF);
    share_advance(&u, &none, &total, HALF + held_ms + idle_ms, HALF);
    return share_rank(&u, &none, &total, HALF);
}

START_TEST(splitting_a_stretch_changes_nothing)
    {
        const struct resources held = {12345, INT64_C(77) << 20, 3};
        struct share_usage once = {.at_ms = 1}, often = {.at_ms = 1};
        share_advance(&once, &held, &total, 5 * HALF + 17, HALF);
        for (int64_t at = 1; at < 5 * HALF + 17; at += 54321)
            share_advance(&often, &held, &total, at, HALF);
        share_advance(&often, &held, &total, 5 * HALF + 17, HALF);
        for (int i = 0; i < SHARE_KINDS; i++)
            ck_assert_int_eq(once.used[i], often.used[i]);
    }
END_TEST

START_TEST(half_is_left_after_a_half_life)
    {
        ck_assert_int_eq(rank_after(1000, 0, 5000, HALF - 5000) * 2, rank_after(1000, 0, 5000, 0));
        ck_assert_int_eq(rank_after(1000, 0, 5000, 100 * HALF), 0);
    }
END_TEST

START_TEST(later_use_weighs_more)
    {
        struct share_usage early = {.at_ms = HALF}, late = {.at_ms = HALF + HALF / 2};
        const struct resources held = {1000, 0, 0}, none = {0};
        share_advance(&early, &held, &total, HALF + 1000, HALF);
        share_advance(&early, &none, &total, HALF + HALF / 2 + 1000, HALF);
        share_advance(&late, &held, &total, HALF + HALF / 2 + 1000, HALF);
        ck_assert_int_lt(share_rank(&early, &none, &total, HALF),
                         share_rank(&late, &none, &total, HALF));
    }
END_TEST

START_TEST(the_dominant_kind_counts)
    {
        // 10 of 100 cores are a tenth; 2 of 10 cards are a fifth.
        ck_assert_int_eq(rank_after(10000, 2, 1000, 0), rank_after(0, 2, 1000, 0));
        ck_assert_int_gt(rank_after(10000, 2, 1000, 0), rank_after(10000, 0, 1000, 0));
    }
END_TEST

START_TEST(what_is_held_counts_at_once)
    {
        struct share_usage u = {.at_ms = HALF};
        const struct resources held = {25000, 0, 0}, more = {50000, 0, 0};
        ck_assert_int_eq(2 * share_rank(&u, &held, &total, HALF),
                         share_rank(&u, &more, &total, HALF));
    }
END_TEST

START_TEST(time_going_back_is_no_step)
    {
        struct share_usage u = {.at_ms = HALF};
        const struct resources held = {1000, 0, 0};
        share_advance(&u, &held, &total, HALF - 1000, HALF);
        ck_assert_int_eq(u.at_ms, HALF);
        ck_assert_int_eq(u.used[0], 0);
    }
END_TEST

START_TEST(the_whole_cluster_for_ever_does_not_overflow)
    {
        struct share_usage u = {.at_ms = 1};
        const int64_t half = SHARE_HALF_LIFE_MAX;
        int64_t before = 0;
        for (int64_t i = 1; i < 400; i++) {
            share_advance(&u, &total, &total, i * (half / 7), half);
            ck_assert_int_gt(share_rank(&u, &total, &total, half), 0);
            before = u.used[0];
        }
        ck_assert_int_gt(before, 0);
    }
END_TEST

START_TEST(another_half_life_keeps_the_ratio)
    {
        struct share_usage a = {{1000000, 0, 0}, 7 * HALF / 3}, b = {{2000000, 0, 0}, 7 * HALF / 3};
        share_rescale(&a, HALF, 3 * HALF);
        share_rescale(&b, HALF, 3 * HALF);
        ck_assert_int_le(llabs((long long)(2 * a.used[0] - b.used[0])), 2);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("share");
    tcase_add_test(t, splitting_a_stretch_changes_nothing);
    tcase_add_test(t, half_is_left_after_a_half_life);
    tcase_add_test(t, later_use_weighs_more);
    tcase_add_test(t, the_dominant_kind_counts);
    tcase_add_test(t, what_is_held_counts_at_once);
    tcase_add_test(t, time_going_back_is_no_step);
    tcase_add_test(t, the_whole_cluster_for_ever_does_not_overflow);
    tcase_add_test(t, another_half_life_keeps_the_ratio);
    return run_case("share", t);
}
