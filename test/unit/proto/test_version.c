// SPDX-License-Identifier: Apache-2.0
// The skew rule: one version each way.
#include "proto/version.h"
#include "test/unit/suite.h"

#include <check.h>
#include <string.h>

START_TEST(one_each_way)
    {
        struct err e = {""};
        for (int64_t d = -1; d <= 1; d++)
            ck_assert_int_eq(protocol_check(MEADOW_PROTOCOL + d, "agent", &e), 0);
        ck_assert_int_eq(protocol_check(MEADOW_PROTOCOL + 2, "agent", &e), -EPROTO);
        ck_assert_ptr_nonnull(strstr(e.text, "the agent speaks protocol"));
        ck_assert_ptr_nonnull(strstr(e.text, "Upgrade this side"));
        ck_assert_int_eq(protocol_check(MEADOW_PROTOCOL - 2, "agent", &e), -EPROTO);
        ck_assert_ptr_nonnull(strstr(e.text, "Upgrade it"));
        ck_assert_int_eq(protocol_check(INT64_MAX, "agent", &e), -EPROTO);
        ck_assert_int_eq(protocol_check(INT64_MIN, "agent", &e), -EPROTO);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("skew");
    tcase_add_test(t, one_each_way);
    return run_case("version", t);
}
