// SPDX-License-Identifier: Apache-2.0
// Processes of the command. We are pid 1 of a container, or a subreaper: either way orphans become
// our children, so "no child left" means "nothing left". The command dies with us by PDEATHSIG;
// what it leaves behind then is found by the agent through MEADOW_ATTEMPT_ID in the environment.
#include "node-agent/init/children.h"

#include "node-agent/init/cgroup.h"
#include "node-agent/init/descendants.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void fail(int fd, const char *step, int error)
{
    struct child_failure f = {.error = error};
    (void)snprintf(f.step, sizeof(f.step), "%s", step);
    ssize_t n = write(fd, &f, sizeof(f));
    (void)n; // nobody is left to tell
    _exit(error == ENOENT ? 127 : 126);
}

void child_reset_signals(void)
{
    sigset_t none;
    struct sigaction sa = {.sa_handler = SIG_DFL};
    for (int i = 1; i < NSIG; i++)
        (void)sigaction(i, &sa, NULL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void child_main(const struct init_args *a, pid_t parent, int out, int err,
                                 int exec_fd)
{
    // The signal is set up first and the parent looked at afterwards, so its death is never missed.
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(126);
    (void)setsid();
    (void)dup2(out, STDOUT_FILENO);
    (void)dup2(err, STDERR_FILENO);
    if (cgroup_enter(a) < 0)
        fail(exec_fd, "cgroup", errno);
    if (a->chdir && chdir(a->chdir) < 0)
        fail(exec_fd, "chdir", errno);
    child_reset_signals();
    (void)execvp(a->command[0], a->command);
    fail(exec_fd, "exec", errno);
    _exit(126);
}

static int make_pipe(int fds[2])
{
    return pipe2(fds, O_CLOEXEC) < 0 ? -errno : 0;
}

static void close_pair(int fds[2])
{
    (void)close(fds[0]);
    (void)close(fds[1]);
}

int child_start(const struct init_args *a, struct child *ret)
{
    int out[2], err[2], ex[2];
    int r = make_pipe(out);
    if (r < 0)
        return r;
    if ((r = make_pipe(err)) < 0) {
        close_pair(out);
        return r;
    }
    if ((r = make_pipe(ex)) < 0) {
        close_pair(out);
        close_pair(err);
        return r;
    }
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0)
        child_main(a, parent, out[1], err[1], ex[1]);
    r = pid < 0 ? -errno : 0;
    (void)close(out[1]);
    (void)close(err[1]);
    (void)close(ex[1]);
    if (pid < 0) {
        (void)close(out[0]);
        (void)close(err[0]);
        (void)close(ex[0]);
        return r;
    }
    (void)fcntl(out[0], F_SETFL, O_NONBLOCK);
    (void)fcntl(err[0], F_SETFL, O_NONBLOCK);
    *ret = (struct child){.pid = pid, .out_fd = out[0], .err_fd = err[0], .exec_fd = ex[0]};
    return 0;
}

void child_kill_all(const struct init_args *a)
{
    if (getpid() == 1) { // everything in the container but us, whatever group or parent
        (void)kill(-1, SIGKILL);
        return;
    }
    cgroup_kill(a);
    descendants_signal(SIGKILL);
}

bool child_stop_all(void)
{
    return descendants_stop();
}

void child_continue_all(void)
{
    if (getpid() == 1)
        (void)kill(-1, SIGCONT);
    else
        descendants_signal(SIGCONT);
}

bool child_reap(pid_t pid, int *ret_status, bool *ret_none)
{
    bool ours = false;
    for (;;) {
        int status;
        pid_t got = waitpid(-1, &status, WNOHANG | __WALL);
        if (got < 0 && errno == EINTR)
            continue;
        *ret_none = got < 0;
        if (got <= 0)
            return ours;
        if (got == pid) {
            *ret_status = status;
            ours = true;
        }
    }
}
