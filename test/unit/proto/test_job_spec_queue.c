// SPDX-License-Identifier: Apache-2.0
// What a job file says about the queue: forms that are good, what they mean, and what is refused.
#include "proto/job_spec.h"

#include "common/cleanup.h"
#include "test/unit/suite.h"

#include <check.h>
#include <string.h>

// The file with this line; NULL = refused, with `problems` filled.
static struct job_spec *parse(const char *line, struct job_problems *problems)
{
    char text[2000];
    struct job_spec *spec = NULL, *again = NULL;
    struct job_warnings warnings = {0};
    struct err e = {""};
    (void)snprintf(text, sizeof(text), "%s%s\ncomponents: {a: {command: x}}\n",
                   strncmp(line, "name", 4) == 0 ? "" : "name: x\n", line);
    int r = job_spec_parse(text, strlen(text), "yaml", NULL, &spec, problems, &warnings, &e);
    job_warnings_free(&warnings);
    if (r < 0) {
        ck_assert_int_eq(r, -EINVAL);
        return NULL;
    }
    cleanup_json json_t *json = job_spec_to_json(spec);
    ck_assert_msg(job_spec_from_json(json, &again, &e) == 0, "%s", e.text);
    cleanup_json json_t *back = job_spec_to_json(again);
    ck_assert(json_equal(json, back));
    job_spec_free(again);
    return spec;
}

static struct job_spec *good(const char *line)
{
    struct job_problems problems = {0};
    struct job_spec *spec = parse(line, &problems);
    ck_assert_msg(spec != NULL, "%s: %s", line, problems.count ? problems.items[0].message : "?");
    return spec;
}

static void bad(const char *line, const char *path, const char *says)
{
    struct job_problems problems = {0};
    ck_assert_msg(!parse(line, &problems), "%s is accepted", line);
    ck_assert_str_eq(problems.items[0].path, path);
    ck_assert_msg(strstr(problems.items[0].message, says) != NULL, "%s: %s", line,
                  problems.items[0].message);
    job_problems_free(&problems);
}

START_TEST(after)
    {
        struct job_spec *s = good("after: other");
        ck_assert_uint_eq(s->n_after, 1);
        ck_assert_str_eq(s->after[0].job, "other");
        ck_assert_int_eq(s->after[0].when, AFTER_OK);
        job_spec_free(s);
        s = good("after: [a, {job: b, when: any}, {when: failed, job: jmfrggzdfmztw}, 7]");
        ck_assert_uint_eq(s->n_after, 4);
        ck_assert_int_eq(s->after[0].when, AFTER_OK);
        ck_assert_int_eq(s->after[1].when, AFTER_ANY);
        ck_assert_int_eq(s->after[2].when, AFTER_FAILED);
        ck_assert_str_eq(s->after[2].job, "jmfrggzdfmztw");
        ck_assert_str_eq(s->after[3].job, "7");
        job_spec_free(s);
        bad("after:", "after", "expected a job");
        bad("after: []", "after", "expected a job");
        bad("after: [a, a]", "after[1]", "twice");
        bad("after: [a, {job: a, when: any}]", "after[1]", "twice");
        bad("after: {when: ok}", "after", "`job` is missing");
        bad("after: {job: a, when: never}", "after.when", "ok, any or failed");
        bad("after: {job: a, whem: ok}", "after.whem", "did you mean \"when\"");
        bad("after: 'a b'", "after", "the name or the id");
        bad("after: [[a]]", "after[0]", "the name or the id");
    }
END_TEST

START_TEST(limits)
    {
        struct job_spec *s = good("wait_limit: 2h");
        ck_assert_int_eq(s->wait_limit_ms, 7200000);
        job_spec_free(s);
        s = good("deadline: 90m");
        ck_assert_int_eq(s->deadline_ms, 5400000);
        ck_assert(!s->deadline_fixed);
        job_spec_free(s);
        s = good("deadline: 2033-05-18T03:33:20Z");
        ck_assert_int_eq(s->deadline_ms, INT64_C(2000000000000));
        ck_assert(s->deadline_fixed);
        job_spec_free(s);
        bad("deadline: 0s", "deadline", "a duration from 1ms");
        bad("deadline: tomorrow", "deadline", "a duration from 1ms");
        bad("deadline: 2033-05-18T03", "deadline", "a time such as");
        bad("wait_limit: true", "wait_limit", "a duration from 1ms");
    }
END_TEST

START_TEST(array)
    {
        struct job_spec *s = good("array: 1-1000%50");
        ck_assert_int_eq(s->array.count, 1000);
        ck_assert_int_eq(s->array.limit, 50);
        job_spec_free(s);
        s = good("array: 7");
        ck_assert_int_eq(s->array.count, 1);
        job_spec_free(s);
        s = good("preemptible: true");
        ck_assert(s->preemptible);
        job_spec_free(s);
        bad("preemptible: maybe", "preemptible", "true or false");
        bad("array: {n: 3}", "array", "expected indices");
        bad("array:", "array", "expected indices");
        bad("array: true", "array", "expected indices");
        bad("array: 3,1", "array", "ascending");
        bad("array: 1.5", "array", "expected indices");
        bad("name: jmfrggzdfmztw_7", "name", "looks like the id of an array's element");
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("job_spec_queue");
    tcase_add_test(t, after);
    tcase_add_test(t, array);
    tcase_add_test(t, limits);
    return run_case("job_spec_queue", t);
}
