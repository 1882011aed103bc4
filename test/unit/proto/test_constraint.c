// SPDX-License-Identifier: Apache-2.0
// Conditions on labels: what meets them, what is no condition, and several in one text.
#include "proto/constraint.h"

#include "common/cleanup.h"
#include "test/unit/suite.h"

#include <check.h>
#include <string.h>

static const struct {
    const char *text, *value;
    bool expected;
} rows[] = {
    {"a", "a", true},
    {"a", "b", false},
    {"a", NULL, false},
    {"", "", true},
    {"= a*", "a*", true},
    {"= a*", "ab", false},
    {"!= a", "b", true},
    {"!=a", "a", false},
    {"!= a", NULL, true},
    {"in a, b", "b", true},
    {"in a,b", "a", true},
    {"in a, b", "c", false},
    {"in a, b", "a, b", false},
    {"in ab, b", "a", false},
    {"in a", NULL, false},
    {"not in a, b", "c", true},
    {"not in a, b", "b", false},
    {"not in a", NULL, true},
    {"inside", "inside", true},
    {"gpu-*", "gpu-7", true},
    {"gpu-*", "cpu-7", false},
    {"gpu-?", "gpu-77", false},
    {"v[12]", "v2", true},
    {"v[12]", "v3", false},
    {">= 12", "12.0", true},
    {">= 12", "9.5", false},
    {"> 12", "12", false},
    {"<12", "11.99", true},
    {"<= -1", "-1", true},
    {"< 5", "many", false},
    {"< 5", "", false},
    {"< 5", NULL, false},
};

START_TEST(matches)
    {
        ck_assert_ptr_null(constraint_problem(rows[_i].text));
        ck_assert_msg(constraint_match(rows[_i].text, rows[_i].value) == rows[_i].expected,
                      "\"%s\" on \"%s\"", rows[_i].text,
                      rows[_i].value ? rows[_i].value : "(none)");
    }
END_TEST

START_TEST(what_is_no_condition)
    {
        static const char *const none[] = {"!=",   "in ",    "not in ", ">=",   "> a", "< 1x",
                                           "a\nb", "<= nan", "== a",    "=> 5", "=< 5"};
        for (size_t i = 0; i < ARRAY_SIZE(none); i++)
            ck_assert_msg(constraint_problem(none[i]), "\"%s\"", none[i]);
    }
END_TEST

START_TEST(several)
    {
        char label[CONSTRAINT_LABEL_BYTES], text[CONSTRAINT_TEXT_BYTES];
        const char *at = "zone\na\ndisk\n!= hdd\n";
        ck_assert(constraint_next(&at, label, text));
        ck_assert_str_eq(label, "zone");
        ck_assert_str_eq(text, "a");
        ck_assert(constraint_next(&at, label, text));
        ck_assert_str_eq(label, "disk");
        ck_assert_str_eq(text, "!= hdd");
        ck_assert(!constraint_next(&at, label, text));
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("constraint");
    tcase_add_loop_test(t, matches, 0, (int)ARRAY_SIZE(rows));
    tcase_add_test(t, what_is_no_condition);
    tcase_add_test(t, several);
    return run_case("constraint", t);
}
