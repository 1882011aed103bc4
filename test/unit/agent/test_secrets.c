// SPDX-License-Identifier: Apache-2.0
// Secrets as files of one attempt: closed, of its user, and gone with it.
#include "node-agent/secrets.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "test/unit/suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[SECRETS_PATH_BYTES], state[64];

static void setup(void)
{
    struct err e;
    (void)snprintf(state, sizeof(state), "/test/%d", (int)getpid());
    // /proc is no memory of ours, so it is the folder in /dev/shm.
    ck_assert_msg(secrets_folder("/proc", state, folder, &e) == 0, "%s", e.text);
    ck_assert_ptr_nonnull(strstr(folder, "/dev/shm/meadow-"));
}

static void teardown(void)
{
    struct err e;
    ck_assert_int_eq(remove_tree(folder, &e), 0);
}

static struct attempt_spec *spec_of(const char *id)
{
    struct attempt_spec *s = calloc(1, sizeof(*s));
    (void)snprintf(s->id, sizeof(s->id), "%s", id);
    s->user = strdup("ann");
    s->uid = geteuid() == 0 ? 4321 : geteuid();
    s->gid = getegid() == 0 ? 4322 : getegid();
    s->secrets = calloc(2, sizeof(*s->secrets));
    s->n_secrets = 2;
    s->secrets[0] = (struct attempt_secret){.name = strdup("a"), .value = strdup("one"), .len = 3};
    s->secrets[1] = (struct attempt_secret){.name = strdup("b"), .value = strdup(""), .len = 0};
    return s;
}

START_TEST(test_files)
    {
        struct attempt_spec *s = spec_of("a1");
        char path[SECRETS_PATH_BYTES], file[SECRETS_PATH_BYTES + 8];
        struct stat st;
        struct err e;
        ck_assert_msg(secrets_write(folder, s, &e) == 0, "%s", e.text);
        secrets_path(folder, "a1", path);
        ck_assert_int_eq(lstat(path, &st), 0);
        ck_assert_int_eq(st.st_mode & 0777, 0500);
        ck_assert_int_eq(st.st_uid, s->uid);
        (void)snprintf(file, sizeof(file), "%s/a", path);
        ck_assert_int_eq(lstat(file, &st), 0);
        ck_assert_int_eq(st.st_mode & 0777, 0400);
        ck_assert_int_eq(st.st_uid, s->uid);
        ck_assert_int_eq(st.st_gid, s->gid);
        ck_assert_int_eq(st.st_size, 3);
        ck_assert_int_ne(memcmp(s->secrets[0].value, "one", 3), 0); // wiped
        secrets_remove(folder, "a1");
        ck_assert_int_eq(access(path, F_OK), -1);
        attempt_spec_free(s);
    }
END_TEST

START_TEST(test_one_that_is_gone)
    {
        struct attempt_spec *s = spec_of("a1");
        char path[SECRETS_PATH_BYTES];
        struct err e;
        free(s->secrets[1].value);
        s->secrets[1].value = NULL;
        ck_assert_int_eq(secrets_write(folder, s, &e), -ENOKEY);
        ck_assert_str_eq(e.text, "ann has no secret \"b\" any more");
        secrets_path(folder, "a1", path);
        ck_assert_int_eq(access(path, F_OK), -1);
        attempt_spec_free(s);
    }
END_TEST

static bool is_a2(const char *id, void *userdata)
{
    (void)userdata;
    return strcmp(id, "a2") == 0;
}

START_TEST(test_sweep)
    {
        static const char *const ids[] = {"a1", "a2", "a3"};
        char path[SECRETS_PATH_BYTES];
        struct err e;
        for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
            struct attempt_spec *s = spec_of(ids[i]);
            ck_assert_int_eq(secrets_write(folder, s, &e), 0);
            attempt_spec_free(s);
        }
        secrets_sweep(folder, is_a2, NULL);
        for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
            secrets_path(folder, ids[i], path);
            ck_assert_int_eq(access(path, F_OK), is_a2(ids[i], NULL) ? 0 : -1);
        }
    }
END_TEST

// In /dev/shm anybody may have been there first.
START_TEST(test_a_folder_of_somebody_else_is_not_used)
    {
        char out[SECRETS_PATH_BYTES];
        struct err e;
        ck_assert_int_eq(chmod(folder, 0777), 0);
        ck_assert_int_eq(secrets_folder("/proc", state, out, &e), -EPERM);
        ck_assert_int_eq(rmdir(folder), 0);
        ck_assert_int_eq(symlink("/tmp", folder), 0);
        ck_assert_int_eq(secrets_folder("/proc", state, out, &e), -EPERM);
        ck_assert_int_eq(unlink(folder), 0);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("secrets");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, test_files);
    tcase_add_test(t, test_one_that_is_gone);
    tcase_add_test(t, test_sweep);
    tcase_add_test(t, test_a_folder_of_somebody_else_is_not_used);
    return run_case("secrets", t);
}
