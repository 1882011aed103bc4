// SPDX-License-Identifier: Apache-2.0
// Ports of a node: distinct, from the cursor on, around the end; nothing outside the range.
#include "master/scheduler/plan_internal.h"
#include "test/unit/suite.h"

#include <check.h>
#include <string.h>

START_TEST(test_from_the_cursor_around)
    {
        uint64_t taken[2] = {0};
        struct plan_ports p = {.first = 1000, .count = 70, .cursor = 68, .taken = taken};
        uint16_t got[4];
        plan_ports_take(&p, 4, got);
        ck_assert_uint_eq(got[0], 1068);
        ck_assert_uint_eq(got[1], 1069);
        ck_assert_uint_eq(got[2], 1000);
        ck_assert_uint_eq(got[3], 1001);
        ck_assert_uint_eq(p.cursor, 2);
        ck_assert_int_eq(plan_ports_free(&p, 1000), 66);
    }
END_TEST

START_TEST(test_skips_taken_ones)
    {
        uint64_t taken[1] = {0x0F};
        struct plan_ports p = {.first = 1, .count = 6, .taken = taken};
        uint16_t got[2];
        plan_ports_take(&p, 2, got);
        ck_assert_uint_eq(got[0], 5);
        ck_assert_uint_eq(got[1], 6);
        ck_assert_int_eq(plan_ports_free(&p, 16), 0);
    }
END_TEST

START_TEST(test_a_port_that_was_given_back_rests)
    {
        uint64_t taken[1] = {0};
        struct plan_ports p = {.first = 1, .count = 4, .taken = taken};
        uint16_t got, seen[4];
        for (int i = 0; i < 4; i++) {
            plan_ports_take(&p, 1, &got);
            plan_ports_give(&p, 1, &got);
            seen[i] = got;
        }
        for (int i = 0; i < 4; i++)
            ck_assert_uint_eq(seen[i], i + 1);
    }
END_TEST

START_TEST(test_bits_beyond_the_range_do_not_count)
    {
        uint64_t taken[1] = {0};
        struct plan_ports p = {.first = 1, .count = 3, .cursor = 200, .taken = taken};
        uint16_t got[3];
        ck_assert_int_eq(plan_ports_free(&p, 16), 3);
        plan_ports_take(&p, 3, got);
        ck_assert_uint_eq(taken[0], 7);
        uint16_t foreign = 900;
        plan_ports_give(&p, 1, &foreign);
        ck_assert_uint_eq(taken[0], 7);
    }
END_TEST

START_TEST(test_a_node_without_ports)
    {
        struct plan_ports p = {0};
        uint16_t got = 7;
        ck_assert_int_eq(plan_ports_free(&p, 16), 0);
        plan_ports_take(&p, 1, &got);
        ck_assert_uint_eq(got, 7);
        plan_ports_give(&p, 1, &got);
    }
END_TEST

START_TEST(test_the_whole_range_is_used)
    {
        uint64_t taken[1024] = {0};
        struct plan_ports p = {.first = 0, .count = UINT16_MAX, .cursor = 77, .taken = taken};
        static bool seen[65536];
        uint16_t got[PLAN_MAX_PORTS];
        memset(seen, 0, sizeof(seen));
        for (int i = 0; i < UINT16_MAX / 15; i++) {
            plan_ports_take(&p, 15, got);
            for (int k = 0; k < 15; k++) {
                ck_assert(!seen[got[k]]);
                seen[got[k]] = true;
            }
        }
        ck_assert_int_eq(plan_ports_free(&p, 65536), 0);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("ports");
    tcase_add_test(t, test_from_the_cursor_around);
    tcase_add_test(t, test_skips_taken_ones);
    tcase_add_test(t, test_a_port_that_was_given_back_rests);
    tcase_add_test(t, test_bits_beyond_the_range_do_not_count);
    tcase_add_test(t, test_a_node_without_ports);
    tcase_add_test(t, test_the_whole_range_is_used);
    return run_case("ports", t);
}
