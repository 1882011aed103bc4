// SPDX-License-Identifier: Apache-2.0
// Reading by tables: values land in the struct, mistakes are collected with path and place, and
// nothing else is touched.
#include "proto/job_reader.h"

#include "common/cleanup.h"
#include "common/json.h"
#include "test/unit/suite.h"

#include <check.h>
#include <stddef.h>
#include <string.h>

struct sample {
    int count;
    bool on;
    int64_t wait_ms;
};

#define AT(member) offsetof(struct sample, member)

static const struct job_field fields[] = {
    {"count", job_read_int, AT(count), 1, 9, NULL},
    {"on", job_read_bool, AT(on), 0, 0, NULL},
    {"wait", job_read_duration, AT(wait_ms), 0, 60000, NULL},
};

struct fixture {
    struct job_problems problems;
    struct job_warnings warnings;
    struct job_reader reader;
    json_t *root;
};

static void start(struct fixture *x, const char *json)
{
    *x = (struct fixture){0};
    ck_assert_int_eq(json_parse(json, strlen(json), &x->root, NULL), 0);
    x->reader = (struct job_reader){.text = json,
                                    .len = strlen(json),
                                    .root = x->root,
                                    .problems = &x->problems,
                                    .warnings = &x->warnings};
}

static void end(struct fixture *x)
{
    job_reader_finish(&x->reader);
    job_problems_free(&x->problems);
    job_warnings_free(&x->warnings);
    json_decref(x->root);
}

START_TEST(values)
    {
        struct fixture x;
        struct sample s = {0};

        start(&x, "{\"count\": 3, \"on\": true, \"wait\": 1.5}");
        job_reader_object(&x.reader, fields, ARRAY_SIZE(fields), x.root, &s, "a mapping");
        ck_assert_int_eq(s.count, 3);
        ck_assert(s.on);
        ck_assert_int_eq(s.wait_ms, 1500);
        ck_assert_uint_eq(x.problems.count, 0);
        end(&x);
    }
END_TEST

START_TEST(mistakes_leave_the_struct_alone)
    {
        struct fixture x;
        struct sample s = {7, true, 5};

        start(&x, "{\"wait\": \"2m\",\n \"on\": 1, \"count\": 10,\n \"cuont\": 1}");
        job_reader_object(&x.reader, fields, ARRAY_SIZE(fields), x.root, &s, "a mapping");
        job_reader_finish(&x.reader);
        ck_assert_int_eq(s.count, 7);
        ck_assert(s.on);
        ck_assert_int_eq(s.wait_ms, 5);
        ck_assert_uint_eq(x.problems.count, 4);
        ck_assert_str_eq(x.problems.items[0].message,
                         "found \"2m\", expected a duration from 0s to 1m, such as 1500ms, 10s, 5m "
                         "or 1h30m");
        ck_assert_int_eq(x.problems.items[1].line, 2);
        ck_assert_str_eq(x.problems.items[2].message,
                         "found 10, expected a whole number from 1 to 9");
        ck_assert_str_eq(x.problems.items[3].message,
                         "unknown key \"cuont\": did you mean \"count\"?");
        end(&x);
    }
END_TEST

START_TEST(paths)
    {
        struct fixture x;
        const json_t *list;

        start(&x, "{\"a\": [1,\n {\"b\": null}]}");
        list = json_object_get(x.root, "a");
        job_reader_push_key(&x.reader, x.root, "a");
        job_reader_push_index(&x.reader, list, 1);
        job_reader_push_key(&x.reader, json_array_get(list, 1), "b");
        job_reader_problem(&x.reader, json_null(), "null has its key's place");
        job_reader_warn(&x.reader, "number %d", 5);
        job_reader_pop(&x.reader);
        job_reader_pop(&x.reader);
        job_reader_pop(&x.reader);
        ck_assert_str_eq(x.problems.items[0].path, "a[1].b");
        ck_assert_int_eq(x.problems.items[0].line, 2);
        ck_assert_int_eq(x.problems.items[0].column, 3);
        ck_assert_str_eq(x.warnings.items[0], "a[1].b: number 5");
        end(&x);
    }
END_TEST

int main(void)
{
    TCase *c = tcase_create("job_reader");
    tcase_add_test(c, values);
    tcase_add_test(c, mistakes_leave_the_struct_alone);
    tcase_add_test(c, paths);
    return run_case("job_reader", c);
}
