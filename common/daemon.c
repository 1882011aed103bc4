// SPDX-License-Identifier: Apache-2.0
// Signals, sd_notify and the pid file for both daemons. Everything happens on the daemon's loop;
// without a service manager (no NOTIFY_SOCKET) the notifications are no-ops.
#include "common/daemon.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>

enum { ON_TERM, ON_INT, ON_HUP, N_SIGNALS };

struct daemon {
    struct daemon_options options;
    uv_signal_t signals[N_SIGNALS];
    uv_timer_t watchdog;
    unsigned open_handles;
    bool stopping;
    char *pid_file; // owned copy
    int pid_fd;
    char status[256]; // last one sent
};

static void signal_cb(uv_signal_t *handle, int signum)
{
    struct daemon *d = handle->data;

    if (signum == SIGHUP) {
        if (d->options.reload)
            d->options.reload(d->options.userdata);
    } else if (!d->stopping) {
        d->stopping = true;
        d->options.stop(d->options.userdata);
    }
}

static void watchdog_cb(uv_timer_t *timer)
{
    (void)timer;
    (void)sd_notify(0, "WATCHDOG=1");
}

// The lock, not the number in it, says whether the owner lives.
static int pid_file_take(struct daemon *d, struct err *e)
{
    const char *path = d->options.pid_file;
    char text[24];
    cleanup_close int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);

    if (fd < 0)
        return err_errno(e, -errno, "pid file %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return err_set(e, -errno, "pid file %s: another process runs with it", path);
    int len = snprintf(text, sizeof(text), "%d\n", (int)getpid());
    if (ftruncate(fd, 0) < 0 || write(fd, text, (size_t)len) != len)
        return err_errno(e, -EIO, "pid file %s", path);
    d->pid_file = strdup(path);
    if (!d->pid_file)
        return err_set(e, -ENOMEM, "out of memory");
    d->pid_fd = TAKE_FD(fd);
    return 0;
}

static void closed_cb(uv_handle_t *handle)
{
    struct daemon *d = handle->data;

    if (--d->open_handles > 0)
        return;
    free(d->pid_file);
    free(d);
}

static int start_signals(struct daemon *d)
{
    static const int numbers[N_SIGNALS] = {SIGTERM, SIGINT, SIGHUP};

    for (int i = 0; i < N_SIGNALS; i++) {
        int r = uv_signal_init(d->options.loop, &d->signals[i]);
        if (r < 0)
            return r;
        d->signals[i].data = d;
        d->open_handles++;
        r = uv_signal_start(&d->signals[i], signal_cb, numbers[i]);
        if (r < 0)
            return r;
        // Signals alone must not keep a loop alive that has nothing else left.
        uv_unref((uv_handle_t *)&d->signals[i]);
    }
    return 0;
}

int daemon_new(const struct daemon_options *options, struct daemon **ret, struct err *e)
{
    struct daemon *d = calloc(1, sizeof(*d));

    if (!d)
        return err_set(e, -ENOMEM, "out of memory");
    d->options = *options;
    d->pid_fd = -1;
    int r = options->pid_file ? pid_file_take(d, e) : 0;
    if (r < 0) {
        free(d);
        return r;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    (void)uv_timer_init(options->loop, &d->watchdog);
    d->watchdog.data = d;
    d->open_handles = 1;
    uv_unref((uv_handle_t *)&d->watchdog);
    r = start_signals(d);
    if (r < 0) {
        daemon_close(d);
        return err_set(e, r, "signals: %s", uv_strerror(r));
    }
    *ret = d;
    return 0;
}

void daemon_ready(struct daemon *d, const char *status)
{
    uint64_t usec = 0;

    (void)snprintf(d->status, sizeof(d->status), "%s", status);
    (void)sd_notifyf(0, "READY=1\nSTATUS=%s", d->status);
    if (sd_watchdog_enabled(0, &usec) > 0) {
        uint64_t half_ms = usec / 2000;
        (void)uv_timer_start(&d->watchdog, watchdog_cb, half_ms, half_ms ? half_ms : 1);
    }
}

void daemon_status(struct daemon *d, const char *fmt, ...)
{
    char text[sizeof(d->status)];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    for (char *c = text; *c; c++)
        if (*c == '\n')
            *c = ' '; // a line break would start another field
    if (strcmp(text, d->status) == 0)
        return;
    memcpy(d->status, text, sizeof(text));
    (void)sd_notifyf(0, "STATUS=%s", text);
}

void daemon_reloading(struct daemon *d)
{
    struct timespec now;

    (void)d;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    (void)sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%lld",
                     (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
}

void daemon_reloaded(struct daemon *d)
{
    (void)sd_notifyf(0, "READY=1\nSTATUS=%s", d->status);
}

void daemon_close(struct daemon *d)
{
    if (!d)
        return;
    (void)sd_notify(0, "STOPPING=1");
    if (d->pid_fd >= 0) {
        (void)unlink(d->pid_file);
        (void)close(d->pid_fd);
    }
    for (int i = 0; i < N_SIGNALS; i++)
        if (d->signals[i].data)
            uv_close((uv_handle_t *)&d->signals[i], closed_cb);
    uv_close((uv_handle_t *)&d->watchdog, closed_cb);
}

void daemon_raise_files(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}
