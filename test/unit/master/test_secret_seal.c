// SPDX-License-Identifier: Apache-2.0
// Secrets at rest: what is sealed opens under its own name and key alone.
#include "master/cluster/secret_seal.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "test/unit/suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char top[64], path[100];
static struct seal_keys keys;

static void setup(void)
{
    struct err e;
    (void)strcpy(top, "/tmp/meadow-seal-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(top));
    (void)snprintf(path, sizeof(path), "%s/secrets.key", top);
    ck_assert_int_eq(seal_keys_load(top, &keys, &e), 0);
}

static void teardown(void)
{
    struct err e;
    ck_assert_int_eq(remove_tree(top, &e), 0);
}

static char *sealed(const char *name, const char *value)
{
    struct err e;
    char *text = NULL;
    ck_assert_int_eq(secret_seal(&keys, name, value, strlen(value), &text, &e), 0);
    return text;
}

static int open_as(const char *name, const char *text, char **ret)
{
    struct err e;
    size_t len = 0;
    return secret_unseal(&keys, name, text, ret, &len, &e);
}

START_TEST(test_round_trip)
    {
        static const char *const values[] = {"", "a", "ab", "abc", "a longer value"};
        for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
            cleanup_free char *text = sealed("secret:u/n", values[i]);
            cleanup_free char *again = sealed("secret:u/n", values[i]);
            cleanup_free char *value = NULL;
            ck_assert_str_ne(text, again); // a nonce of its own each time
            ck_assert_int_eq(open_as("secret:u/n", text, &value), 0);
            ck_assert_str_eq(value, values[i]);
        }
    }
END_TEST

START_TEST(test_a_record_is_worth_nothing_elsewhere)
    {
        cleanup_free char *text = sealed("secret:ann/n", "value");
        char *value = NULL;
        ck_assert_int_eq(open_as("secret:bob/n", text, &value), -EBADMSG);
        for (size_t i = SEAL_KEY_ID_BYTES; text[i]; i++) {
            cleanup_free char *bad = strdup(text);
            bad[i] = bad[i] == 'A' ? 'B' : 'A';
            ck_assert_int_eq(open_as("secret:ann/n", bad, &value), -EBADMSG);
        }
        text[SEAL_KEY_ID_BYTES + 4] = '\0';
        ck_assert_int_eq(open_as("secret:ann/n", text, &value), -EBADMSG);
        ck_assert_int_eq(open_as("secret:ann/n", "x", &value), -EBADMSG);
        ck_assert_ptr_null(value);
    }
END_TEST

START_TEST(test_key_file_is_closed_and_stays)
    {
        struct stat st;
        struct seal_keys again;
        struct err e;
        ck_assert_int_eq(stat(path, &st), 0);
        ck_assert_int_eq(st.st_mode & 0777, 0600);
        ck_assert_int_eq(seal_keys_load(top, &again, &e), 0);
        ck_assert_mem_eq(&again.items[0], &keys.items[0], sizeof(again.items[0]));
        ck_assert_int_eq(chmod(path, 0640), 0);
        ck_assert_int_eq(seal_keys_load(top, &again, &e), -EACCES);
    }
END_TEST

START_TEST(test_rotation)
    {
        cleanup_free char *text = sealed("secret:u/n", "value"), *value = NULL, *old = NULL;
        char both[200];
        struct err e;
        size_t len;
        ck_assert_int_eq(atomic_file_read(path, 1000, &old, &len, &e), 0);
        (void)snprintf(both, sizeof(both), "%064d\n%s", 1, old);
        ck_assert_int_eq(atomic_file_write(path, both, strlen(both), 0600, &e), 0);
        ck_assert_int_eq(seal_keys_load(top, &keys, &e), 0);
        ck_assert_uint_eq(keys.n, 2);
        ck_assert_int_eq(open_as("secret:u/n", text, &value), 0);
        both[65] = '\0'; // the new one alone
        ck_assert_int_eq(atomic_file_write(path, both, strlen(both), 0600, &e), 0);
        ck_assert_int_eq(seal_keys_load(top, &keys, &e), 0);
        char *lost = NULL;
        ck_assert_int_eq(open_as("secret:u/n", text, &lost), -ENOKEY);
    }
END_TEST

START_TEST(test_bad_key_files)
    {
        static const char *const bad[] = {"", "\n", "abc\n", "zz"};
        struct seal_keys k;
        struct err e;
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
            ck_assert_int_eq(atomic_file_write(path, bad[i], strlen(bad[i]), 0600, &e), 0);
            ck_assert_int_eq(seal_keys_load(top, &k, &e), -EINVAL);
        }
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("seal");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, test_round_trip);
    tcase_add_test(t, test_a_record_is_worth_nothing_elsewhere);
    tcase_add_test(t, test_key_file_is_closed_and_stays);
    tcase_add_test(t, test_rotation);
    tcase_add_test(t, test_bad_key_files);
    return run_case("secret_seal", t);
}
