// SPDX-License-Identifier: Apache-2.0
// One pidfd under uv_poll. A child is reaped here and nowhere else: libuv only reaps what it
// spawned itself.
#include "node-agent/runtime/pid_watch.h"

#include "common/cleanup.h"

#include <sys/syscall.h>
#include <sys/wait.h>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

struct pid_watch {
    uv_poll_t poll;
    int fd;
    void (*died)(int status, void *userdata);
    void *userdata;
};

static void on_closed(uv_handle_t *h)
{
    free(container_of((uv_poll_t *)h, struct pid_watch, poll));
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
    struct pid_watch *w = container_of(poll, struct pid_watch, poll);
    (void)status;
    (void)events;
    int wait_status = reap(w->fd);
    void (*died)(int, void *) = w->died;
    void *userdata = w->userdata;
    pid_watch_cancel(w);
    died(wait_status, userdata);
}

int pid_watch_start(uv_loop_t *loop, pid_t pid, void (*died)(int status, void *userdata),
                    void *userdata, struct pid_watch **ret)
{
    struct pid_watch *w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    *w = (struct pid_watch){.died = died, .userdata = userdata};
    w->fd = (int)syscall(SYS_pidfd_open, pid, 0);
    int r = w->fd < 0 ? -errno : uv_poll_init(loop, &w->poll, w->fd);
    if (r < 0) {
        if (w->fd >= 0)
            (void)close(w->fd);
        free(w);
        return r;
    }
    (void)uv_poll_start(&w->poll, UV_READABLE, on_readable);
    *ret = w;
    return 0;
}

int pid_watch_signal(const struct pid_watch *w, int signo)
{
    return syscall(SYS_pidfd_send_signal, w->fd, signo, NULL, 0) < 0 ? -errno : 0;
}

void pid_watch_cancel(struct pid_watch *w)
{
    if (!w)
        return;
    (void)uv_poll_stop(&w->poll);
    (void)close(w->fd);
    uv_close((uv_handle_t *)&w->poll, on_closed);
}
