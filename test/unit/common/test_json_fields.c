// SPDX-License-Identifier: Apache-2.0
// Each type of member there and back, and what is refused.
#include "common/json_fields.h"

#include "common/cleanup.h"
#include "test/unit/suite.h"

#include <stdlib.h>
#include <string.h>

struct all {
    char chars[4];
    char *text, *optional;
    int number;
    int64_t wide;
    bool flag;
};

#define FIELD(kind, member, least, most) JSON_FIELD(struct all, kind, member, least, most)

static const struct json_field fields[] = {
    FIELD(CHARS, chars, 0, 4),   FIELD(TEXT, text, 0, 0),        FIELD(OPT_TEXT, optional, 0, 0),
    FIELD(INT, number, -5, 100), FIELD(I64, wide, 0, INT64_MAX), FIELD(FLAG, flag, 0, 0),
};

static int parse(const char *text, struct all *ret, struct err *e)
{
    cleanup_json json_t *j = NULL;
    ck_assert_int_eq(json_parse(text, strlen(text), &j, e), 0);
    return json_get_fields(j, fields, ARRAY_SIZE(fields), ret, e);
}

static void reset(struct all *a)
{
    free(a->text);
    free(a->optional);
    *a = (struct all){0};
}

START_TEST(there_and_back)
    {
        struct all out = {"abc", (char *)"t", NULL, -5, INT64_MAX, true}, in = {0};
        struct err e = {""};
        cleanup_json json_t *j = json_object();
        json_put_fields(j, fields, ARRAY_SIZE(fields), &out);
        cleanup_free char *text = json_text(j);
        ck_assert_str_eq(text, "{\"chars\":\"abc\",\"text\":\"t\",\"optional\":null,\"number\":-5,"
                               "\"wide\":9223372036854775807,\"flag\":true}");
        ck_assert_msg(parse(text, &in, &e) == 0, "%s", e.text);
        ck_assert_str_eq(in.chars, "abc");
        ck_assert_str_eq(in.text, "t");
        ck_assert_ptr_null(in.optional);
        ck_assert_int_eq(in.number, -5);
        ck_assert_int_eq(in.wide, INT64_MAX);
        ck_assert(in.flag);
        reset(&in);
        ck_assert_int_eq(parse("{\"chars\":\"\",\"text\":\"\",\"optional\":\"o\",\"number\":100,"
                               "\"wide\":0}",
                               &in, &e),
                         0);
        ck_assert_str_eq(in.optional, "o");
        ck_assert(!in.flag);
        reset(&in);
    }
END_TEST

static const struct {
    const char *text, *says;
} wrong[] = {
    {"{}", "member \"chars\": expected a string"},
    {"{\"chars\":\"abcd\"}", "member \"chars\": is too long"},
    {"{\"chars\":\"\",\"text\":null}", "member \"text\": expected a string"},
    {"{\"chars\":\"\",\"text\":\"\",\"number\":\"1\"}", "member \"number\": expected an integer"},
    {"{\"chars\":\"\",\"text\":\"\",\"number\":-6}", "member \"number\": -6 is out of range"},
    {"{\"chars\":\"\",\"text\":\"\",\"number\":101}", "member \"number\": 101 is out of range"},
    {"{\"chars\":\"\",\"text\":\"\",\"number\":4294967296}",
     "member \"number\": 4294967296 is out"},
    {"{\"chars\":\"\",\"text\":\"\",\"number\":1,\"wide\":-1}", "member \"wide\": -1 is out of"},
};

START_TEST(refusals)
    {
        struct all in = {0};
        struct err e = {""};
        ck_assert_int_eq(parse(wrong[_i].text, &in, &e), -EPROTO);
        ck_assert_msg(strstr(e.text, wrong[_i].says) != NULL, "%s", e.text);
        reset(&in);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("json_fields");
    tcase_add_test(t, there_and_back);
    tcase_add_loop_test(t, refusals, 0, (int)ARRAY_SIZE(wrong));
    return run_case("json_fields", t);
}
