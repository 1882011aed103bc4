// SPDX-License-Identifier: Apache-2.0
// Port claims of local clusters: disjoint while held, free again when the holder is gone, around
// ports in use.
#include "cli/ports.h"

#include "common/cleanup.h"
#include "test/unit/suite.h"

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static struct err e;

static bool meet(const struct port_claim *a, const struct port_claim *b)
{
    return a->first < b->first + b->count && b->first < a->first + a->count;
}

START_TEST(claims_do_not_meet)
    {
        struct port_claim c[6];
        for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
            ck_assert_msg(ports_claim("same seed", i % 2 ? 100 : 250, &c[i], &e) == 0, "%s",
                          e.text);
            ck_assert(c[i].fd >= 0);
            ck_assert_int_ge(c[i].first, 10000);
            ck_assert(c[i].first + c[i].count - 1 <= 32767 || c[i].first >= 61000);
            for (size_t k = 0; k < i; k++)
                ck_assert(!meet(&c[i], &c[k]));
        }
        for (size_t i = 0; i < ARRAY_SIZE(c); i++)
            (void)close(c[i].fd);
    }
END_TEST

START_TEST(a_claim_ends_with_its_holder)
    {
        struct port_claim first, again;
        ck_assert_int_eq(ports_claim("holder", 100, &first, &e), 0);
        ports_claim_again(first.first, first.count, &again);
        ck_assert_int_eq(again.fd, -1); // held
        int heir = dup(first.fd);       // as an agent inherits it
        (void)close(first.fd);
        ports_claim_again(first.first, first.count, &again);
        ck_assert_int_eq(again.fd, -1);
        (void)close(heir);
        ports_claim_again(first.first, first.count, &again);
        ck_assert_int_ge(again.fd, 0);
        ck_assert_int_eq(again.first, first.first);
        (void)close(again.fd);
    }
END_TEST

START_TEST(ranges_with_a_listener_are_passed_over)
    {
        struct port_claim before, after;
        ck_assert_int_eq(ports_claim("listener", 100, &before, &e), 0);
        (void)close(before.fd);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct sockaddr_in a = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)(before.first + 50)),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        if (bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(fd, 1) == 0) {
            ck_assert_int_eq(ports_claim("listener", 100, &after, &e), 0);
            ck_assert(!meet(&before, &after));
            (void)close(after.fd);
        }
        (void)close(fd);
    }
END_TEST

START_TEST(too_large_a_range_is_refused)
    {
        struct port_claim c;
        ck_assert_int_eq(ports_claim("x", 30000, &c, &e), -ENOSPC);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("claims");
    tcase_add_test(t, claims_do_not_meet);
    tcase_add_test(t, a_claim_ends_with_its_holder);
    tcase_add_test(t, ranges_with_a_listener_are_passed_over);
    tcase_add_test(t, too_large_a_range_is_refused);
    return run_case("claims", t);
}
