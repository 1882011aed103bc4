// SPDX-License-Identifier: Apache-2.0
// Supervises the redis-server child: wait out an old one, spawn, restart with backoff, stop. Two
// locks: `owner_lock` is this process's alone and keeps a second master away; dir/server.lock is
// inherited by the child and tells the next master that an old server still lives (redis_old.c). A
// restart is quick after a kill and slower each time when the child ends again without having done
// any work (a full disk).
#include "master/store/redis_server.h"

#include "common/atomic_file.h"
#include "common/backoff.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/log_file.h"
#include "master/store/redis_aof.h"
#include "master/store/redis_old.h"

#include <assert.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEFAULT_PATIENCE_MS 5000
#define STABLE_MS 60000 // a child that lived this long may be restarted quickly
#define LOAD_FAILURES_MAX 3
#define LOG_TAIL_BYTES 4096
#define EXIT_NO_PROGRAM 126 // setpriv: 126 can't be executed, 127 not found

struct redis_server {
    uv_loop_t *loop;
    char *dir, *socket, *log_path, *pid_path, *program;
    void (*started)(void *userdata);
    void (*ended)(const char *reason, void *userdata);
    void (*failed)(int error, const struct err *e, void *userdata);
    void *userdata;
    uint64_t patience_ms;

    int owner_lock;
    int server_lock;
    struct redis_old *old;
    uv_process_t *child; // NULL = not running
    bool loaded;
    unsigned load_failures; // in a row
    int64_t started_ms;
    off_t log_start;  // where this child's part of the log begins
    uv_timer_t timer; // restart; while closing: the child's patience
    struct backoff backoff;
    char reason[400];
    bool closing;
    void (*closed)(void *userdata);
    void *closed_userdata;
};

static void spawn_child(struct redis_server *s);
static void close_timer(struct redis_server *s);

// --- why it ended ---

// The child's last line of level "#" (warning) in its log: Redis tells there why it gives up. ""
// when there is none.
static void last_warning(const struct redis_server *s, char *out, size_t size)
{
    char tail[LOG_TAIL_BYTES + 1];
    out[0] = '\0';
    cleanup_fclose FILE *f = s->log_path ? fopen(s->log_path, "re") : NULL;
    if (!f || fseeko(f, 0, SEEK_END) < 0)
        return;
    off_t end = ftello(f);
    off_t start = end - s->log_start > LOG_TAIL_BYTES ? end - LOG_TAIL_BYTES : s->log_start;
    if (start > end || fseeko(f, start, SEEK_SET) < 0)
        return;
    tail[fread(tail, 1, LOG_TAIL_BYTES, f)] = '\0';
    char *save = NULL;
    for (char *line = strtok_r(tail, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        const char *text = strstr(line, " # ");
        if (text)
            (void)snprintf(out, size, "%s", text + 3);
    }
}

static void describe_end(struct redis_server *s, int64_t status, int signal)
{
    char warning[250];
    if (signal) {
        (void)snprintf(s->reason, sizeof(s->reason), "redis-server was ended by signal %d", signal);
        return;
    }
    last_warning(s, warning, sizeof(warning));
    (void)snprintf(s->reason, sizeof(s->reason), "redis-server ended with status %d%s%s",
                   (int)status, warning[0] ? ": " : "", warning);
}

static void report_failure(struct redis_server *s, int64_t status)
{
    struct err e = {""};
    if (status >= EXIT_NO_PROGRAM) {
        s->failed(err_set(&e, -ENOENT, "%s can't be run", s->program), &e, s->userdata);
        return;
    }
    (void)err_set(&e, -EIO,
                  "%s; %u times in a row while it loads %s/appendonlydir. When a file is damaged: "
                  "make a copy of the folder, "
                  "then run redis-check-aof --fix %s/appendonlydir/appendonly.aof.manifest",
                  s->reason, s->load_failures, s->dir, s->dir);
    s->failed(-EIO, &e, s->userdata);
}

// --- the child ---

static void on_process_closed(uv_handle_t *handle)
{
    free(handle);
}

static void on_restart(uv_timer_t *timer)
{
    spawn_child(timer->data);
}

static void restart_later(struct redis_server *s)
{
    (void)uv_timer_start(&s->timer, on_restart, backoff_fail(&s->backoff), 0);
}

static void after_end(struct redis_server *s, int64_t status, int signal)
{
    bool in_loading = !s->loaded && !signal;
    s->load_failures = in_loading ? s->load_failures + 1 : 0;
    if (clock_mono_ms() - s->started_ms >= STABLE_MS)
        (void)backoff_reset(&s->backoff);
    describe_end(s, status, signal);
    restart_later(s);
    s->ended(s->reason, s->userdata);
    bool hopeless =
        in_loading && (s->load_failures == LOAD_FAILURES_MAX || status >= EXIT_NO_PROGRAM);
    if (hopeless && !s->closing)
        report_failure(s, status);
}

static void on_exit_child(uv_process_t *process, int64_t status, int signal)
{
    struct redis_server *s = process->data;
    s->child = NULL;
    uv_close((uv_handle_t *)process, on_process_closed);
    if (s->pid_path)
        (void)unlink(s->pid_path);
    if (s->closing)
        close_timer(s);
    else
        after_end(s, status, signal);
}

static int run(struct redis_server *s, char **argv)
{
    // The lock's descriptor is the child's 3: held until the last process that has it is gone.
    uv_stdio_container_t stdio[] = {{.flags = UV_IGNORE},
                                    {.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
                                    {.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
                                    {.flags = UV_INHERIT_FD, .data.fd = s->server_lock}};
    uv_process_options_t o = {.exit_cb = on_exit_child,
                              .file = argv[0],
                              .args = argv,
                              .cwd = s->dir,
                              .stdio = stdio,
                              .stdio_count = ARRAY_SIZE(stdio)};
    uv_process_t *process = calloc(1, sizeof(*process));
    if (!process)
        return -ENOMEM;
    process->data = s;
    int r = uv_spawn(s->loop, process, &o);
    if (r < 0) {
        uv_close((uv_handle_t *)process, on_process_closed);
        return r;
    }
    s->child = process;
    return 0;
}

static int start(struct redis_server *s)
{
    const char *argv[] = {
        "setpriv", "--pdeathsig", "TERM", s->program,
        // Reachable by the socket's owner alone.
        "--port", "0", "--unixsocket", s->socket, "--unixsocketperm", "700", "--maxclients", "64",
        // Durable before each answer; the file is rewritten when it has doubled.
        "--dir", s->dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always",
        "--auto-aof-rewrite-percentage", "100", "--auto-aof-rewrite-min-size", "64mb",
        // A backup takes the state as a replica does, which waits for no others.
        "--repl-diskless-sync-delay", "0",
        // Nothing is ever evicted; one wake-up a second when idle.
        "--maxmemory-policy", "noeviction", "--hz", "1", "--databases", "1", "--daemonize", "no",
        "--loglevel", "notice", "--logfile", s->log_path ? s->log_path : "", NULL};
    char *args[ARRAY_SIZE(argv)];
    struct stat st;
    memcpy(args, argv, sizeof(args)); // uv wants char **, and doesn't write through it
    if (s->log_path)
        log_file_bound(s->log_path);
    s->log_start = s->log_path && stat(s->log_path, &st) == 0 ? st.st_size : 0;
    s->loaded = false;
    s->started_ms = clock_mono_ms();
    return run(s, args);
}

static void mend_file(const struct redis_server *s)
{
    struct err e = {""};
    int64_t cut = 0;
    if (redis_aof_cut_zeros(s->dir, &cut, &e) < 0)
        log_warn("store", "looking at Redis' file: %s", e.text); // it says itself what is wrong
    else if (cut > 0)
        log_warn("store",
                 "%lld zero bytes at the end of Redis' file, as a crash of the machine leaves "
                 "them, were cut off: nothing that was acknowledged is in them",
                 (long long)cut);
}

static void spawn_child(struct redis_server *s)
{
    struct err e = {""};
    char pid[32];
    mend_file(s);
    int r = start(s);
    if (r < 0) {
        (void)snprintf(s->reason, sizeof(s->reason), "setpriv can't be run: %s", uv_strerror(r));
        restart_later(s);
        s->ended(s->reason, s->userdata);
        if (r == -ENOENT && s->load_failures++ == 0 && !s->closing)
            s->failed(err_set(&e, r, "%s (package util-linux)", s->reason), &e, s->userdata);
        return;
    }
    redis_old_note(s->server_lock, s->child->pid);
    int n = snprintf(pid, sizeof(pid), "%d\n", s->child->pid);
    if (s->pid_path && atomic_file_write(s->pid_path, pid, (size_t)n, 0644, &e) < 0)
        log_warn("store", "%s", e.text);
    s->started(s->userdata);
}

pid_t redis_server_pid(const struct redis_server *s)
{
    return s && s->child ? s->child->pid : 0;
}

void redis_server_loaded(struct redis_server *s)
{
    if (!s)
        return;
    s->loaded = true;
    s->load_failures = 0;
}

void redis_server_settled(struct redis_server *s)
{
    if (s)
        (void)backoff_reset(&s->backoff);
}

// --- life ---

static void server_free(struct redis_server *s)
{
    if (s->owner_lock >= 0)
        (void)close(s->owner_lock);
    if (s->server_lock >= 0)
        (void)close(s->server_lock);
    free(s->dir);
    free(s->socket);
    free(s->log_path);
    free(s->pid_path);
    free(s->program);
    free(s);
}

static void on_old_gone(int result, int lock, const struct err *e, void *userdata)
{
    struct redis_server *s = userdata;
    s->old = NULL;
    s->server_lock = lock;
    if (result < 0)
        s->failed(result, e, s->userdata);
    else
        spawn_child(s);
}

// The child works in a folder of its own, so that relative names must not reach it. NULL path =
// NULL, 0.
static int absolute(const char *path, char **ret)
{
    cleanup_free char *cwd = path && path[0] != '/' ? getcwd(NULL, 0) : NULL;
    if (!path)
        return 0;
    if (path[0] == '/')
        *ret = strdup(path);
    else if (!cwd || asprintf(ret, "%s/%s", cwd, path) < 0)
        *ret = NULL;
    return *ret ? 0 : -ENOMEM;
}

static int set_paths(struct redis_server *s, const struct redis_server_options *o, struct err *e)
{
    int r = make_dirs(o->dir, 0700, e);
    if (r < 0)
        return r;
    s->dir = realpath(o->dir, NULL);
    if (!s->dir)
        return err_errno(e, -errno, "%s", o->dir);
    r = absolute(o->socket, &s->socket);
    if (r == 0)
        r = absolute(o->log_path, &s->log_path);
    if (r == 0)
        r = absolute(o->pid_path, &s->pid_path);
    const char *program = o->program ? o->program : "redis-server";
    if (r == 0 && strchr(program, '/'))
        r = absolute(program, &s->program);
    else if (r == 0)
        r = (s->program = strdup(program)) ? 0 : -ENOMEM;
    return r < 0 ? err_set(e, r, "out of memory") : 0;
}

static int take_owner_lock(struct redis_server *s, struct err *e)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/owner.lock", s->dir);
    int r = lock_file(path, &s->owner_lock, e);
    return r == -EWOULDBLOCK ? err_set(e, r, "%s: another master uses this folder", s->dir) : r;
}

int redis_server_new(const struct redis_server_options *o, struct redis_server **ret, struct err *e)
{
    struct redis_server *s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(e, -ENOMEM, "out of memory");
    s->loop = o->loop;
    s->started = o->started;
    s->ended = o->ended;
    s->failed = o->failed;
    s->userdata = o->userdata;
    s->patience_ms = o->patience_ms ? o->patience_ms : DEFAULT_PATIENCE_MS;
    s->owner_lock = s->server_lock = -1;
    backoff_init(&s->backoff, 10, 10000);
    int r = set_paths(s, o, e);
    if (r == 0)
        r = take_owner_lock(s, e);
    struct redis_old_options old = {s->loop, s->dir, s->socket, s->patience_ms, on_old_gone, s};
    if (r == 0)
        r = redis_old_wait(&old, &s->old, e);
    if (r < 0) {
        server_free(s);
        return r;
    }
    (void)uv_timer_init(s->loop, &s->timer);
    s->timer.data = s;
    *ret = s;
    return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct redis_server *s = handle->data;
    s->closed(s->closed_userdata);
    server_free(s);
}

static void close_timer(struct redis_server *s)
{
    uv_close((uv_handle_t *)&s->timer, on_timer_closed);
}

static void on_old_cancelled(void *userdata)
{
    close_timer(userdata);
}

static void on_patience_over(uv_timer_t *timer)
{
    struct redis_server *s = timer->data;
    log_warn("store", "redis-server (pid %d) did not end in time: killed", s->child->pid);
    (void)uv_process_kill(s->child, SIGKILL);
}

void redis_server_close(struct redis_server *s, void (*closed)(void *userdata), void *userdata)
{
    assert(!s->closing);
    s->closing = true;
    s->closed = closed;
    s->closed_userdata = userdata;
    (void)uv_timer_stop(&s->timer);
    if (s->old) {
        redis_old_cancel(s->old, on_old_cancelled, s);
    } else if (s->child) {
        (void)uv_process_kill(s->child, SIGTERM);
        (void)uv_timer_start(&s->timer, on_patience_over, s->patience_ms, 0);
    } else {
        close_timer(s);
    }
}
