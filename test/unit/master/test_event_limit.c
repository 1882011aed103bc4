// SPDX-License-Identifier: Apache-2.0
// Events of one node: a burst, the rate, the marks at both ends of what is left out.
#include "master/cluster/event_limit.h"
#include "test/unit/suite.h"

#include <check.h>

START_TEST(a_flood_is_marked_at_both_ends)
    {
        uint64_t before;
        struct event_limit *l = event_limit_new(10, 3);

        ck_assert_ptr_nonnull(l);
        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(event_limit_take(l, "n1", 1000, &before), EVENT_GOES);
        ck_assert_int_eq(event_limit_take(l, "n1", 1000, &before), EVENT_LAST);
        for (int i = 0; i < 5; i++)
            ck_assert_int_eq(event_limit_take(l, "n1", 1050, &before), EVENT_LEFT_OUT);
        ck_assert_int_eq(event_limit_take(l, "n2", 1050, &before), EVENT_GOES); // its own
        ck_assert_uint_eq(before, 0);
        ck_assert_int_eq(event_limit_take(l, "n1", 1100, &before), EVENT_GOES);
        ck_assert_uint_eq(before, 6);
        ck_assert_int_eq(event_limit_take(l, "n1", 1100, &before), EVENT_LAST);
        event_limit_free(l);
        event_limit_free(NULL);
    }
END_TEST

int main(void)
{
    TCase *tc = tcase_create("event_limit");
    tcase_add_test(tc, a_flood_is_marked_at_both_ends);
    return run_case("event_limit", tc);
}
