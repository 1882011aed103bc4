// SPDX-License-Identifier: Apache-2.0
// The process of a check is a small supervisor itself: a subreaper, so that whatever its command
// leaves behind stays its descendant and is killed with it, on time or when its time is over. Its
// clock is CLOCK_MONOTONIC, which stands still while the machine is suspended.
#include "node-agent/init/probe.h"

#include "node-agent/init/cgroup.h"
#include "node-agent/init/children.h"
#include "node-agent/init/descendants.h"
#include "node-agent/init/probe_http.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define OUTPUT_BYTES 120 // of what it prints, for the reason

struct run {
    pid_t pid;
    int signal_fd, output_fd;
    bool ended;
    int status;
    char output[OUTPUT_BYTES];
    size_t n_output;
};

int64_t probe_now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static _Noreturn void command_main(const struct init_args *a, pid_t parent, int output_fd)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(126);
    (void)setsid();
    (void)dup2(output_fd, STDOUT_FILENO);
    (void)dup2(output_fd, STDERR_FILENO);
    if (a->chdir && chdir(a->chdir) < 0)
        _exit(126);
    child_reset_signals();
    (void)execvp(a->health_command[0], (char *const *)a->health_command);
    (void)dprintf(STDERR_FILENO, "%s: %s", a->health_command[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

static int start(const struct init_args *a, struct run *run)
{
    int output[2];
    sigset_t child;
    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD);
    run->signal_fd = signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC);
    if (run->signal_fd < 0 || pipe2(output, O_CLOEXEC) < 0)
        return -errno;
    pid_t self = getpid();
    run->pid = fork();
    if (run->pid == 0)
        command_main(a, self, output[1]);
    (void)close(output[1]);
    (void)fcntl(output[0], F_SETFL, O_NONBLOCK);
    run->output_fd = output[0];
    return run->pid < 0 ? -errno : 0;
}

static void take_output(struct run *run)
{
    char room[4096];
    ssize_t n = read(run->output_fd, room, sizeof(room));
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        (void)close(run->output_fd);
        run->output_fd = -1;
        return;
    }
    size_t left = sizeof(run->output) - 1 - run->n_output;
    size_t take = (size_t)n < left ? (size_t)n : left;
    memcpy(run->output + run->n_output, room, take);
    run->n_output += take;
}

static void reap(struct run *run)
{
    struct signalfd_siginfo info;
    int status;
    pid_t pid;
    (void)!read(run->signal_fd, &info, sizeof(info));
    while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0) {
        if (pid != run->pid)
            continue;
        run->ended = true;
        run->status = status;
    }
}

static void wait_until(struct run *run, int64_t end_ms)
{
    for (;;) {
        int64_t left = end_ms - probe_now_ms();
        struct pollfd fds[] = {{.fd = run->signal_fd, .events = POLLIN},
                               {.fd = run->output_fd, .events = POLLIN}};
        if (run->ended || left <= 0)
            return;
        if (poll(fds, 2, left < INT32_MAX ? (int)left : INT32_MAX) < 0)
            continue;
        if (fds[1].revents)
            take_output(run);
        if (fds[0].revents)
            reap(run);
    }
}

// What is still there after the end, or after its time.
static void kill_rest(void)
{
    for (;;) {
        pid_t pid = waitpid(-1, NULL, WNOHANG | __WALL);
        if (pid < 0 && errno == ECHILD)
            return;
        if (pid != 0)
            continue;
        descendants_signal(SIGKILL);
        (void)waitpid(-1, NULL, __WALL);
    }
}

static void describe(const struct init_args *a, struct run *run, struct probe_verdict *v)
{
    char what[48];
    while (run->output_fd >= 0 && run->n_output < sizeof(run->output) - 1) {
        size_t before = run->n_output;
        take_output(run);
        if (run->n_output == before)
            break;
    }
    run->output[strcspn(run->output, "\r\n")] = '\0';
    if (!run->ended)
        (void)snprintf(what, sizeof(what), "no end within %" PRId64 " ms", a->health_timeout_ms);
    else if (WIFSIGNALED(run->status))
        (void)snprintf(what, sizeof(what), "killed by signal %d", WTERMSIG(run->status));
    else
        (void)snprintf(what, sizeof(what), "exit code %d", WEXITSTATUS(run->status));
    (void)snprintf(v->text, sizeof(v->text), "%s%s%s", what, run->output[0] ? ": " : "",
                   run->output);
}

static void run_command(const struct init_args *a, struct probe_verdict *v)
{
    struct run run = {.signal_fd = -1, .output_fd = -1};
    int64_t end_ms = probe_now_ms() + a->health_timeout_ms;
    int r = start(a, &run);
    if (r < 0) {
        (void)snprintf(v->text, sizeof(v->text), "%s", strerror(-r));
        return;
    }
    wait_until(&run, end_ms);
    kill_rest();
    v->well = run.ended && WIFEXITED(run.status) && WEXITSTATUS(run.status) == 0;
    if (!v->well)
        describe(a, &run, v);
}

static _Noreturn void probe_main(const struct init_args *a, pid_t parent, int fd)
{
    static struct probe_verdict v;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    (void)setsid();
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (cgroup_enter(a) < 0)
        (void)snprintf(v.text, sizeof(v.text), "cgroup: %s", strerror(errno));
    else if (a->n_health_command > 0)
        run_command(a, &v);
    else
        v.well = probe_http(a->health_port, a->health_path, a->health_timeout_ms, v.text,
                            sizeof(v.text));
    (void)!write(fd, &v, sizeof(v)); // whole, as it is shorter than PIPE_BUF
    _exit(0);
}

int probe_start(const struct init_args *a, pid_t *ret_pid, int *ret_fd)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
        return -errno;
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0)
        probe_main(a, parent, fds[1]);
    int r = pid < 0 ? -errno : 0;
    (void)close(fds[1]);
    if (r < 0) {
        (void)close(fds[0]);
        return r;
    }
    *ret_pid = pid;
    *ret_fd = fds[0];
    return 0;
}
