// SPDX-License-Identifier: Apache-2.0
// When certificates are replaced, and what is left of them.
#include "common/renewal.h"

#include "test/unit/suite.h"

#define S INT64_C(1000)
#define DAY (86400 * S)

START_TEST(two_thirds)
    {
        ck_assert_int_eq(renewal_due_ms(0, 90 * DAY), 60 * DAY);
        ck_assert_int_eq(renewal_due_ms(100 * DAY, 103 * DAY), 102 * DAY);
        ck_assert_int_eq(renewal_due_ms(5 * S, 5 * S), 5 * S); // no life at all
        ck_assert_int_eq(renewal_due_ms(9 * S, 5 * S), 5 * S); // made after its own end
        ck_assert_int_gt(renewal_due_ms(0, INT64_MAX), 0);
    }
END_TEST

START_TEST(tries_come_closer)
    {
        ck_assert_int_eq(renewal_retry_ms(0, 30 * DAY), 3600 * S);
        ck_assert_int_eq(renewal_retry_ms(0, 100 * S), 10 * S);
        ck_assert_int_eq(renewal_retry_ms(0, 2 * S), 1 * S);
        ck_assert_int_eq(renewal_retry_ms(10 * S, 10 * S), 15 * S);
        ck_assert_int_eq(renewal_retry_ms(20 * S, 10 * S), 25 * S);
    }
END_TEST

START_TEST(days)
    {
        ck_assert_int_eq(renewal_days_left(0, DAY - 1), 0);
        ck_assert_int_eq(renewal_days_left(0, 90 * DAY), 90);
        ck_assert_int_eq(renewal_days_left(1, 0), -1);
        ck_assert_int_eq(renewal_days_left(2 * DAY, 0), -2);
    }
END_TEST

RUN_SUITE("renewal", 4, two_thirds, tries_come_closer, days)
