// SPDX-License-Identifier: Apache-2.0
// An old server is known by the lock that it inherited from the master that started it, or by its
// answering on our socket; it has a name (pid) from the socket's peer credentials or from the
// lock's file. It is asked to shut down, waited for, and killed when it doesn't go: with
// an fsync before each answer a kill loses nothing that was acknowledged. A process is touched only
// when its working folder is ours, so a reused pid is never hit.
#include "master/store/redis_old.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/pid_watch.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>

#define DEFAULT_PATIENCE_MS 5000
#define LOOK_AGAIN_MS 50 // only when somebody holds the lock and can't be named yet

struct redis_old {
    struct redis_old_options options;
    char *lock_path;
    int lock;
    pid_t pid;
    unsigned kills;
    uint64_t given_up_at;
    uv_timer_t timer;
    struct pid_watch *watch; // of pid; NULL = of nobody
    bool finishing;
    int result;
    struct err e;
    void (*closed)(void *userdata);
    void *closed_userdata;
};

static void look(struct redis_old *o);

// --- who has it ---

// Connects to the socket; -1 when nobody listens.
static int connect_socket(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || strlen(path) >= sizeof(a.sun_path))
        return -1;
    memcpy(a.sun_path, path, strlen(path));
    return connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0 ? TAKE_FD(fd) : -1;
}

// The process that listens, 0 when it can't be told.
static pid_t socket_owner(int fd)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);
    return fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 ? cred.pid : 0;
}

static pid_t noted_pid(const char *path)
{
    cleanup_free char *text = NULL;
    size_t len;
    if (atomic_file_read(path, 64, &text, &len, NULL) < 0)
        return 0;
    long pid = strtol(text, NULL, 10);
    return pid > 1 ? (pid_t)pid : 0;
}

enum place { PLACE_OURS, PLACE_OTHER, PLACE_NONE };

// PLACE_NONE: it is on its way out, and has no working folder any more.
static enum place place_of(pid_t pid, const char *dir)
{
    char link[64], target[PATH_MAX];
    (void)snprintf(link, sizeof(link), "/proc/%d/cwd", (int)pid);
    ssize_t n = readlink(link, target, sizeof(target) - 1);
    if (n < 0)
        return errno == ENOENT || errno == ESRCH ? PLACE_NONE : PLACE_OTHER;
    bool ours = (size_t)n == strlen(dir) && memcmp(target, dir, (size_t)n) == 0;
    return ours ? PLACE_OURS : PLACE_OTHER;
}

void redis_old_note(int lock, pid_t pid)
{
    char text[32];
    int n = snprintf(text, sizeof(text), "%d\n", (int)pid);
    // Only a hint: a server on the socket is found without it.
    if (ftruncate(lock, 0) < 0 || pwrite(lock, text, (size_t)n, 0) < 0)
        return;
}

// --- the end ---

static void on_timer_closed(uv_handle_t *handle)
{
    struct redis_old *o = handle->data;
    if (o->closed && o->lock >= 0)
        (void)close(o->lock);
    if (o->closed)
        o->closed(o->closed_userdata);
    else
        o->options.done(o->result, o->lock, &o->e, o->options.userdata);
    free(o->lock_path);
    free(o);
}

static void finish(struct redis_old *o, int result)
{
    if (o->finishing)
        return;
    o->finishing = true;
    o->result = result;
    if (result < 0 && o->lock >= 0)
        (void)close(TAKE_FD(o->lock));
    (void)uv_timer_stop(&o->timer);
    pid_watch_cancel(TAKE_PTR(o->watch));
    uv_close((uv_handle_t *)&o->timer, on_timer_closed);
}

void redis_old_cancel(struct redis_old *o, void (*closed)(void *userdata), void *userdata)
{
    o->closed = closed;
    o->closed_userdata = userdata;
    finish(o, -ECANCELED);
}

// --- waiting for one ---

static void on_ended(int status, void *userdata)
{
    struct redis_old *o = userdata;
    (void)status;
    o->watch = NULL;
    (void)uv_timer_stop(&o->timer);
    look(o); // is there another one?
}

static void on_impatient(uv_timer_t *timer)
{
    struct redis_old *o = timer->data;
    if (o->kills++ > 0) {
        finish(o, err_set(&o->e, -EBUSY, "an old redis-server (pid %d) in %s does not end",
                          (int)o->pid, o->options.dir));
        return;
    }
    (void)pid_watch_signal(o->watch, SIGKILL);
    (void)uv_timer_start(&o->timer, on_impatient, o->options.patience_ms, 0);
}

static void end_it(struct redis_old *o, int socket)
{
    // At once by command; the signal is for one that still loads or is stuck (Redis looks at
    // signals hz times a second).
    static const char shutdown_now[] = "SHUTDOWN NOSAVE\r\n";
    if (socket >= 0)
        (void)!send(socket, shutdown_now, sizeof(shutdown_now) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)pid_watch_signal(o->watch, SIGTERM);
    o->kills = 0;
    (void)uv_timer_start(&o->timer, on_impatient, o->options.patience_ms, 0);
}

static void on_look_again(uv_timer_t *timer)
{
    look(timer->data);
}

// Somebody has the folder or the socket; `pid` is who (0 = unknown), `socket` an open connection to
// it or -1.
static int handle_owner(struct redis_old *o, pid_t pid, int socket)
{
    const char *dir = o->options.dir;
    bool watched = pid > 0 && pid_watch_start(o->options.loop, pid, on_ended, o, &o->watch) == 0;
    // Looked at after that: the pid can't be another's by now.
    enum place place = watched ? place_of(pid, dir) : PLACE_NONE;
    if (place == PLACE_OURS) {
        o->pid = pid;
        end_it(o, socket);
        return 0;
    }
    pid_watch_cancel(TAKE_PTR(o->watch));
    if (place == PLACE_OTHER && socket >= 0)
        return err_set(&o->e, -EADDRINUSE, "%s: process %d listens there and is not ours",
                       o->options.socket, (int)pid);
    if (uv_now(o->options.loop) >= o->given_up_at)
        return err_set(&o->e, -EBUSY, "%s is in use by a process that can't be told", dir);
    return uv_timer_start(&o->timer, on_look_again, LOOK_AGAIN_MS, 0);
}

static void look(struct redis_old *o)
{
    int r = o->lock >= 0 ? 0 : lock_file(o->lock_path, &o->lock, &o->e);
    cleanup_close int socket = connect_socket(o->options.socket);
    if (r == 0 && socket < 0) {
        finish(o, 0);
        return;
    }
    if (r == 0 || r == -EWOULDBLOCK)
        r = handle_owner(o, socket >= 0 ? socket_owner(socket) : noted_pid(o->lock_path), socket);
    if (r < 0)
        finish(o, r);
}

int redis_old_wait(const struct redis_old_options *options, struct redis_old **ret, struct err *e)
{
    struct redis_old *o = calloc(1, sizeof(*o));
    if (!o || asprintf(&o->lock_path, "%s/server.lock", options->dir) < 0) {
        free(o);
        return err_set(e, -ENOMEM, "out of memory");
    }
    o->options = *options;
    if (!o->options.patience_ms)
        o->options.patience_ms = DEFAULT_PATIENCE_MS;
    o->lock = -1;
    o->given_up_at = uv_now(options->loop) + 2 * o->options.patience_ms;
    (void)uv_timer_init(options->loop, &o->timer);
    o->timer.data = o;
    (void)uv_timer_start(&o->timer, on_look_again, 0, 0);
    *ret = o;
    return 0;
}
