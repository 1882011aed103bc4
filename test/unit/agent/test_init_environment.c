// SPDX-License-Identifier: Apache-2.0
// The command's environment from a file.
#include "node-agent/init/environment.h"

#include "common/atomic_file.h"
#include "test/unit/suite.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];

static int reading(const char *text, size_t len)
{
    struct err e;
    (void)snprintf(path, sizeof(path), "/tmp/meadow-env-%d", (int)getpid());
    ck_assert_int_eq(atomic_file_write(path, text, len, 0600, &e), 0);
    int r = environment_read(path);
    (void)unlink(path);
    return r;
}

START_TEST(test_replaces_ours)
    {
        ck_assert_int_eq(setenv("MEADOW_TEST_OURS", "1", 1), 0);
        ck_assert_int_eq(reading("A=1\0LINES=a\nb\0EMPTY=\0", 21), 0);
        ck_assert_str_eq(getenv("A"), "1");
        ck_assert_str_eq(getenv("LINES"), "a\nb");
        ck_assert_str_eq(getenv("EMPTY"), "");
        ck_assert_ptr_null(getenv("MEADOW_TEST_OURS"));
        ck_assert_int_eq(access(path, F_OK), -1);
    }
END_TEST

START_TEST(test_bad_files)
    {
        ck_assert_int_lt(reading("", 0), 0);
        ck_assert_int_lt(reading("A=1", 3), 0); // cut
        ck_assert_int_lt(environment_read("/no/such/file"), 0);
        ck_assert_int_lt(environment_read("/dev/null"), 0);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("environment");
    tcase_add_test(t, test_replaces_ours);
    tcase_add_test(t, test_bad_files);
    return run_case("init_environment", t);
}
