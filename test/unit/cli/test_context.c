// SPDX-License-Identifier: Apache-2.0
// Which master is meant: the order of options, environment and contexts, in a home folder of the
// test's own.
#include "cli/context.h"

#include "cli/local.h"
#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/json.h"
#include "test/unit/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <fcntl.h>
#include <unistd.h>

static char home[64];
static struct err e;
static struct api_target target;

static void setup(void)
{
    (void)strcpy(home, "/tmp/mw-context-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(home));
    (void)setenv("HOME", home, 1);
    (void)unsetenv("XDG_CONFIG_HOME");
}

static void teardown(void)
{
    api_target_free(&target);
    ck_assert_int_eq(remove_tree(home, &e), 0);
}

static void write_file(const char *leaf, const char *text)
{
    char path[160];
    (void)snprintf(path, sizeof(path), "%s/%s", home, leaf);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    ck_assert_int_eq(make_dirs(path, 0700, &e), 0);
    *slash = '/';
    ck_assert_int_eq(atomic_file_write(path, text, strlen(text), 0600, &e), 0);
}

static const char *in_home(const char *leaf)
{
    static char paths[8][160];
    static unsigned n;
    char *p = paths[n++ % 8];
    (void)snprintf(p, sizeof(paths[0]), "%s/%s", home, leaf);
    return p;
}

static int resolve(struct context_choice c)
{
    api_target_free(&target);
    e.text[0] = '\0';
    return context_resolve(&c, &target, &e);
}

static void make_local(const char *leaf, const char *url)
{
    char text[200];
    char path[100];
    (void)snprintf(text, sizeof(text),
                   "{\"format\": 1, \"api\": \"%s\", \"port\": 1, \"nodes\": []}", url);
    (void)snprintf(path, sizeof(path), "%s/local.json", leaf);
    write_file(path, text);
}

START_TEST(nothing_names_a_master)
    {
        if (access(CONTEXT_INSTALLED_SOCKET, F_OK) != 0)
            ck_assert_int_eq(resolve((struct context_choice){0}), -ENOENT);
        ck_assert_int_eq(resolve((struct context_choice){.context = "x"}), -EINVAL);
        ck_assert_int_eq(resolve((struct context_choice){.dir = in_home("none")}), -ENOENT);
        ck_assert_ptr_nonnull(strstr(e.text, "meadow up --dir"));
    }
END_TEST

// A socket of this user's, which nobody listens on.
static void make_socket(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    (void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    (void)close(fd);
}

START_TEST(ones_own_socket_needs_no_token)
    {
        cleanup_free char *dir = strdup(in_home("c"));
        const struct context_choice plain = {.dir = dir};
        struct context_choice other = plain;
        make_local("c", "https://127.0.0.1:1");
        write_file("c/admin.token", "mtok_x\n");
        write_file("c/ca.pem", "PEM");
        ck_assert_int_eq(mkdir(in_home("c/run"), 0700), 0);
        make_socket(in_home("c/run/master.sock"));
        ck_assert_int_eq(resolve(plain), 0);
        ck_assert_str_eq(target.unix_socket, in_home("c/run/master.sock"));
        ck_assert_ptr_null(target.token);
        other.token = "mtok_y"; // it may be somebody else's
        ck_assert_int_eq(resolve(other), 0);
        ck_assert_ptr_null(target.unix_socket);
        ck_assert_str_eq(target.token, "mtok_y");
        other.token = NULL;
        other.network = true;
        ck_assert_int_eq(resolve(other), 0);
        ck_assert_ptr_null(target.unix_socket);
        ck_assert_str_eq(target.token, "mtok_x");
    }
END_TEST

START_TEST(a_folder_is_reached_by_token_else_by_socket)
    {
        make_local("c", "https://127.0.0.1:1");
        ck_assert_int_eq(resolve((struct context_choice){.dir = in_home("c")}), 0);
        ck_assert_str_eq(target.unix_socket, in_home("c/run/master.sock"));
        write_file("c/admin.token", "mtok_x\n");
        write_file("c/ca.pem", "PEM");
        ck_assert_int_eq(resolve((struct context_choice){.dir = in_home("c")}), 0);
        ck_assert_ptr_null(target.unix_socket);
        ck_assert_str_eq(target.url, "https://127.0.0.1:1");
        ck_assert_str_eq(target.token, "mtok_x");
        ck_assert_str_eq(target.ca_pem, "PEM");
    }
END_TEST

START_TEST(options_go_before_the_environment)
    {
        make_local("c", "https://127.0.0.1:1");
        write_file("ca.pem", "PEM2");
        struct context_choice c = {.master = "https://h:2/",
                                   .token = "t",
                                   .ca = in_home("ca.pem"),
                                   .env_dir = in_home("c"),
                                   .env_token = "no"};
        ck_assert_int_eq(resolve(c), 0);
        ck_assert_str_eq(target.url, "https://h:2");
        ck_assert_str_eq(target.token, "t");
        ck_assert_str_eq(target.ca_pem, "PEM2");
        c.dir = in_home("c"); // a token that is named is meant, and never replaced by the socket
        ck_assert_int_eq(resolve(c), -ENOENT);
        write_file("c/ca.pem", "PEM");
        ck_assert_int_eq(resolve(c), 0);
        ck_assert_str_eq(target.url, "https://127.0.0.1:1");
        ck_assert_str_eq(target.token, "t");
        c = (struct context_choice){.env_dir = in_home("c"), .env_master = "https://h:3"};
        ck_assert_int_eq(resolve(c), 0);
        ck_assert_ptr_nonnull(target.unix_socket);
    }
END_TEST

START_TEST(masters_are_checked)
    {
        ck_assert_int_eq(resolve((struct context_choice){.master = "http://h"}), -EINVAL);
        ck_assert_int_eq(resolve((struct context_choice){.master = "https://h"}), -EINVAL);
        ck_assert_ptr_nonnull(strstr(e.text, "--ca"));
        ck_assert_int_eq(
            resolve((struct context_choice){.master = "https://h", .ca = in_home("no")}), -EINVAL);
        ck_assert_int_eq(resolve((struct context_choice){.master = "unix:/x/y"}), 0);
        ck_assert_str_eq(target.unix_socket, "/x/y");
    }
END_TEST

START_TEST(contexts_are_kept_private_and_found)
    {
        struct stat st;
        cleanup_free char *file = context_file();
        make_local("c", "https://127.0.0.1:1");
        make_local("d", "https://127.0.0.1:2");
        ck_assert_int_eq(context_set_dir(file, "local", in_home("c"), &e), 0);
        ck_assert_int_eq(context_set_dir(file, "other", in_home("d"), &e), 0);
        ck_assert_int_eq(stat(file, &st), 0);
        ck_assert_uint_eq(st.st_mode & 0777, 0600);
        ck_assert_int_eq(resolve((struct context_choice){0}), 0);
        ck_assert_str_eq(target.unix_socket, in_home("d/run/master.sock"));
        ck_assert_int_eq(
            resolve((struct context_choice){.context = "local", .env_dir = in_home("d")}), 0);
        ck_assert_str_eq(target.unix_socket, in_home("c/run/master.sock"));
        ck_assert_int_eq(context_forget_dir(file, in_home("d"), &e), 0);
        if (access(CONTEXT_INSTALLED_SOCKET, F_OK) != 0)
            ck_assert_int_eq(resolve((struct context_choice){0}), -ENOENT);
    }
END_TEST

START_TEST(a_context_may_name_a_far_master)
    {
        char text[300];
        write_file("ca.pem", "PEM");
        (void)snprintf(text, sizeof(text),
                       "{\"current\": \"far\", \"contexts\": {\"far\": {\"master\": "
                       "\"https://far:1\", \"token\": \"a\", \"ca\": \"%s\"}}}",
                       in_home("ca.pem"));
        write_file(".config/meadow/contexts.json", text);
        ck_assert_int_eq(resolve((struct context_choice){0}), 0);
        ck_assert_str_eq(target.url, "https://far:1");
        ck_assert_str_eq(target.token, "a");
        ck_assert_int_eq(resolve((struct context_choice){.env_token = "b"}), 0);
        ck_assert_str_eq(target.token, "b");
        write_file(".config/meadow/contexts.json", "{broken");
        ck_assert_int_eq(resolve((struct context_choice){0}), -EPROTO);
    }
END_TEST

START_TEST(a_pid_counts_only_while_its_file_is_locked)
    {
        struct local l;
        make_local("c", "");
        write_file("c/master.pid", "1234\n");
        ck_assert_int_eq(local_name(in_home("c"), &l, &e), 0);
        ck_assert_int_eq(local_load(&l, &e), 0);
        ck_assert_int_eq(local_daemon(&l, "master"), 0);
        int fd = open(in_home("c/master.pid"), O_RDONLY | O_CLOEXEC);
        ck_assert_int_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
        ck_assert_int_eq(local_daemon(&l, "master"), 1234);
        (void)close(fd);
        ck_assert_int_eq(local_daemon(&l, "master"), 0);
        ck_assert_int_eq(local_daemon(&l, "agent-1"), 0);
        local_free(&l);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("context");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, nothing_names_a_master);
    tcase_add_test(t, ones_own_socket_needs_no_token);
    tcase_add_test(t, a_folder_is_reached_by_token_else_by_socket);
    tcase_add_test(t, options_go_before_the_environment);
    tcase_add_test(t, masters_are_checked);
    tcase_add_test(t, contexts_are_kept_private_and_found);
    tcase_add_test(t, a_context_may_name_a_far_master);
    tcase_add_test(t, a_pid_counts_only_while_its_file_is_locked);
    return run_case("context", t);
}
