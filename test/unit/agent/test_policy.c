// SPDX-License-Identifier: Apache-2.0
// The node's policy: who a task may be and what of the machine it may see.
#include "node-agent/policy.h"

#include "common/atomic_file.h"
#include "test/unit/suite.h"
#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char top[64];
static struct policy policy;
static char *people[] = {(char *)"1000-1999", (char *)"500", NULL};

static void setup(void)
{
    (void)strcpy(top, "/tmp/meadow-policy-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(top));
    policy = (struct policy){.allow_uids = people,
                             .allow_gids = people,
                             .default_uid = 1500,
                             .default_gid = 1501,
                             .container = true,
                             .run_dir = "/run/meadow/agent",
                             .state_dir = "/var/lib/meadow/agent",
                             .engine_socket = "/run/docker.sock"};
}

static void teardown(void)
{
    struct err e;
    ck_assert_int_eq(remove_tree(top, &e), 0);
}

static int as(int64_t uid, int64_t gid, struct attempt_spec *s, struct err *e)
{
    *s = (struct attempt_spec){.user = (char *)"eve", .uid = uid, .gid = gid};
    return policy_apply(&policy, s, e);
}

START_TEST(test_uids)
    {
        struct attempt_spec s;
        struct err e;
        ck_assert_int_eq(as(1000, 1000, &s, &e), 0);
        ck_assert_int_eq(s.gid, 1000);
        ck_assert_int_eq(as(1000, 1501, &s, &e), 0); // the default's
        ck_assert_int_eq(as(1000, 100, &s, &e), -EACCES);
        ck_assert_ptr_nonnull(strstr(e.text, "policy.allow_gids"));
        ck_assert_int_eq(as(500, -1, &s, &e), 0);
        ck_assert_int_eq(s.gid, 500);
        ck_assert_int_eq(as(2000, 2000, &s, &e), -EACCES);
        ck_assert_ptr_nonnull(strstr(e.text, "policy.allow_uids"));
        ck_assert_int_eq(as(0, 1000, &s, &e), -EACCES);
        ck_assert_ptr_nonnull(strstr(e.text, "policy.allow_root"));
        ck_assert_int_eq(as(1000, 0, &s, &e), -EACCES);
        policy.allow_root = true;
        ck_assert_int_eq(as(0, 0, &s, &e), 0);
    }
END_TEST

START_TEST(test_the_engines_group_makes_root)
    {
        struct attempt_spec s;
        struct err e;
        char socket[64];
        (void)snprintf(socket, sizeof(socket), "%s/engine", top);
        (void)close(open(socket, O_WRONLY | O_CREAT, 0600));
        if (geteuid() != 0)
            return;
        ck_assert_int_eq(chown(socket, 0, 1000), 0);
        policy.engine_socket = socket;
        ck_assert_int_eq(as(1000, 1000, &s, &e), -EACCES);
        ck_assert_ptr_nonnull(strstr(e.text, "engine's socket"));
    }
END_TEST

START_TEST(test_unmapped_user_is_the_default)
    {
        struct attempt_spec s;
        struct err e;
        ck_assert_int_eq(as(-1, -1, &s, &e), 0);
        ck_assert_int_eq(s.uid, 1500);
        ck_assert_int_eq(s.gid, 1501);
        policy.default_uid = 0;
        ck_assert_int_eq(as(-1, -1, &s, &e), -EACCES);
    }
END_TEST

START_TEST(test_an_agent_without_rights_starts_processes_as_itself)
    {
        struct attempt_spec s;
        struct err e;
        policy.container = false;
        policy.agent_uid = 1000;
        ck_assert_int_eq(as(1000, 1000, &s, &e), 0);
        ck_assert_int_eq(as(1001, 1001, &s, &e), -EACCES);
        policy.container = true;
        ck_assert_int_eq(as(1001, 1001, &s, &e), 0);
    }
END_TEST

static int mounting(const char *source, char **ret_real, struct err *e)
{
    struct job_mount m = {.source = strdup(source), .target = (char *)"/x"};
    struct attempt_spec s = {
        .user = (char *)"eve", .uid = 1000, .gid = 1000, .mounts = &m, .n_mounts = 1};
    int r = policy_apply(&policy, &s, e);
    if (ret_real)
        *ret_real = m.source;
    else
        free(m.source);
    return r;
}

static int mounting_in(const char *leaf, struct err *e)
{
    char path[160];
    (void)snprintf(path, sizeof(path), "%s/%s", top, leaf);
    return mounting(path, NULL, e);
}

START_TEST(test_host_paths)
    {
        char data[100], other[100], link[100], *real = NULL;
        char *allowed[] = {data, NULL};
        struct err e;
        (void)snprintf(data, sizeof(data), "%s/data", top);
        (void)snprintf(other, sizeof(other), "%s/data-of-others", top);
        (void)snprintf(link, sizeof(link), "%s/data/link", top);
        ck_assert_int_eq(mkdir(data, 0755), 0);
        ck_assert_int_eq(mkdir(other, 0755), 0);
        ck_assert_int_eq(symlink(other, link), 0);

        ck_assert_int_eq(mounting(data, NULL, &e), -EACCES);
        ck_assert_ptr_nonnull(strstr(e.text, "policy.host_paths is empty"));
        policy.host_paths = allowed;
        ck_assert_int_eq(mounting(data, &real, &e), 0);
        ck_assert_str_eq(real, data);
        free(real);
        ck_assert_int_eq(mounting_in("data-of-others", &e), -EACCES);
        ck_assert_int_eq(mounting_in("data/../data-of-others", &e), -EACCES);
        ck_assert_int_eq(mounting_in("data/link", &e), -EACCES);
        ck_assert_ptr_nonnull(strstr(e.text, "leads to"));
        ck_assert_int_eq(mounting_in("data/none", &e), -ENOENT);
        ck_assert_int_eq(mounting("/", NULL, &e), -EACCES);
    }
END_TEST

// Whatever the list says: a task with the engine's socket owns the machine.
START_TEST(test_guarded_paths)
    {
        char *everything[] = {(char *)"/", NULL};
        char socket[100], sub[100];
        struct err e;
        policy.host_paths = everything;
        (void)snprintf(socket, sizeof(socket), "%s/engine/docker.sock", top);
        (void)snprintf(sub, sizeof(sub), "%s/engine", top);
        ck_assert_int_eq(mkdir(sub, 0755), 0);
        struct err ignored;
        ck_assert_int_eq(atomic_file_write(socket, "", 0, 0600, &ignored), 0);
        policy.engine_socket = socket;
        policy.state_dir = top;
        ck_assert_int_eq(mounting("/usr", NULL, &e), 0);
        ck_assert_int_eq(mounting(socket, NULL, &e), -EACCES);
        ck_assert_int_eq(mounting(sub, NULL, &e), -EACCES);
        ck_assert_int_eq(mounting("/", NULL, &e), -EACCES);
        ck_assert_int_eq(mounting("/run", NULL, &e), -EACCES);
        ck_assert_ptr_nonnull(strstr(e.text, "forbidden on every node"));
    }
END_TEST

START_TEST(test_lists_are_checked)
    {
        char *bad_uids[] = {(char *)"1000-", NULL}, *bad_paths[] = {(char *)"srv", NULL};
        char *bad_caps[] = {(char *)"ALL", NULL}, *caps[] = {(char *)"NET_BIND_SERVICE", NULL};
        struct err e;
        ck_assert_int_eq(policy_ids_check("allow_uids", people, &e), 0);
        ck_assert_int_eq(policy_ids_check("allow_uids", bad_uids, &e), -EINVAL);
        ck_assert_int_eq(policy_paths_check(bad_paths, &e), -EINVAL);
        ck_assert_int_eq(policy_capabilities_check(bad_caps, &e), -EINVAL);
        ck_assert_int_eq(policy_capabilities_check(caps, &e), 0);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("policy");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, test_uids);
    tcase_add_test(t, test_the_engines_group_makes_root);
    tcase_add_test(t, test_unmapped_user_is_the_default);
    tcase_add_test(t, test_an_agent_without_rights_starts_processes_as_itself);
    tcase_add_test(t, test_host_paths);
    tcase_add_test(t, test_guarded_paths);
    tcase_add_test(t, test_lists_are_checked);
    return run_case("policy", t);
}
