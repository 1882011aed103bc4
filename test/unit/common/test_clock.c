// SPDX-License-Identifier: Apache-2.0
// RFC 3339 both ways, and clocks that do not run backwards.
#include "common/clock.h"

#include "test/unit/suite.h"

#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int64_t set_by_s; // somebody set this machine's clock

// In place of the C library's.
int clock_gettime(clockid_t id, struct timespec *ts)
{
    long r = syscall(SYS_clock_gettime, id, ts);
    if (id == CLOCK_REALTIME)
        ts->tv_sec += set_by_s;
    return (int)r;
}

START_TEST(formats_and_parses)
    {
        const int64_t samples[] = {0, 1, 999, 951782400000, 1767323045678, 4102444799999};
        char text[CLOCK_TEXT_BYTES];
        int64_t back;

        clock_format_ms(1767323045678, text);
        ck_assert_str_eq(text, "2026-01-02T03:04:05.678Z");
        for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
            clock_format_ms(samples[i], text);
            ck_assert_int_eq(clock_parse(text, &back), 0);
            ck_assert_int_eq(back, samples[i]);
        }
    }
END_TEST

START_TEST(parses_other_precisions)
    {
        int64_t ms;

        ck_assert_int_eq(clock_parse("2026-01-02T03:04:05Z", &ms), 0);
        ck_assert_int_eq(ms, 1767323045000);
        ck_assert_int_eq(clock_parse("2026-01-02T03:04:05.5Z", &ms), 0);
        ck_assert_int_eq(ms, 1767323045500);
        ck_assert_int_eq(clock_parse("2026-01-02T03:04:05.123456789Z", &ms), 0);
        ck_assert_int_eq(ms, 1767323045123);
    }
END_TEST

START_TEST(goes_on_by_the_time_of_before)
    {
        static const int64_t steps_s[] = {3600, -3600, 400000000};
        set_by_s = 0;
        clock_believe();
        for (size_t i = 0; i < sizeof(steps_s) / sizeof(steps_s[0]); i++) {
            int64_t before = clock_real_ms();
            set_by_s = steps_s[i];
            int64_t passed = clock_real_ms() - before;
            ck_assert(passed >= 0 && passed < 60000);
            int64_t apart = clock_step_ms() - steps_s[i] * 1000;
            ck_assert(apart > -60000 && apart < 60000);
            set_by_s = 0;
            ck_assert_int_eq(clock_step_ms(), 0);
        }
    }
END_TEST

START_TEST(follows_small_steps_and_what_is_believed)
    {
        set_by_s = 0;
        clock_believe();
        int64_t before = clock_real_ms();
        for (set_by_s = 0; set_by_s < 7200; set_by_s += CLOCK_STEP_MS / 2000)
            (void)clock_real_ms();
        ck_assert_int_eq(clock_step_ms(), 0);
        ck_assert_int_ge(clock_real_ms() - before, 7000000);
        set_by_s = 1000000;
        clock_believe();
        ck_assert_int_eq(clock_step_ms(), 0);
        ck_assert_int_ge(clock_real_ms() - before, 1000000000);
    }
END_TEST

START_TEST(refuses_the_rest)
    {
        const char *const bad[] = {"",
                                   "now",
                                   "2026-01-02",
                                   "2026-01-02T03:04:05",
                                   "2026-01-02T03:04:05+01:00",
                                   "2026-13-02T03:04:05Z",
                                   "2026-02-30T03:04:05Z",
                                   "2026-01-02T03:04:05Z ",
                                   "2026-01-02 03:04:05Z"};
        int64_t ms = 42;

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
            ck_assert_msg(clock_parse(bad[i], &ms) == -EINVAL, "%s", bad[i]);
        ck_assert_int_eq(ms, 42);
    }
END_TEST

START_TEST(clocks_go_forward)
    {
        int64_t mono = clock_mono_ms();
        int64_t boot = clock_boot_ms();

        ck_assert_int_gt(clock_real_ms(), 1700000000000);
        ck_assert_int_ge(clock_mono_ms(), mono);
        ck_assert_int_ge(clock_boot_ms(), boot);
        ck_assert_int_ge(boot, mono);
    }
END_TEST

START_TEST(boots_have_ids)
    {
        char one[CLOCK_BOOT_ID_BYTES], two[CLOCK_BOOT_ID_BYTES];

        clock_boot_id(one);
        clock_boot_id(two);
        ck_assert_uint_eq(strlen(one), 36);
        ck_assert_str_eq(one, two);
    }
END_TEST

RUN_SUITE("clock", 10, boots_have_ids, formats_and_parses, parses_other_precisions,
          refuses_the_rest, clocks_go_forward, goes_on_by_the_time_of_before,
          follows_small_steps_and_what_is_believed)
