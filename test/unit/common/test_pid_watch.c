// SPDX-License-Identifier: Apache-2.0
// Deaths of children and of others, with pidfds and where the system has none.
#include "common/pid_watch.h"
#include "test/unit/suite.h"

#include <check.h>
#include <stdlib.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static uv_loop_t loop;
static int deaths, last_status;

static void on_died(int status, void *userdata)
{
    ck_assert_ptr_eq(userdata, &loop);
    deaths++;
    last_status = status;
}

// As a kernel before 5.3 would (ENOSYS), or an old filter of a container's (EPERM).
static void no_pidfds(int error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const struct sock_fprog filter = {sizeof(code) / sizeof(code[0]), code};
    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
    errno = 0;
    ck_assert_int_eq(syscall(SYS_pidfd_open, getpid(), 0), -1);
    ck_assert_int_eq(errno, error);
}

static void begin(int no_pidfd)
{
    deaths = 0;
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    if (no_pidfd)
        no_pidfds(no_pidfd);
}

static void end(void)
{
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

// One that waits to be killed, or ends with `code`.
static pid_t child(int code)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0 && code < 0)
        for (;;)
            (void)pause();
    if (pid == 0)
        _exit(code);
    return pid;
}

// Somebody else's: its parent, which is told where to write its number, is gone.
static pid_t stranger(void)
{
    int ends[2];
    pid_t pid = 0;
    ck_assert_int_eq(pipe(ends), 0);
    pid_t between = fork();
    if (between == 0) {
        pid_t other = child(-1);
        _exit(write(ends[1], &other, sizeof(other)) != sizeof(other));
    }
    ck_assert_int_eq(read(ends[0], &pid, sizeof(pid)), sizeof(pid));
    ck_assert_int_eq(waitpid(between, NULL, 0), between);
    (void)close(ends[0]);
    (void)close(ends[1]);
    return pid;
}

static const int ways[] = {0, ENOSYS, EPERM};

START_TEST(child_that_ends)
    {
        struct pid_watch *w;
        begin(ways[_i]);
        ck_assert_int_eq(pid_watch_start(&loop, child(7), on_died, &loop, &w), 0);
        end();
        ck_assert_int_eq(deaths, 1);
        ck_assert(WIFEXITED(last_status) && WEXITSTATUS(last_status) == 7);
        ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1); // it was reaped
    }
END_TEST

START_TEST(child_that_is_killed)
    {
        struct pid_watch *w;
        begin(ways[_i]);
        ck_assert_int_eq(pid_watch_start(&loop, child(-1), on_died, &loop, &w), 0);
        ck_assert_int_eq(pid_watch_signal(w, SIGKILL), 0);
        end();
        ck_assert_int_eq(deaths, 1);
        ck_assert(WIFSIGNALED(last_status) && WTERMSIG(last_status) == SIGKILL);
    }
END_TEST

START_TEST(somebody_elses)
    {
        struct pid_watch *w;
        pid_t pid = stranger();
        begin(ways[_i]);
        ck_assert_int_eq(pid_watch_start(&loop, pid, on_died, &loop, &w), 0);
        ck_assert_int_eq(pid_watch_signal(w, SIGKILL), 0);
        end();
        ck_assert_int_eq(deaths, 1);
        ck_assert_int_eq(last_status, -1);
    }
END_TEST

START_TEST(nobody)
    {
        struct pid_watch *w;
        pid_t pid = child(0);
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
        begin(ways[_i]);
        ck_assert_int_eq(pid_watch_start(&loop, pid, on_died, &loop, &w), -ESRCH);
        end();
    }
END_TEST

START_TEST(cancelled)
    {
        struct pid_watch *w;
        pid_t pid = child(-1);
        begin(ways[_i]);
        ck_assert_int_eq(pid_watch_start(&loop, pid, on_died, &loop, &w), 0);
        pid_watch_cancel(w);
        pid_watch_cancel(NULL);
        end();
        ck_assert_int_eq(deaths, 0);
        ck_assert_int_eq(kill(pid, SIGKILL), 0);
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("pid_watch");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, child_that_ends, 0, 3);
    tcase_add_loop_test(t, child_that_is_killed, 0, 3);
    tcase_add_loop_test(t, somebody_elses, 0, 3);
    tcase_add_loop_test(t, nobody, 0, 3);
    tcase_add_loop_test(t, cancelled, 0, 3);
    return run_case("pid_watch", t);
}
