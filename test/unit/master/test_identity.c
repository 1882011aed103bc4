// SPDX-License-Identifier: Apache-2.0
// The cluster's identity: made once, the same at the next start, refused when half of it is gone.
#include "master/identity.h"

#include "common/atomic_file.h"
#include "test/unit/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];

static void setup(void)
{
    (void)snprintf(dir, sizeof(dir), "/tmp/meadow-identity-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
    struct err e;
    ck_assert_int_eq(remove_tree(dir, &e), 0);
}

START_TEST(test_stays_the_same)
    {
        struct identity a, b;
        struct err e = {""};
        struct stat st;
        char path[128];
        ck_assert_msg(identity_open(dir, &a, &e) == 0, "%s", e.text);
        ck_assert_msg(identity_open(dir, &b, &e) == 0, "%s", e.text);
        ck_assert_str_eq(a.id, b.id);
        ck_assert_str_eq(a.ca_cert, b.ca_cert);
        ck_assert_str_eq(a.server_key, b.server_key);
        (void)snprintf(path, sizeof(path), "%s/identity/ca.key", dir);
        ck_assert_int_eq(stat(path, &st), 0);
        ck_assert_int_eq(st.st_mode & 0777, 0600);
        identity_free(&a);
        identity_free(&b);
    }
END_TEST

static const char *const parts[] = {"ca.pem", "ca.key"};

START_TEST(test_half_of_it_is_refused)
    {
        struct identity a;
        struct err e = {""};
        char path[128];
        ck_assert_int_eq(identity_open(dir, &a, &e), 0);
        identity_free(&a);
        (void)snprintf(path, sizeof(path), "%s/identity/%s", dir, parts[_i]);
        ck_assert_int_eq(unlink(path), 0);
        ck_assert_int_eq(identity_open(dir, &a, &e), -EPROTO);
        ck_assert_ptr_nonnull(strstr(e.text, parts[_i]));
        ck_assert_ptr_nonnull(strstr(e.text, "backup"));
    }
END_TEST

START_TEST(test_a_servers_key_that_was_removed_is_made_anew)
    {
        struct identity a, b, c;
        struct err e = {""};
        char path[128];
        ck_assert_int_eq(identity_open(dir, &a, &e), 0);
        (void)snprintf(path, sizeof(path), "%s/identity/server.key", dir);
        ck_assert_int_eq(unlink(path), 0);
        ck_assert_int_eq(identity_open(dir, &b, &e), 0);
        ck_assert_int_eq(identity_open(dir, &c, &e), 0);
        ck_assert_str_ne(a.server_key, b.server_key);
        ck_assert_str_eq(b.server_key, c.server_key);
        ck_assert_str_eq(a.ca_cert, b.ca_cert);
        identity_free(&a);
        identity_free(&b);
        identity_free(&c);
    }
END_TEST

START_TEST(test_interrupted_first_start_begins_anew)
    {
        struct identity a, b;
        struct err e = {""};
        char path[128];
        ck_assert_int_eq(identity_open(dir, &a, &e), 0);
        (void)snprintf(path, sizeof(path), "%s/identity/cluster-id",
                       dir); // the last thing that is written
        ck_assert_int_eq(unlink(path), 0);
        ck_assert_int_eq(identity_open(dir, &b, &e), 0);
        ck_assert_str_ne(a.id, b.id);
        identity_free(&a);
        identity_free(&b);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("files");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, test_stays_the_same);
    tcase_add_loop_test(t, test_half_of_it_is_refused, 0, 2);
    tcase_add_test(t, test_a_servers_key_that_was_removed_is_made_anew);
    tcase_add_test(t, test_interrupted_first_start_begins_anew);
    return run_case("identity", t);
}
