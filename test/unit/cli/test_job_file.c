// SPDX-License-Identifier: Apache-2.0
// --set on job files: paths, values, and what must not change on the way through JSON.
#include "cli/job_file.h"

#include "common/cleanup.h"
#include "test/unit/suite.h"

#include <check.h>
#include <string.h>

static const char file[] = "name: x\n"
                           "components:\n"
                           "  actor:\n"
                           "    command: run\n"
                           "    num: 2\n"
                           "    env: {VERSION: 1.10, MODE: 010, ANSWER: no}\n"
                           "    resources: {cpu: 0.50}\n"
                           "    mounts: [{target: /a}, {target: /b}]\n"
                           "  a.b: {num: 1}\n";
static struct err e;

static json_t *load(void)
{
    json_t *j = NULL;
    ck_assert_msg(job_file_parse(file, strlen(file), false, &j, &e) == 0, "%s", e.text);
    return j;
}

static const struct {
    const char *set, *path[6], *json;
} good[] = {
    {"name=other", {"name"}, "\"other\""},
    {"components.actor.num=4", {"components", "actor", "num"}, "4"},
    {"components.actor.resources.cpu=2.50",
     {"components", "actor", "resources", "cpu"},
     "\"2.50\""},
    {"components.actor.stop.grace=5s", {"components", "actor", "stop", "grace"}, "\"5s\""},
    {"components.a.b.num=3", {"components", "a.b", "num"}, "3"},
    {"components.actor.env.X=a=b c", {"components", "actor", "env", "X"}, "\"a=b c\""},
    {"components.actor.env.X=", {"components", "actor", "env", "X"}, "\"\""},
    {"components.actor.command=[python3, -c, \"x: y\"]",
     {"components", "actor", "command"},
     "[\"python3\", \"-c\", \"x: y\"]"},
    {"components.actor.command=echo: {unbalanced",
     {"components", "actor", "command"},
     "\"echo: {unbalanced\""},
    {"tags={a: 1}", {"tags"}, "{\"a\": 1}"},
};

START_TEST(values_are_set)
    {
        cleanup_json json_t *job = load();
        ck_assert_msg(job_file_set(job, good[_i].set, &e) == 0, "%s", e.text);
        const json_t *v = job;
        for (const char *const *p = good[_i].path; *p; p++)
            v = json_object_get(v, *p);
        cleanup_json json_t *want = json_loads(good[_i].json, JSON_DECODE_ANY, NULL);
        ck_assert_ptr_nonnull(want);
        ck_assert_msg(json_equal(v, want), "%s", good[_i].set);
    }
END_TEST

START_TEST(lists_are_reached_by_index)
    {
        cleanup_json json_t *job = load();
        ck_assert_int_eq(job_file_set(job, "components.actor.mounts.1.target=/c", &e), 0);
        const json_t *mounts =
            json_object_get(json_object_get(json_object_get(job, "components"), "actor"), "mounts");
        ck_assert_str_eq(json_string_value(json_object_get(json_array_get(mounts, 1), "target")),
                         "/c");
        ck_assert_int_eq(job_file_set(job, "components.actor.mounts.7.target=/c", &e), -EINVAL);
        ck_assert_int_eq(job_file_set(job, "components.actor.mounts.x=/c", &e), -EINVAL);
    }
END_TEST

START_TEST(wrong_paths_are_refused)
    {
        static const char *const bad[] = {
            "", "name", "=x", "name.deeper=1", "components..x=1", "components.actor.num.x=1"};
        cleanup_json json_t *job = load();
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
            ck_assert_msg(job_file_set(job, bad[i], &e) == -EINVAL, "%s", bad[i]);
    }
END_TEST

START_TEST(what_was_written_stays)
    {
        cleanup_json json_t *job = load();
        const json_t *actor = json_object_get(json_object_get(job, "components"), "actor");
        const json_t *env = json_object_get(actor, "env");
        ck_assert_str_eq(json_string_value(json_object_get(env, "VERSION")), "1.10");
        ck_assert_str_eq(json_string_value(json_object_get(env, "MODE")), "010");
        ck_assert_str_eq(json_string_value(json_object_get(env, "ANSWER")), "no");
        ck_assert_str_eq(
            json_string_value(json_object_get(json_object_get(actor, "resources"), "cpu")), "0.50");
        ck_assert_int_eq(json_integer_value(json_object_get(actor, "num")), 2);
    }
END_TEST

START_TEST(formats_are_told_apart)
    {
        ck_assert(job_file_is_json("x.json", "a: 1"));
        ck_assert(!job_file_is_json("x.yml", "{a: 1}"));
        ck_assert(job_file_is_json("-", " \n{\"a\": 1}"));
        ck_assert(!job_file_is_json("-", "a: 1"));
    }
END_TEST

START_TEST(files_that_cannot_be_read_are_told)
    {
        char *text = NULL;
        size_t len;
        ck_assert_int_eq(job_file_read("/nonexistent", &text, &len, &e), -ENOENT);
        ck_assert_int_eq(job_file_read("/tmp", &text, &len, &e), -EISDIR);
        ck_assert_int_eq(job_file_read("/dev/zero", &text, &len, &e), -EFBIG);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("job_file");
    tcase_add_loop_test(t, values_are_set, 0, sizeof(good) / sizeof(good[0]));
    tcase_add_test(t, lists_are_reached_by_index);
    tcase_add_test(t, wrong_paths_are_refused);
    tcase_add_test(t, what_was_written_stays);
    tcase_add_test(t, formats_are_told_apart);
    tcase_add_test(t, files_that_cannot_be_read_are_told);
    return run_case("job_file", t);
}
