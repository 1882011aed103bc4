// SPDX-License-Identifier: Apache-2.0
// State files of the agent: read, missing, damaged and set aside.
#include "test/unit/agent/init_util.h"

#include "node-agent/state_file.h"
#include "test/unit/suite.h"

#include <errno.h>
#include <glob.h>
#include <sys/stat.h>

static char top[64], path[128];

static void setup(void)
{
    make_folder(top);
    (void)snprintf(path, sizeof(path), "%s/x.json", top);
}

static void teardown(void)
{
    remove_folder(top);
}

static void put(const char *text)
{
    cleanup_fclose FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    (void)fputs(text, f);
}

static size_t kept(void)
{
    char pattern[160];
    glob_t found = {0};
    (void)snprintf(pattern, sizeof(pattern), "%s.*.damaged", path);
    size_t n = glob(pattern, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
    globfree(&found);
    return n;
}

START_TEST(good_is_read)
    {
        json_t *j = NULL;
        struct err e;
        put("{\"a\": 1}");
        ck_assert_int_eq(state_file_read(path, 100, &j, &e), 0);
        ck_assert_int_eq(json_integer_value(json_object_get(j, "a")), 1);
        json_decref(j);
        ck_assert_uint_eq(kept(), 0);
    }
END_TEST

START_TEST(missing_is_none)
    {
        json_t *j = (json_t *)1;
        struct err e;
        ck_assert_int_eq(state_file_read(path, 100, &j, &e), 0);
        ck_assert_ptr_null(j);
    }
END_TEST

START_TEST(damaged_is_set_aside)
    {
        static const char *const bad[] = {"", "{", "[1]", "\x01\xff", "{\"a\": \"123456789\"}"};
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
            json_t *j = (json_t *)1;
            struct err e;
            size_t before = kept();
            put(bad[i]);
            ck_assert_int_eq(state_file_read(path, 10, &j, &e), 0);
            ck_assert_ptr_null(j);
            ck_assert_int_ne(access(path, F_OK), 0);
            ck_assert_uint_eq(kept(), before + 1);
        }
    }
END_TEST

START_TEST(what_cannot_be_read_is_no_damage)
    {
        json_t *j = NULL;
        struct err e;
        ck_assert_int_eq(mkdir(path, 0700), 0);
        ck_assert_int_lt(state_file_read(path, 100, &j, &e), 0);
        ck_assert_int_eq(access(path, F_OK), 0);
        ck_assert_int_eq(state_file_damaged("/no/such/file", "x", &e), -ENOENT);
    }
END_TEST

int main(void)
{
    TCase *c = tcase_create("state_file");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, good_is_read);
    tcase_add_test(c, missing_is_none);
    tcase_add_test(c, damaged_is_set_aside);
    tcase_add_test(c, what_cannot_be_read_is_no_damage);
    return run_case("state_file", c);
}
