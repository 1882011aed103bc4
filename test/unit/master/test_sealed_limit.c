// SPDX-License-Identifier: Apache-2.0
// The buckets: a burst, a rate, failures that cost more, and a bounded number of addresses.
#include "master/api/sealed_limit.h"
#include "test/unit/suite.h"

#include <check.h>
#include <stdio.h>

static int taken(struct sealed_limit *l, const char *address, int64_t now_ms)
{
    int n = 0;
    while (n < 1000 && sealed_limit_take(l, address, now_ms))
        n++;
    return n;
}

START_TEST(burst_and_rate)
    {
        struct sealed_limit *l = sealed_limit_new(10);
        ck_assert_int_eq(taken(l, "a", 0), 20);
        ck_assert_int_eq(taken(l, "b", 0), 20); // each for itself
        ck_assert_int_eq(taken(l, "a", 500), 5);
        ck_assert_int_eq(taken(l, "a", 100000), 20);
        sealed_limit_free(l);
    }
END_TEST

START_TEST(failures_cost_more)
    {
        struct sealed_limit *l = sealed_limit_new(30);
        ck_assert(sealed_limit_take(l, "a", 0));
        sealed_limit_failed(l, "a");
        ck_assert_int_eq(taken(l, "a", 0), 60 - SEALED_FAILURE_COST);
        for (int i = 0; i < 100; i++)
            sealed_limit_failed(l, "a");
        ck_assert_int_eq(taken(l, "a", 2000), 0);
        ck_assert_int_gt(taken(l, "a", 10000), 0); // but not for ever
        sealed_limit_failed(l, "never seen");
        sealed_limit_free(l);
    }
END_TEST

START_TEST(bounded)
    {
        char address[32];
        struct sealed_limit *l = sealed_limit_new(10);
        ck_assert_int_eq(taken(l, "first", 0), 20);
        for (int i = 0; i < SEALED_LIMIT_ADDRESSES; i++) {
            (void)snprintf(address, sizeof(address), "10.0.%d.%d", i / 256, i % 256);
            ck_assert(sealed_limit_take(l, address, 0));
        }
        ck_assert_int_eq(taken(l, "first", 0), 20); // was forgotten, as the oldest
        ck_assert_int_eq(taken(l, address, 0), 19);
        sealed_limit_free(l);
        sealed_limit_free(NULL);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("sealed_limit");
    tcase_add_test(t, burst_and_rate);
    tcase_add_test(t, failures_cost_more);
    tcase_add_test(t, bounded);
    return run_case("sealed_limit", t);
}
