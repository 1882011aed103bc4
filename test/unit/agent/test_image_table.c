// SPDX-License-Identifier: Apache-2.0
// Whose an image is: meadow's only when it pulled it and nobody else has since; remembered over a
// crash; and which of them goes first.
#include "node-agent/runtime/image_table.h"

#include "common/cleanup.h"
#include "common/json.h"
#include "test/unit/suite.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char dir[64];
static struct image_table t;

static void open_table(void)
{
    struct err e;
    ck_assert_msg(image_table_init(&t, dir, &e) == 0, "%s", e.text);
}

static void reopen(void)
{
    image_table_free(&t);
    open_table();
}

static void setup(void)
{
    (void)snprintf(dir, sizeof(dir), "/tmp/meadow-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    open_table();
}

static void teardown(void)
{
    char command[96];
    image_table_free(&t);
    (void)snprintf(command, sizeof(command), "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

// "a:1=id1 b:1=id2": what the engine lists; each has 100 bytes.
static void listed(const char *text)
{
    char copy[256], *save;
    cleanup_json json_t *list = json_array();
    (void)snprintf(copy, sizeof(copy), "%s", text);
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char *id = strchr(w, '=');
        *id++ = '\0';
        (void)json_array_append_new(list, json_pack("{s:s, s:i, s:[s], s:[s]}", "Id", id, "Size",
                                                    100, "RepoTags", w, "RepoDigests", "x@y"));
    }
    image_table_listed(&t, list);
}

static void pulled(const char *name)
{
    image_table_pull_begun(&t, name);
    image_table_pull_seen(&t, name);
    image_table_pull_ended(&t, name, true);
}

static bool ours(const char *name)
{
    const struct image *i = image_table_find(&t, name);
    return i && i->ours;
}

START_TEST(pulled_for_a_task_is_ours_once_listed)
    {
        pulled("docker.io/library/a");
        ck_assert(!ours("a"));
        reopen(); // a crash before the listing: a person's
        listed("a:latest=1 b:1=2");
        ck_assert(!ours("a") && !ours("b:1"));
        pulled("a");
        listed("a:latest=1 b:1=2");
        ck_assert(ours("a") && !ours("b:1"));
        ck_assert_int_eq(image_table_total(&t), 100);
        reopen();
        ck_assert(ours("a"));
        listed("a:latest=1");
        ck_assert(ours("a:latest"));
    }
END_TEST

START_TEST(a_failed_pull_is_nobodys)
    {
        image_table_pull_begun(&t, "a:1");
        image_table_pull_ended(&t, "a:1", false);
        listed("a:1=1"); // a person brought it
        ck_assert(!ours("a:1"));
    }
END_TEST

START_TEST(what_a_person_pulls_is_theirs)
    {
        pulled("a:1");
        pulled("b:1");
        pulled("c:1");
        listed("a:1=1 b:1=2 c:1=3");
        image_table_pull_seen(&t, "a:1"); // one more than ours
        image_table_loaded(&t, "2");
        ck_assert(!ours("a:1") && !ours("b:1") && ours("c:1"));
        reopen();
        listed("a:1=1 b:1=2 c:1=3");
        ck_assert(!ours("a:1") && !ours("b:1") && ours("c:1"));
    }
END_TEST

START_TEST(pulled_by_both_at_once_is_theirs)
    {
        image_table_pull_begun(&t, "a:1");
        image_table_pull_seen(&t, "a:1");
        image_table_pull_seen(&t, "a:1");
        image_table_pull_ended(&t, "a:1", true);
        listed("a:1=1");
        ck_assert(!ours("a:1"));
        image_table_pull_begun(&t, "b:1"); // two tasks at once: both pulls are ours
        image_table_pull_begun(&t, "b:1");
        image_table_pull_ended(&t, "b:1", true);
        listed("a:1=1 b:1=2"); // before the engine tells of them
        image_table_pull_seen(&t, "b:1");
        image_table_pull_seen(&t, "b:1");
        image_table_pull_ended(&t, "b:1", true);
        listed("a:1=1 b:1=2");
        ck_assert(ours("b:1"));
    }
END_TEST

START_TEST(another_image_of_the_name_is_theirs)
    {
        pulled("a:1");
        listed("a:1=1");
        listed("a:1=9"); // built
        ck_assert(!ours("a:1"));
        listed("a:1=1"); // and tagged back
        ck_assert(!ours("a:1"));
    }
END_TEST

START_TEST(removed_by_a_person_is_forgotten)
    {
        pulled("a:1");
        listed("a:1=1");
        listed("");
        ck_assert_ptr_null(image_table_find(&t, "a:1"));
        reopen();
        listed("a:1=1");
        ck_assert(!ours("a:1"));
    }
END_TEST

START_TEST(the_one_used_longest_ago_goes_first)
    {
        pulled("a:1");
        pulled("b:1");
        listed("a:1=1 b:1=2 c:1=3");
        image_table_find(&t, "a:1")->used_ms = 2000;
        image_table_find(&t, "b:1")->used_ms = 1000;
        ck_assert_ptr_eq(image_table_oldest(&t, 0), image_table_find(&t, "b:1"));
        image_table_find(&t, "b:1")->busy = true;
        ck_assert_ptr_eq(image_table_oldest(&t, 0), image_table_find(&t, "a:1"));
        ck_assert_ptr_null(image_table_oldest(&t, 3600000)); // none that long
        image_table_find(&t, "a:1")->idle_since_ms -= 3600000;
        ck_assert_ptr_eq(image_table_oldest(&t, 3600000), image_table_find(&t, "a:1"));
        image_table_used(&t, "a:1");
        ck_assert_ptr_null(image_table_oldest(&t, 3600000));
        struct image *i = image_table_find(&t, "a:1");
        i->removing = true;
        listed("b:1=2 c:1=3"); // its event came before the answer
        ck_assert_ptr_eq(image_table_find(&t, "a:1"), i);
        image_table_forget(&t, i);
        listed("b:1=2 c:1=3");
        ck_assert_ptr_null(image_table_find(&t, "a:1"));
    }
END_TEST

START_TEST(two_names_of_one_image_count_once)
    {
        pulled("a:1");
        pulled("b:1");
        pulled("c:1");
        listed("a:1=1 b:1=1 c:1=2");
        ck_assert_int_eq(image_table_total(&t), 200);
        ck_assert(image_table_shared(&t, image_table_find(&t, "a:1")));
        ck_assert(!image_table_shared(&t, image_table_find(&t, "c:1")));
        image_table_forget(&t, image_table_find(&t, "a:1"));
        ck_assert_int_eq(image_table_total(&t), 200);
        ck_assert(!image_table_shared(&t, image_table_find(&t, "b:1")));
    }
END_TEST

START_TEST(names_are_told_by_their_use)
    {
        listed("a:1=1 b:1=2 c:1=3 <none>:<none>=4");
        image_table_find(&t, "c:1")->used_ms = 5;
        cleanup_json json_t *names = image_table_names(&t);
        cleanup_free char *text = json_text(names);
        ck_assert_str_eq(text, "[\"c:1\",\"a:1\",\"b:1\",\"x@y\"]");
        cleanup_json json_t *list = json_array();
        for (int i = 0; i < 150; i++)
            (void)json_array_append_new(
                list, json_pack("{s:s, s:[o]}", "Id", "1", "RepoTags", json_sprintf("i%d:1", i)));
        image_table_listed(&t, list);
        image_table_used(&t, "i149:1");
        cleanup_json json_t *some = image_table_names(&t);
        ck_assert_uint_eq(json_array_size(some), 100);
        ck_assert_str_eq(json_string_value(json_array_get(some, 0)), "i149:1");
        ck_assert_str_eq(json_string_value(json_array_get(some, 99)), "i98:1");
    }
END_TEST

START_TEST(a_damaged_file_owns_nothing)
    {
        char path[96];
        (void)snprintf(path, sizeof(path), "%s/images.json", dir);
        FILE *f = fopen(path, "w");
        ck_assert_ptr_nonnull(f);
        ck_assert_int_ge(fputs("{\"pulled\":[{\"name\":\"a:1\",", f), 0);
        ck_assert_int_eq(fclose(f), 0);
        reopen();
        ck_assert_int_lt(access(path, F_OK), 0); // set aside
        listed("a:1=1");
        ck_assert(!ours("a:1"));
    }
END_TEST

int main(void)
{
    TCase *c = tcase_create("image_table");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, pulled_for_a_task_is_ours_once_listed);
    tcase_add_test(c, a_failed_pull_is_nobodys);
    tcase_add_test(c, what_a_person_pulls_is_theirs);
    tcase_add_test(c, pulled_by_both_at_once_is_theirs);
    tcase_add_test(c, another_image_of_the_name_is_theirs);
    tcase_add_test(c, removed_by_a_person_is_forgotten);
    tcase_add_test(c, the_one_used_longest_ago_goes_first);
    tcase_add_test(c, two_names_of_one_image_count_once);
    tcase_add_test(c, names_are_told_by_their_use);
    tcase_add_test(c, a_damaged_file_owns_nothing);
    return run_case("image_table", c);
}
