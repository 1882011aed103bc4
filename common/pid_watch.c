// SPDX-License-Identifier: Apache-2.0
// One pidfd under uv_poll. A child is reaped here and nowhere else: libuv only reaps what it
// spawned itself. Where there are no pidfds (pidfd_open(2): kernels before 5.3, filters of system
// calls that don't know it, valgrind) no event tells of the death of a process that is no child; it
// is looked at ten times a second then, and told by the time of its start.
#include "common/pid_watch.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif
#define LOOK_MS 100

struct pid_watch {
    union {
        uv_handle_t handle;
        uv_poll_t poll;   // on fd
        uv_timer_t timer; // without one
    } u;
    int fd; // -1 = there are no pidfds
    pid_t pid;
    unsigned long long started;
    void (*died)(int status, void *userdata);
    void *userdata;
};

static void on_closed(uv_handle_t *h)
{
    free(h->data);
}

static void tell(struct pid_watch *w, int wait_status)
{
    void (*died)(int, void *) = w->died;
    void *userdata = w->userdata;
    pid_watch_cancel(w);
    died(wait_status, userdata);
}

static int reap(int fd)
{
    siginfo_t info = {0};
    if (waitid((idtype_t)P_PIDFD, (id_t)fd, &info, WEXITED | WNOHANG) < 0)
        return -1;
    return info.si_code == CLD_EXITED ? (info.si_status & 0xff) << 8 : info.si_status;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct pid_watch *w = poll->data;
    (void)status;
    (void)events;
    tell(w, reap(w->fd));
}

// --- without pidfds ---

// When the process was started, in ticks since the boot (proc(5), stat, fields 3 and 22); 0: it is
// gone, or a zombie.
static unsigned long long start_time(pid_t pid)
{
    char path[40], text[1024];
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    const char *at = strrchr(text, ')'); // its name may have anything in it
    if (!at || strlen(at) < 3 || at[2] == 'Z' || at[2] == 'X')
        return 0;
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

static void on_look(uv_timer_t *timer)
{
    struct pid_watch *w = timer->data;
    int status;
    pid_t r = waitpid(w->pid, &status, WNOHANG);
    unsigned long long now = r < 0 ? start_time(w->pid) : 0;
    if (r == w->pid)
        tell(w, status);
    else if (r < 0 && (!now || now != w->started)) // no child
        tell(w, -1);
}

static int look_often(uv_loop_t *loop, struct pid_watch *w)
{
    w->started = start_time(w->pid);
    if (!w->started && kill(w->pid, 0) < 0)
        return -ESRCH;
    int r = uv_timer_init(loop, &w->u.timer);
    w->u.handle.data = w;
    return r < 0 ? r : uv_timer_start(&w->u.timer, on_look, LOOK_MS, LOOK_MS);
}

// --- the watch ---

static int poll_fd(uv_loop_t *loop, struct pid_watch *w)
{
    int r = uv_poll_init(loop, &w->u.poll, w->fd);
    w->u.handle.data = w;
    return r < 0 ? r : uv_poll_start(&w->u.poll, UV_READABLE, on_readable);
}

int pid_watch_start(uv_loop_t *loop, pid_t pid, void (*died)(int status, void *userdata),
                    void *userdata, struct pid_watch **ret)
{
    struct pid_watch *w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    *w = (struct pid_watch){.pid = pid, .died = died, .userdata = userdata};
    w->fd = (int)syscall(SYS_pidfd_open, pid, 0);
    int r = w->fd >= 0                          ? poll_fd(loop, w)
            : errno == ENOSYS || errno == EPERM ? look_often(loop, w)
                                                : -errno;
    if (r < 0) {
        if (w->fd >= 0)
            (void)close(w->fd);
        free(w);
        return r;
    }
    *ret = w;
    return 0;
}

int pid_watch_signal(const struct pid_watch *w, int signo)
{
    if (w->fd < 0)
        return start_time(w->pid) != w->started ? -ESRCH : kill(w->pid, signo) < 0 ? -errno : 0;
    return syscall(SYS_pidfd_send_signal, w->fd, signo, NULL, 0) < 0 ? -errno : 0;
}

void pid_watch_cancel(struct pid_watch *w)
{
    if (!w)
        return;
    if (w->fd >= 0) {
        (void)uv_poll_stop(&w->u.poll);
        (void)close(w->fd);
    }
    uv_close(&w->u.handle, on_closed);
}
