// SPDX-License-Identifier: Apache-2.0
// The link's state table: joining before syncing, backoff and recovery, late events, failures from
// inside a step.
#include "node-agent/link.h"
#include "test/unit/suite.h"

#include <check.h>

static uv_loop_t loop;
static struct link *l;
static bool is_joined, fail_at_once;
static unsigned joins, syncs, ups, downs;

static bool joined(void *userdata)
{
    (void)userdata;
    return is_joined;
}
static void join(void *userdata)
{
    (void)userdata;
    joins++;
}
static void do_sync(void *userdata)
{
    (void)userdata;
    syncs++;
    if (fail_at_once)
        link_event(l, LINK_FAILED, "no route");
}
static void online(bool on, void *userdata)
{
    (void)userdata;
    ups += on;
    downs += !on;
}

static const struct link_ops ops = {
    .joined = joined, .join = join, .sync = do_sync, .online = online};

static void setup(void)
{
    struct link_options o = {.loop = &loop, .ops = &ops, .min_ms = 5, .max_ms = 20};
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(link_new(&o, &l), 0);
}

static void teardown(void)
{
    link_close(l);
    while (uv_run(&loop, UV_RUN_DEFAULT) != 0)
        ;
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

START_TEST(joins_then_syncs)
    {
        link_event(l, LINK_START, NULL);
        ck_assert_int_eq(link_state(l), LINK_JOINING);
        link_event(l, LINK_ANSWERED, NULL); // nonsense here: ignored
        ck_assert_int_eq(link_state(l), LINK_JOINING);
        is_joined = true;
        link_event(l, LINK_JOINED, NULL);
        ck_assert_int_eq(link_state(l), LINK_SYNCING);
        ck_assert(!link_online(l));
        link_event(l, LINK_ANSWERED, NULL);
        ck_assert(link_online(l));
        ck_assert_uint_eq(syncs, 2); // the next one is out at once
        ck_assert_uint_eq(ups, 1);
        link_event(l, LINK_ANSWERED, NULL);
        ck_assert_uint_eq(ups, 1);
    }
END_TEST

START_TEST(backs_off_and_recovers)
    {
        is_joined = true;
        link_event(l, LINK_START, NULL);
        link_event(l, LINK_ANSWERED, NULL);
        for (int i = 0; i < 4; i++) {
            link_event(l, LINK_FAILED, "refused");
            ck_assert_int_eq(link_state(l), LINK_BACKOFF);
            ck_assert_str_eq(link_reason(l), "refused");
            (void)uv_run(&loop, UV_RUN_DEFAULT); // the timer alone leads on
            ck_assert_int_eq(link_state(l), LINK_SYNCING);
        }
        ck_assert_uint_eq(downs, 1);
        link_event(l, LINK_ANSWERED, NULL);
        ck_assert_uint_eq(ups, 2);
        ck_assert_str_eq(link_reason(l), "");
    }
END_TEST

START_TEST(a_step_that_fails_at_once)
    {
        is_joined = true;
        fail_at_once = true;
        link_event(l, LINK_START, NULL);
        ck_assert_int_eq(link_state(l), LINK_BACKOFF);
        fail_at_once = false;
        (void)uv_run(&loop, UV_RUN_DEFAULT);
        ck_assert_int_eq(link_state(l), LINK_SYNCING);
        ck_assert_uint_eq(syncs, 2);
    }
END_TEST

START_TEST(refused_waits_longest)
    {
        is_joined = true;
        link_event(l, LINK_START, NULL);
        uint64_t before = uv_now(&loop);
        link_event(l, LINK_REFUSED, "second instance");
        (void)uv_run(&loop, UV_RUN_DEFAULT);
        ck_assert_uint_ge(uv_now(&loop) - before, 20);
        ck_assert_int_eq(link_state(l), LINK_SYNCING);
    }
END_TEST

int main(void)
{
    TCase *tc = tcase_create("link");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, joins_then_syncs);
    tcase_add_test(tc, backs_off_and_recovers);
    tcase_add_test(tc, a_step_that_fails_at_once);
    tcase_add_test(tc, refused_waits_longest);
    return run_case("link", tc);
}
