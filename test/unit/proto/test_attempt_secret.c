// SPDX-License-Identifier: Apache-2.0
// Secrets of an attempt on the wire, and where their values must not be.
#include "proto/attempt_secret.h"

#include "common/cleanup.h"
#include "common/json.h"
#include "test/unit/suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

START_TEST(test_values_travel_only_in_the_assignment)
    {
        struct attempt_secret list[] = {
            {.name = (char *)"a", .path = (char *)"/etc/a", .value = (char *)"va\0ue", .len = 5},
            {.name = (char *)"gone"}};
        struct attempt_secret *back = NULL;
        size_t n = 0;
        struct err e;
        cleanup_json json_t *wire = attempt_secrets_to_json(list, 2, true);
        cleanup_json json_t *claim = attempt_secrets_to_json(list, 2, false);
        ck_assert_int_eq(attempt_secrets_from_json(wire, &back, &n, &e), 0);
        ck_assert_uint_eq(n, 2);
        ck_assert_str_eq(back[0].path, "/etc/a");
        ck_assert_uint_eq(back[0].len, 5);
        ck_assert_mem_eq(back[0].value, "va\0ue", 5);
        ck_assert_ptr_null(back[1].value);
        attempt_secrets_free(back, n);
        ck_assert_ptr_null(json_object_get(json_array_get(claim, 0), "value"));
    }
END_TEST

START_TEST(test_bad_ones)
    {
        static const char *const bad[] = {"{}",
                                          "[1]",
                                          "[{\"value\":\"YQ==\"}]",
                                          "[{\"name\":\"../x\"}]",
                                          "[{\"name\":\"a/b\"}]",
                                          "[{\"name\":\".a\"}]",
                                          "[{\"name\":\"\"}]",
                                          "[{\"name\":\"a\",\"value\":\"YQ\"}]"};
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
            struct attempt_secret *back = NULL;
            size_t n = 0;
            struct err e;
            cleanup_json json_t *j = NULL;
            ck_assert_int_eq(json_parse(bad[i], strlen(bad[i]), &j, &e), 0);
            ck_assert_msg(attempt_secrets_from_json(j, &back, &n, &e) == -EPROTO, "%s", bad[i]);
            attempt_secrets_free(back, n);
        }
    }
END_TEST

START_TEST(test_base64)
    {
        static const char *const values[] = {"", "a", "ab", "abc", "abcd"};
        for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
            cleanup_free char *text = secret_encode(values[i], strlen(values[i]));
            cleanup_free char *value = NULL;
            size_t len = 99;
            ck_assert_int_eq(secret_decode(text, &value, &len), 0);
            ck_assert_uint_eq(len, strlen(values[i]));
            ck_assert_str_eq(value, values[i]);
        }
        cleanup_free char *large = calloc(1, 2 * SECRET_MAX_BYTES + 1);
        char *value = NULL;
        size_t len;
        memset(large, 'A', 2 * (size_t)SECRET_MAX_BYTES);
        ck_assert_int_eq(secret_decode(large, &value, &len), -EFBIG);
        ck_assert_int_eq(secret_decode("====", &value, &len), -EPROTO);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("codec");
    tcase_add_test(t, test_values_travel_only_in_the_assignment);
    tcase_add_test(t, test_bad_ones);
    tcase_add_test(t, test_base64);
    return run_case("attempt_secret", t);
}
