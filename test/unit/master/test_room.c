// SPDX-License-Identifier: Apache-2.0
// A node's disk by its reports: full, no new work, and room again.
#include "test/unit/master/cluster_fixture.h"
#include "test/unit/suite.h"

#define ONE                                                                                        \
    "{\"name\":\"one\",\"components\":{\"m\":{\"command\":\"true\",\"resources\":{\"cpu\":2}}}}"

START_TEST(percent_is_rounded_down_and_nonsense_is_nothing)
    {
        ck_assert_int_eq(room_used_percent(1000, 101), 89);
        ck_assert_int_eq(room_used_percent(1000, 100), 90);
        ck_assert_int_eq(room_used_percent(1000, 0), 100);
        ck_assert_int_eq(room_used_percent(0, 0), 0);
        ck_assert_int_eq(room_used_percent(1000, -1), 0);
        ck_assert_int_eq(room_used_percent(1000, 2000), 0);
        ck_assert_int_eq(room_used_percent(INT64_MAX, 1), 0);
    }
END_TEST

static void say_room(struct agent *a, int free)
{
    said_usage = json_pack("{s:i}", "disk_free", free);
    ck_assert_int_eq(say(a, false, NULL, false), 0);
}

START_TEST(full_gets_no_new_work_until_clearly_below)
    {
        struct agent a = {0};
        agent_join(&a, "n1", 4);
        (void)agent_apply(&a, NULL);
        json_object_set_new(a.node->info, "disk", json_pack("{s:i}", "total", 1000));
        say_room(&a, 101);
        ck_assert_int_eq(a.node->state, NODE_READY);
        say_room(&a, 100);
        ck_assert_int_eq(a.node->state, NODE_NOT_READY);
        ck_assert_ptr_nonnull(strstr(a.node->reason, "90 % full"));
        struct job *j = submit(ONE);
        settle();
        ck_assert_int_eq(j->state, JOB_PENDING);
        say_room(&a, 115); // 88 %
        ck_assert_int_eq(a.node->state, NODE_NOT_READY);
        say_room(&a, 130); // 87 %
        ck_assert_int_eq(a.node->state, NODE_READY);
        settle();
        ck_assert_int_eq(j->state, JOB_RUNNING);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("room");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, percent_is_rounded_down_and_nonsense_is_nothing);
    tcase_add_test(t, full_gets_no_new_work_until_clearly_below);
    return run_case("room", t);
}
