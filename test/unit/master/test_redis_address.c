// SPDX-License-Identifier: Apache-2.0
// redis_url: what is understood, what is refused, and that a password is never shown.
#include "master/store/redis_address.h"
#include "test/unit/suite.h"

#include <check.h>
#include <string.h>

static void text_eq(const char *a, const char *b)
{
    ck_assert_str_eq(a ? a : "-", b ? b : "-");
}

static const struct {
    const char *url, *path, *host, *user, *password, *database;
    int port;
    const char *shown;
} good[] = {
    {"redis://h", NULL, "h", NULL, NULL, "", 6379, "redis://h:6379/0"},
    {"redis://10.0.0.1:7000/3", NULL, "10.0.0.1", NULL, NULL, "3", 7000, "redis://10.0.0.1:7000/3"},
    {"redis://:pw@h/", NULL, "h", NULL, "pw", "", 6379, "redis://h:6379/0"},
    {"redis://me:p%40%3a%2Fw@[::1]:7/12", NULL, "::1", "me", "p@:/w", "12", 7,
     "redis://[::1]:7/12"},
    {"redis://me:a@b@[fe80::1]", NULL, "fe80::1", "me", "a@b", "", 6379,
     "redis://[fe80::1]:6379/0"},
    {"unix:/run/r.sock", "/run/r.sock", NULL, NULL, NULL, "", 0, "unix:/run/r.sock"},
    {"unix:///run/r.sock", "/run/r.sock", NULL, NULL, NULL, "", 0, "unix:/run/r.sock"},
};

START_TEST(urls_that_are_understood)
    {
        struct redis_address a, b;
        struct err e = {""};
        char shown[100];
        ck_assert_msg(redis_address_parse(good[_i].url, &b, &e) == 0, "%s: %s", good[_i].url,
                      e.text);
        ck_assert_int_eq(redis_address_copy(&b, &a), 0);
        redis_address_free(&b);
        text_eq(a.path, good[_i].path);
        text_eq(a.host, good[_i].host);
        text_eq(a.user, good[_i].user);
        text_eq(a.password, good[_i].password);
        ck_assert_str_eq(a.database, good[_i].database);
        ck_assert_int_eq(a.port, good[_i].port);
        ck_assert_str_eq(redis_address_show(&a, shown, sizeof(shown)), good[_i].shown);
        redis_address_free(&a);
    }
END_TEST

static const struct {
    const char *url, *says;
} bad[] = {
    {"", "expected redis://"},
    {"http://h", "expected redis://"},
    {"unix:r.sock", "expected redis://"},
    {"redis://", "host:"},
    {"redis://h:0", "port:"},
    {"redis://h:65536", "port:"},
    {"redis://h:", "port:"},
    {"redis://h/x", "database:"},
    {"redis://h/12345678", "database:"},
    {"redis://secret@h", "user:password"},
    {"redis://me:@h", "without a password"},
    {"redis://:secret%4@h", "hex"},
    {"redis://:secret%00@h", "hex"},
    {"redis://:secret@[::1", "host:"},
    {"redis://:secret@a b", "host:"},
    {"rediss://:secret@h", "TLS"},
};

START_TEST(urls_that_are_refused)
    {
        struct redis_address a;
        struct err e = {""};
        ck_assert_int_eq(redis_address_parse(bad[_i].url, &a, &e), -EINVAL);
        ck_assert_msg(strstr(e.text, bad[_i].says) != NULL, "%s: %s", bad[_i].url, e.text);
        ck_assert_ptr_null(strstr(e.text, "secret"));
        ck_assert_ptr_null(a.host);
        ck_assert_ptr_null(a.password);
    }
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    tcase_add_loop_test(all, urls_that_are_understood, 0, sizeof(good) / sizeof(good[0]));
    tcase_add_loop_test(all, urls_that_are_refused, 0, sizeof(bad) / sizeof(bad[0]));
    return run_case("redis_address", all);
}
