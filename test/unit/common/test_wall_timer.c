// SPDX-License-Identifier: Apache-2.0
// Moments that are over, to come, moved and taken back. (Setting the machine's clock is not for a
// test that others run beside.)
#include "common/wall_timer.h"

#include "common/clock.h"
#include "test/unit/suite.h"

static uv_loop_t loop;
static struct wall_timer *timer;
static int fired;

static void on_fired(void *userdata)
{
    ck_assert_ptr_eq(userdata, &fired);
    fired++;
    uv_stop(&loop);
}

static void begin(void)
{
    struct err e;
    fired = 0;
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(wall_timer_new(&loop, on_fired, &fired, &timer, &e), 0);
}

static void end(void)
{
    wall_timer_close(timer);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

START_TEST(over_and_to_come)
    {
        begin();
        ck_assert_int_eq(wall_timer_set(timer, 1000), 0); // 1970
        (void)uv_run(&loop, UV_RUN_DEFAULT);
        ck_assert_int_eq(fired, 1);
        int64_t at = clock_real_ms() + 30;
        ck_assert_int_eq(wall_timer_set(timer, at), 0);
        (void)uv_run(&loop, UV_RUN_DEFAULT);
        ck_assert_int_eq(fired, 2);
        ck_assert_int_ge(clock_real_ms(), at);
        end();
    }
END_TEST

static void on_bound(uv_timer_t *t)
{
    (void)t;
    uv_stop(&loop);
}

START_TEST(moved_and_taken_back)
    {
        uv_timer_t bound;
        begin();
        ck_assert_int_eq(wall_timer_set(timer, clock_real_ms() + 3600000), 0);
        ck_assert_int_eq(wall_timer_set(timer, clock_real_ms() + 10), 0);
        (void)uv_run(&loop, UV_RUN_DEFAULT);
        ck_assert_int_eq(fired, 1); // once
        ck_assert_int_eq(wall_timer_set(timer, clock_real_ms() + 10), 0);
        ck_assert_int_eq(wall_timer_set(timer, 0), 0);
        (void)uv_timer_init(&loop, &bound);
        (void)uv_timer_start(&bound, on_bound, 50, 0);
        (void)uv_run(&loop, UV_RUN_DEFAULT);
        ck_assert_int_eq(fired, 1);
        uv_close((uv_handle_t *)&bound, NULL);
        end();
        wall_timer_close(NULL);
    }
END_TEST

RUN_SUITE("wall_timer", 10, over_and_to_come, moved_and_taken_back)
