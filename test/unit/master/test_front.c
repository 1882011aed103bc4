// SPDX-License-Identifier: Apache-2.0
// From the configuration to the limits of the HTTP front.
#include "master/front.h"

#include "master/api/limits.h"
#include "test/unit/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void load(const char *text, struct master_config *c)
{
    struct err e = {""};
    char path[] = "/tmp/meadow-front-XXXXXX";
    int fd = mkstemp(path);
    FILE *f = fdopen(fd, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
    int r = master_config_load(path, c, &e);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_msg(r == 0, "%s", e.text);
}

START_TEST(options_follow_the_configuration)
    {
        struct master_config c;
        struct http_server_options o;
        struct api a = {0};

        load("limits: {header_timeout: 3s, body_timeout: 5s, idle_timeout: 7s}\n", &c);
        front_options(&c, NULL, &a, &o);
        ck_assert_uint_eq(o.header_timeout_ms, 3000);
        ck_assert_uint_eq(o.body_timeout_ms, 5000);
        ck_assert_uint_eq(o.idle_timeout_ms, 7000);
        ck_assert_ptr_eq(o.userdata, &a);
        master_config_free(&c);
    }
END_TEST

START_TEST(limits_start_at_zero)
    {
        struct master_config c;
        struct limits *l = NULL;
        struct err e = {""};

        load("limits: {address_rate: 0}\n", &c);
        ck_assert_int_eq(front_limits(&c, &l, &e), 0);
        ck_assert_uint_eq(limits_counts(l).by_address, 0);
        ck_assert_uint_eq(limits_counts(NULL).by_identity, 0);
        limits_free(l);
        limits_free(NULL);
        master_config_free(&c);
    }
END_TEST

int main(void)
{
    TCase *tc = tcase_create("front");
    tcase_add_test(tc, options_follow_the_configuration);
    tcase_add_test(tc, limits_start_at_zero);
    return run_case("front", tc);
}
