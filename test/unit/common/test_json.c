// SPDX-License-Identifier: Apache-2.0
// JSON helpers: texts of errors, required and optional members, setters, the dump.
#include "common/json.h"

#include "common/cleanup.h"
#include "test/unit/suite.h"

#include <string.h>

static json_t *parsed(const char *text)
{
    json_t *j = NULL;
    struct err e;

    ck_assert_msg(json_parse(text, strlen(text), &j, &e) == 0, "%s", e.text);
    return j;
}

START_TEST(parse_errors_have_a_place)
    {
        const char *const bad[] = {"",    "{", "{\"a\":1,\"a\":2}", "[1,]", "{\"a\":\"\\ud800\"}",
                                   "[] x"};
        json_t *j = NULL;
        struct err e;

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
            ck_assert_int_eq(json_parse(bad[i], strlen(bad[i]), &j, &e), -EPROTO);
            ck_assert_msg(strncmp(e.text, "line ", 5) == 0, "%s", e.text);
        }
        ck_assert_int_eq(json_parse(NULL, 0, &j, NULL), -EPROTO);
        ck_assert_ptr_null(j);
    }
END_TEST

START_TEST(deep_input_is_refused)
    {
        static char deep[100000];
        json_t *j = NULL;

        memset(deep, '[', sizeof(deep));
        ck_assert_int_eq(json_parse(deep, sizeof(deep), &j, NULL), -EPROTO);
    }
END_TEST

START_TEST(required_members)
    {
        cleanup_json json_t *j = parsed("{\"s\":\"x\",\"i\":7,\"b\":true,\"a\":[1],\"o\":{}}");
        const char *s;
        int64_t i;
        bool b;
        json_t *v;
        struct err e;

        ck_assert_int_eq(json_get_str(j, "s", &s, &e), 0);
        ck_assert_str_eq(s, "x");
        ck_assert_int_eq(json_get_i64(j, "i", &i, &e), 0);
        ck_assert_int_eq(i, 7);
        ck_assert_int_eq(json_get_bool(j, "b", &b, &e), 0);
        ck_assert(b);
        ck_assert_int_eq(json_get_array(j, "a", &v, &e), 0);
        ck_assert_uint_eq(json_array_size(v), 1);
        ck_assert_int_eq(json_get_object(j, "o", &v, &e), 0);
        ck_assert_int_eq(json_get_str(j, "none", &s, &e), -EPROTO);
        ck_assert_str_eq(e.text, "member \"none\": expected a string");
        ck_assert_int_eq(json_get_i64(j, "s", &i, &e), -EPROTO);
        ck_assert_int_eq(json_get_bool(j, "i", &b, &e), -EPROTO);
        ck_assert_int_eq(json_get_array(j, "o", &v, &e), -EPROTO);
        ck_assert_int_eq(json_get_object(j, "a", &v, &e), -EPROTO);
        ck_assert_int_eq(json_get_str(NULL, "x", &s, &e), -EPROTO);
    }
END_TEST

START_TEST(optional_members)
    {
        cleanup_json json_t *j =
            parsed("{\"s\":\"x\",\"i\":7,\"b\":true,\"t\":\"2026-01-02T03:04:05Z\"}");

        ck_assert_str_eq(json_opt_str(j, "s", "d"), "x");
        ck_assert_str_eq(json_opt_str(j, "i", "d"), "d");
        ck_assert_int_eq(json_opt_i64(j, "i", 1), 7);
        ck_assert_int_eq(json_opt_i64(j, "s", 1), 1);
        ck_assert(json_opt_bool(j, "b", false));
        ck_assert(json_opt_bool(j, "none", true));
        ck_assert_int_eq(json_opt_time(j, "t"), 1767323045000);
        ck_assert_int_eq(json_opt_time(j, "none"), 0);
        ck_assert_int_eq(json_opt_time(j, "s"), 0);
    }
END_TEST

START_TEST(setters_and_text)
    {
        cleanup_json json_t *j = json_object();

        json_put_str(j, "z", "x");
        json_put_str(j, "n", NULL);
        json_put_i64(j, "i", -3);
        json_put_bool(j, "b", false);
        json_put(j, "a", json_array());
        json_put_time(j, "t", 1767323045678);
        json_put_time(j, "t0", 0);
        cleanup_free char *text = json_text(j);
        ck_assert_str_eq(text, "{\"z\":\"x\",\"n\":null,\"i\":-3,\"b\":false,\"a\":[],"
                               "\"t\":\"2026-01-02T03:04:05.678Z\",\"t0\":null}");
    }
END_TEST

RUN_SUITE("json", 10, parse_errors_have_a_place, deep_input_is_refused, required_members,
          optional_members, setters_and_text)
