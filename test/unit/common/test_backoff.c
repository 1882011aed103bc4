// SPDX-License-Identifier: Apache-2.0
// Backoff: grows, is bounded, starts again after a success.
#include "common/backoff.h"
#include "test/unit/suite.h"

#include <check.h>

START_TEST(grows_to_its_bound)
    {
        struct backoff b;
        uint64_t want = 100;

        backoff_init(&b, 100, 5000);
        for (int i = 0; i < 40; i++) {
            uint64_t delay = backoff_fail(&b);
            ck_assert_uint_ge(delay, want / 2);
            ck_assert_uint_le(delay, want);
            want = want * 2 > 5000 ? 5000 : want * 2;
        }
        ck_assert_uint_eq(backoff_reset(&b), 40);
        ck_assert_uint_eq(backoff_reset(&b), 0);
        ck_assert_uint_le(backoff_fail(&b), 100);
    }
END_TEST

START_TEST(is_spread)
    {
        struct backoff b;
        int different = 0;

        backoff_init(&b, 1000, 1000);
        uint64_t first = backoff_fail(&b);
        for (int i = 0; i < 50; i++)
            different += backoff_fail(&b) != first;
        ck_assert_int_gt(different, 10);
    }
END_TEST

START_TEST(one_delay_is_spread)
    {
        const uint64_t delay = UINT64_C(86400000) * 100; // beyond 32 bits
        uint64_t least = delay, most = 0;

        for (int i = 0; i < 200; i++) {
            uint64_t d = backoff_spread(delay);
            least = d < least ? d : least;
            most = d > most ? d : most;
        }
        ck_assert_uint_ge(least, delay / 2);
        ck_assert_uint_lt(least, delay / 100 * 60);
        ck_assert_uint_gt(most, delay / 100 * 90);
        ck_assert_uint_le(most, delay);
        ck_assert_uint_eq(backoff_spread(0), 0);
    }
END_TEST

START_TEST(odd_bounds)
    {
        struct backoff b;

        backoff_init(&b, 0, 0);
        ck_assert_uint_le(backoff_fail(&b), 1);
        backoff_init(&b, 500, 10);
        ck_assert_uint_le(backoff_fail(&b), 500);
    }
END_TEST

int main(void)
{
    TCase *tc = tcase_create("backoff");
    tcase_add_test(tc, grows_to_its_bound);
    tcase_add_test(tc, is_spread);
    tcase_add_test(tc, one_delay_is_spread);
    tcase_add_test(tc, odd_bounds);
    return run_case("backoff", tc);
}
