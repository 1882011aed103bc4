// SPDX-License-Identifier: Apache-2.0
// Token buckets: what flows, what is refused and until when, what is forgotten; one log line an
// interval; addresses as limits count them.
#include "common/rate.h"

#include "common/http_address.h"
#include "common/log_limit.h"

#include "test/unit/suite.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static struct rate_table *table(uint32_t per_second, uint32_t burst, unsigned max)
{
    const struct rate_options o = {per_second, burst, max};
    struct rate_table *t = NULL;
    ck_assert_int_eq(rate_new(&o, &t), 0);
    return t;
}

START_TEST(a_burst_then_the_rate)
    {
        struct rate_table *t = table(10, 3, 4);

        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(rate_take(t, "a", 1000), 0);
        ck_assert_int_eq(rate_take(t, "a", 1000), 100);
        ck_assert_int_eq(rate_take(t, "a", 1099), 1);
        ck_assert_int_eq(rate_take(t, "a", 1100), 0);
        ck_assert_int_eq(rate_take(t, "a", 1100), 100);
        ck_assert_int_eq(rate_take(t, "b", 1100), 0); // another name has its own
        rate_free(t);
    }
END_TEST

START_TEST(never_more_than_a_burst)
    {
        struct rate_table *t = table(1000000, 2, 1);

        ck_assert_int_eq(rate_take(t, "a", INT64_MIN / 4), 0);
        ck_assert_int_eq(rate_take(t, "a", INT64_MAX / 4), 0); // long after
        ck_assert_int_eq(rate_take(t, "a", INT64_MAX / 4), 0);
        ck_assert_int_eq(rate_take(t, "a", INT64_MAX / 4), 1);
        ck_assert_int_eq(rate_take(t, "a", 0), 1); // the clock went back: nothing is gained
        rate_free(t);
    }
END_TEST

// A slow bucket must not lose what comes in small pieces, nor what is asked too early.
START_TEST(nothing_is_rounded_away)
    {
        struct rate_table *t = table(1, 1, 1);

        ck_assert_int_eq(rate_take(t, "a", 0), 0);
        for (int64_t now = 1; now < 1000; now++)
            ck_assert_int_eq(rate_take(t, "a", now), 1000 - now);
        ck_assert_int_eq(rate_take(t, "a", 1000), 0);
        rate_free(t);
    }
END_TEST

START_TEST(the_table_is_bounded)
    {
        char name[32], long_name[200];
        struct rate_table *t = table(1, 1, 8);

        for (int i = 0; i < 100; i++) {
            (void)snprintf(name, sizeof(name), "n%d", i);
            ck_assert_int_eq(rate_take(t, name, 0), 0);
            ck_assert_uint_le(rate_names(t), 8);
        }
        ck_assert_int_gt(rate_take(t, "n99", 0), 0); // still known
        ck_assert_int_gt(rate_take(t, "n92", 0), 0); // and used again: n93 goes next
        ck_assert_int_eq(rate_take(t, "new", 0), 0);
        ck_assert_int_gt(rate_take(t, "n92", 0), 0);
        ck_assert_int_eq(rate_take(t, "n93", 0), 0);
        memset(long_name, 'x', sizeof(long_name) - 1);
        long_name[sizeof(long_name) - 1] = '\0';
        ck_assert_int_eq(rate_take(t, long_name, 0), 0);
        ck_assert_int_gt(rate_take(t, long_name, 0), 0);
        rate_free(t);
    }
END_TEST

START_TEST(rate_zero_lets_all_through)
    {
        struct rate_table *t = table(0, 1, 1);

        for (int i = 0; i < 10; i++)
            ck_assert_int_eq(rate_take(t, "a", 0), 0);
        ck_assert_uint_eq(rate_names(t), 0);
        rate_free(t);
    }
END_TEST

START_TEST(one_line_an_interval)
    {
        struct log_limit *l = NULL;
        uint64_t before = 9;

        ck_assert_int_eq(log_limit_new(2, 60000, &l), 0);
        ck_assert(log_limit_pass(l, "10.0.0.1", "rate", 0, &before));
        ck_assert_uint_eq(before, 0);
        for (int i = 0; i < 50; i++)
            ck_assert(!log_limit_pass(l, "10.0.0.1", "rate", 59999, &before));
        ck_assert(log_limit_pass(l, "10.0.0.1", "cap", 59999, &before)); // something else
        ck_assert(log_limit_pass(l, "10.0.0.1", "rate", 60000, &before));
        ck_assert_uint_eq(before, 50);
        ck_assert(log_limit_pass(l, "10.0.0.2", "rate", 60000, &before)); // "cap" is forgotten
        ck_assert(log_limit_pass(l, "10.0.0.1", "cap", 60000, &before));
        log_limit_free(l);
    }
END_TEST

static void check_text(const char *from, const char *text, const char *group)
{
    char out[HTTP_ADDRESS_BYTES];
    struct sockaddr_storage a = {0};
    if (inet_pton(AF_INET6, from, &((struct sockaddr_in6 *)&a)->sin6_addr) == 1) {
        a.ss_family = AF_INET6;
    } else {
        a.ss_family = AF_INET;
        ck_assert_int_eq(inet_pton(AF_INET, from, &((struct sockaddr_in *)&a)->sin_addr), 1);
    }
    http_address_text(&a, out);
    ck_assert_str_eq(out, text);
    http_address_group(text, out);
    ck_assert_str_eq(out, group);
}

START_TEST(addresses)
    {
        char out[HTTP_ADDRESS_BYTES];
        struct sockaddr_storage odd = {.ss_family = AF_UNIX};

        check_text("192.0.2.7", "192.0.2.7", "192.0.2.7");
        check_text("::ffff:192.0.2.7", "192.0.2.7", "192.0.2.7");
        check_text("2001:db8:1:2:3:4:5:6", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64");
        check_text("::1", "::1", "::/64");
        http_address_text(&odd, out);
        ck_assert_str_eq(out, "");
        http_address_group("", out);
        ck_assert_str_eq(out, "");
    }
END_TEST

int main(void)
{
    TCase *tc = tcase_create("rate");
    tcase_add_test(tc, a_burst_then_the_rate);
    tcase_add_test(tc, never_more_than_a_burst);
    tcase_add_test(tc, nothing_is_rounded_away);
    tcase_add_test(tc, the_table_is_bounded);
    tcase_add_test(tc, rate_zero_lets_all_through);
    tcase_add_test(tc, one_line_an_interval);
    tcase_add_test(tc, addresses);
    return run_case("rate", tc);
}
