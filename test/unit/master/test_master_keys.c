// SPDX-License-Identifier: Apache-2.0
// The master's keys: made once, kept in files that only the owner reads, two at a time.
#include "master/master_keys.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "test/unit/suite.h"

#include <check.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char dir[64];

static void setup(void)
{
    struct err e = {""};
    char identity[96];
    (void)snprintf(dir, sizeof(dir), "/tmp/mkeys-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    (void)snprintf(identity, sizeof(identity), "%s/identity", dir);
    ck_assert_int_eq(make_dirs(identity, 0700, &e), 0);
}

static void teardown(void)
{
    ck_assert_int_eq(remove_tree(dir, NULL), 0);
}

static struct master_keys *opened(void)
{
    struct err e = {""};
    struct master_keys *m = NULL;
    ck_assert_msg(master_keys_open(dir, &m, &e) == 0, "%s", e.text);
    return m;
}

static void rotate(struct master_keys *m)
{
    struct err e = {""};
    struct jwk *key = NULL;
    ck_assert_int_eq(jwk_generate(JWK_RSA, MASTER_KEY_BITS, &key, &e), 0);
    ck_assert_msg(master_keys_rotate(m, key, &e) == 0, "%s", e.text);
}

START_TEST(made_once)
    {
        struct stat st;
        char first[JWK_THUMBPRINT_BYTES], path[96];
        struct master_keys *m = opened();
        (void)snprintf(first, sizeof(first), "%s", master_keys_thumbprint(m));
        ck_assert_uint_eq(strlen(first), JWK_THUMBPRINT_BYTES - 1);
        (void)snprintf(path, sizeof(path), "%s/identity/sealed.key", dir);
        ck_assert_int_eq(stat(path, &st), 0);
        ck_assert_uint_eq(st.st_mode & 0777, 0600);
        master_keys_free(m);
        m = opened();
        ck_assert_str_eq(first, master_keys_thumbprint(m));
        struct jwk *key = master_keys_find(m, first);
        ck_assert(key && jwk_is_private(key));
        jwk_free(key);
        ck_assert_ptr_null(master_keys_find(m, "other"));
        ck_assert_ptr_null(master_keys_find(m, ""));
        master_keys_free(m);
    }
END_TEST

START_TEST(rotated)
    {
        struct err e = {""};
        char names[3][JWK_THUMBPRINT_BYTES];
        struct master_key_info info;
        struct master_keys *m = opened();
        ck_assert_int_eq(master_keys_info(m, true, &info, &e), 0);
        ck_assert_str_eq(info.thumbprint, "");
        for (int i = 0; i < 3; i++) {
            (void)snprintf(names[i], sizeof(names[i]), "%s", master_keys_thumbprint(m));
            if (i < 2)
                rotate(m);
        }
        master_keys_free(m);
        m = opened();
        ck_assert_str_eq(master_keys_thumbprint(m), names[2]);
        ck_assert_int_eq(master_keys_info(m, true, &info, &e), 0);
        ck_assert_str_eq(info.thumbprint, names[1]);
        ck_assert_uint_eq(info.bits, MASTER_KEY_BITS);
        ck_assert_ptr_nonnull(strstr(info.pem, "BEGIN PUBLIC KEY"));
        ck_assert_ptr_null(json_object_get(info.jwk, "d"));
        master_key_info_reset(&info);
        ck_assert_ptr_null(master_keys_find(m, names[0])); // the one before that is gone
        struct jwk *previous = master_keys_find(m, names[1]);
        ck_assert_ptr_nonnull(previous);
        jwk_free(previous);
        master_keys_free(m);
    }
END_TEST

START_TEST(damaged_file)
    {
        struct err e = {""};
        char path[96];
        struct master_keys *m = NULL;
        (void)snprintf(path, sizeof(path), "%s/identity/sealed.key", dir);
        ck_assert_int_eq(atomic_file_write(path, "nonsense", 8, 0600, &e), 0);
        ck_assert_msg(master_keys_open(dir, &m, &e) == 0, "%s", e.text); // a new one is made
        master_keys_free(m);
        glob_t found = {0};
        (void)snprintf(path, sizeof(path), "%s/identity/sealed.key.*.damaged", dir);
        ck_assert_int_eq(glob(path, 0, NULL, &found), 0);
        ck_assert_uint_eq(found.gl_pathc, 1);
        cleanup_free char *text = NULL;
        ck_assert_int_eq(atomic_file_read(found.gl_pathv[0], 100, &text, NULL, &e), 0);
        ck_assert_str_eq(text, "nonsense");
        globfree(&found);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("master_keys");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, made_once);
    tcase_add_test(t, rotated);
    tcase_add_test(t, damaged_file);
    return run_case("master_keys", t);
}
