// SPDX-License-Identifier: Apache-2.0
// The loop of meadow-init: one poll over signals, one timer, both pipes and the exec pipe. Order of
// an end: the command is reaped, whatever else descends from us is killed until no child is left,
// what the pipes still hold is written, and only then the exit record, so that a record means "all
// over, logs complete". The lease is looked at when the timer says so, when its folder changes
// while we wait for it, and on a request to stop.
#include "node-agent/init/supervise.h"

#include "node-agent/init/cgroup.h"
#include "node-agent/init/children.h"
#include "node-agent/init/fence.h"
#include "node-agent/init/health.h"
#include "node-agent/init/streams.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define READ_BYTES 65536

enum { FD_SIGNAL, FD_TIMER, FD_LEASE, FD_OUT, FD_ERR, FD_EXEC, FD_HEALTH, FD_MAX };

struct supervisor {
    const struct init_args *args;
    struct record *rec;
    struct child child;
    struct stream out, err;
    struct fence fence;
    struct health health;
    struct pollfd fds[FD_MAX];
    bool executed; // the command runs, or is known not to
    bool failed;   // exec failed
    bool reaped;   // the command ended
    bool none_left;
    bool stopping; // by request or timeout
    bool killing;
    bool timed_out;
    bool unhealthy;
    bool unfrozen;         // the lease was over and freezing failed: killed
    int status;            // wait status of the command
    sigset_t held;         // signals to forward once the command runs
    int64_t kill_at_ms;    // 0 = not armed
    int64_t timeout_at_ms; // 0 = none
    int64_t start_ms;
    char text[200];
};

static char buffer[READ_BYTES];

static int64_t now_ms(clockid_t clock)
{
    struct timespec ts;
    (void)clock_gettime(clock, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int64_t earlier(int64_t a, int64_t b) // 0 = never
{
    return !a || (b && b < a) ? b : a;
}

static void arm_timer(struct supervisor *s)
{
    int64_t lease = s->killing ? 0 : fence_due(&s->fence, now_ms(CLOCK_BOOTTIME));
    int64_t at = earlier(earlier(s->kill_at_ms, s->timeout_at_ms), lease);
    at = earlier(at, health_due(&s->health));
    s->fds[FD_LEASE].fd = s->fence.inotify_fd;
    struct itimerspec t = {.it_value = {.tv_sec = at / 1000, .tv_nsec = at % 1000 * 1000000}};
    (void)timerfd_settime(s->fds[FD_TIMER].fd, TFD_TIMER_ABSTIME, &t, NULL);
}

static void kill_all(struct supervisor *s)
{
    s->killing = true;
    health_end(&s->health); // its processes are among them
    child_kill_all(s->args);
    // The freezer of cgroup v1 lets a killed process go only when it is thawed.
    if (s->fence.frozen)
        fence_thaw(&s->fence);
}

// Freezes what has no valid lease, thaws what has one again.
static void mind_lease(struct supervisor *s)
{
    bool valid = fence_valid(&s->fence, now_ms(CLOCK_BOOTTIME));
    if (valid && s->fence.frozen) {
        fence_thaw(&s->fence);
        health_freeze(&s->health, false, now_ms(CLOCK_BOOTTIME));
        record_note(s->rec, "the lease was renewed: goes on");
    } else if (!valid && !s->fence.frozen && !s->killing) {
        health_freeze(&s->health, true, now_ms(CLOCK_BOOTTIME));
        int r = fence_freeze(&s->fence);
        record_note(s->rec, r == 0 ? "the lease is over: frozen"
                                   : "the lease is over and not all processes stop: killed");
        s->unfrozen = r < 0;
        if (r < 0)
            kill_all(s);
    }
    arm_timer(s);
}

// To the command's group; its session exists by the time it was executed.
static void forward(struct supervisor *s, int signo)
{
    if (s->reaped)
        return;
    if (!s->executed)
        (void)sigaddset(&s->held, signo);
    else if (kill(-s->child.pid, signo) < 0)
        (void)kill(s->child.pid, signo);
}

// Begins the end, or shortens the grace of one that has begun.
static void begin_stop(struct supervisor *s, int64_t grace_ms)
{
    int64_t kill_at = now_ms(CLOCK_BOOTTIME) + grace_ms;
    if (!s->stopping)
        forward(s, s->args->stop_signal);
    s->stopping = true;
    health_end(&s->health);
    if (!s->kill_at_ms || kill_at < s->kill_at_ms)
        s->kill_at_ms = kill_at > 0 ? kill_at : 1;
    arm_timer(s);
}

static void stop_asked(struct supervisor *s)
{
    int64_t grace_ms;
    (void)record_stop_wanted(s->rec, &grace_ms);
    mind_lease(s);
    // What is still frozen was given away: it runs no more, not even to say goodbye.
    if (s->fence.frozen)
        grace_ms = 0;
    begin_stop(s, grace_ms >= 0 ? grace_ms : s->args->grace_ms);
}

// Ended as if it had failed by itself.
static void end_unhealthy(struct supervisor *s)
{
    s->unhealthy = true;
    (void)snprintf(s->text, sizeof(s->text), "unhealthy: %.180s", s->health.text);
    begin_stop(s, s->args->grace_ms);
}

static void on_timer(struct supervisor *s)
{
    uint64_t n;
    int64_t now = now_ms(CLOCK_BOOTTIME);
    (void)!read(s->fds[FD_TIMER].fd, &n, sizeof(n));
    if (s->timeout_at_ms && now >= s->timeout_at_ms) {
        s->timeout_at_ms = 0;
        s->timed_out = !s->stopping;
        begin_stop(s, s->args->grace_ms);
    }
    if (s->kill_at_ms && now >= s->kill_at_ms) {
        s->kill_at_ms = 0;
        kill_all(s);
    }
    mind_lease(s);
    if (!s->fence.frozen && health_look(&s->health, now))
        end_unhealthy(s);
    arm_timer(s);
}

static void reap(struct supervisor *s)
{
    if (child_reap(s->child.pid, &s->status, &s->none_left))
        s->reaped = true;
    // Also while killing: a process that forked faster than we looked is found in the next round.
    if (!s->none_left && (s->reaped || s->killing))
        kill_all(s);
}

static void on_health(struct supervisor *s)
{
    reap(s); // what ended the command may have ended the check
    if (s->health.verdict_fd < 0)
        return;
    if (health_verdict(&s->health, now_ms(CLOCK_BOOTTIME)))
        end_unhealthy(s);
    arm_timer(s);
}

static bool is_forwarded(int signo)
{
    return signo == SIGHUP || signo == SIGINT || signo == SIGQUIT || signo == SIGUSR1 ||
           signo == SIGUSR2 || signo == SIGWINCH;
}

static void on_signal(struct supervisor *s)
{
    struct signalfd_siginfo info;
    while (read(s->fds[FD_SIGNAL].fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        int signo = (int)info.ssi_signo;
        if (signo == SIGCHLD)
            reap(s);
        else if (signo == SIGTERM)
            stop_asked(s);
        else if (is_forwarded(signo))
            forward(s, signo);
    }
}

// Reads at most `most` bytes of a pipe; closes it at its end.
static void read_pipe(struct pollfd *p, struct stream *s, size_t most)
{
    while (p->fd >= 0 && most > 0) {
        ssize_t n = read(p->fd, buffer, most < sizeof(buffer) ? most : sizeof(buffer));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            (void)close(p->fd);
            p->fd = -1;
            return;
        }
        stream_write(s, buffer, (size_t)n, now_ms(CLOCK_REALTIME));
        most -= (size_t)n;
    }
}

static void command_runs(struct supervisor *s)
{
    s->executed = true;
    s->start_ms = now_ms(CLOCK_REALTIME);
    if (s->args->timeout_ms)
        s->timeout_at_ms = now_ms(CLOCK_BOOTTIME) + s->args->timeout_ms;
    health_begin(&s->health, now_ms(CLOCK_BOOTTIME));
    arm_timer(s);
    (void)record_started(s->rec, s->child.pid, s->start_ms);
    for (int signo = 1; signo < NSIG; signo++)
        if (sigismember(&s->held, signo) == 1)
            forward(s, signo);
}

static void on_exec(struct supervisor *s)
{
    struct child_failure f;
    ssize_t n = read(s->fds[FD_EXEC].fd, &f, sizeof(f));
    (void)close(s->fds[FD_EXEC].fd);
    s->fds[FD_EXEC].fd = -1;
    if (n != (ssize_t)sizeof(f)) {
        command_runs(s);
        return;
    }
    const char *what = strcmp(f.step, "chdir") == 0 ? s->args->chdir : s->args->command[0];
    s->executed = s->failed = true;
    (void)snprintf(s->text, sizeof(s->text), "%s %s: %s", f.step, what, strerror(f.error));
}

static int prepare(struct supervisor *s)
{
    sigset_t all;
    (void)sigfillset(&all);
    for (int i = 0; i < FD_MAX; i++)
        s->fds[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    s->fds[FD_SIGNAL].fd = signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC);
    s->fds[FD_TIMER].fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    if (s->fds[FD_SIGNAL].fd < 0 || s->fds[FD_TIMER].fd < 0)
        return -errno;
    (void)sigemptyset(&s->held);
    fence_init(&s->fence, s->args);
    health_init(&s->health, s->args, s->rec);
    stream_init(&s->out, s->rec->dir_fd, "stdout", s->args->log_limit, STDOUT_FILENO,
                s->args->echo);
    stream_init(&s->err, s->rec->dir_fd, "stderr", s->args->log_limit, STDERR_FILENO,
                s->args->echo);
    return 0;
}

static void run_loop(struct supervisor *s)
{
    while (!s->reaped || !s->none_left) {
        s->fds[FD_HEALTH].fd = s->health.verdict_fd;
        if (poll(s->fds, FD_MAX, -1) < 0)
            continue;
        if (s->fds[FD_EXEC].revents)
            on_exec(s);
        if (s->fds[FD_OUT].revents)
            read_pipe(&s->fds[FD_OUT], &s->out, sizeof(buffer));
        if (s->fds[FD_ERR].revents)
            read_pipe(&s->fds[FD_ERR], &s->err, sizeof(buffer));
        if (s->fds[FD_SIGNAL].revents)
            on_signal(s);
        if (s->fds[FD_TIMER].revents)
            on_timer(s);
        if (s->fds[FD_LEASE].fd >= 0 && s->fds[FD_LEASE].revents) {
            fence_drain(&s->fence);
            mind_lease(s);
        }
        if (s->health.verdict_fd >= 0 && s->fds[FD_HEALTH].revents)
            on_health(s);
    }
    if (!s->executed)
        on_exec(s);
}

// What is in the pipe now and no more: a process outside of our reach may hold the other end and
// write for ever.
static void drain(struct pollfd *p, struct stream *s)
{
    int left = 0;
    if (p->fd >= 0 && ioctl(p->fd, FIONREAD, &left) == 0 && left > 0)
        read_pipe(p, s, (size_t)left);
    stream_close(s);
}

static int finish(struct supervisor *s)
{
    struct exit_info info = {.cause = "exit", .start_ms = s->start_ms, .text = s->text};
    info.code = WIFSIGNALED(s->status) ? 128 + WTERMSIG(s->status) : WEXITSTATUS(s->status);
    info.signal = WIFSIGNALED(s->status) ? WTERMSIG(s->status) : 0;
    info.end_ms = now_ms(CLOCK_REALTIME);
    if (s->timed_out)
        info.cause = "timeout";
    else if (s->unhealthy)
        info.cause = "unhealthy";
    else if (s->stopping)
        info.cause = "stopped";
    else if (s->failed)
        info.cause = "start_failed";
    else if (s->unfrozen)
        info.cause = "fenced";
    else if (info.code == 128 + SIGKILL && cgroup_command_had_oom(s->args))
        info.cause = "oom";
    drain(&s->fds[FD_OUT], &s->out);
    drain(&s->fds[FD_ERR], &s->err);
    info.logs_lost = s->out.lost || s->err.lost;
    (void)record_exit(s->rec, &info);
    return info.code;
}

static int never_started(struct record *rec, const char *cause, const char *text, int code,
                         int signo)
{
    struct exit_info info = {.code = code, .signal = signo, .cause = cause, .text = text};
    info.end_ms = now_ms(CLOCK_REALTIME);
    (void)record_exit(rec, &info);
    return code;
}

// Nothing starts without a valid lease (an image may have been long in coming). False: a stop was
// asked for meanwhile.
static bool wait_for_lease(struct supervisor *s)
{
    struct signalfd_siginfo info;
    uint64_t n;
    while (!fence_valid(&s->fence, now_ms(CLOCK_BOOTTIME))) {
        arm_timer(s);
        (void)poll(s->fds, FD_LEASE + 1, -1);
        if (s->fds[FD_LEASE].fd >= 0)
            fence_drain(&s->fence);
        (void)!read(s->fds[FD_TIMER].fd, &n, sizeof(n));
        while (read(s->fds[FD_SIGNAL].fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
            if (info.ssi_signo == SIGTERM)
                return false;
    }
    arm_timer(s);
    return true;
}

int supervise(const struct init_args *a, struct record *rec)
{
    static struct supervisor s;
    int64_t grace_ms;
    s.args = a;
    s.rec = rec;
    int r = prepare(&s);
    if (r < 0)
        return never_started(rec, "start_failed", strerror(-r), 126, 0);
    // A stop by file alone may have been meant for a pid 1 that did not listen yet; one that
    // follows comes as a signal.
    if (record_stop_wanted(rec, &grace_ms) || !wait_for_lease(&s))
        return never_started(rec, "stopped", "stopped before it was started", 128 + SIGTERM,
                             SIGTERM);
    r = child_start(a, &s.child);
    if (r < 0)
        return never_started(rec, "start_failed", strerror(-r), 126, 0);
    record_pid(rec);
    s.fds[FD_OUT].fd = s.child.out_fd;
    s.fds[FD_ERR].fd = s.child.err_fd;
    s.fds[FD_EXEC].fd = s.child.exec_fd;
    run_loop(&s);
    return finish(&s);
}
