// SPDX-License-Identifier: Apache-2.0
// The child that makes a backup, and the schedule. The child's standard error is kept for the
// reason of a failure.
#include "master/backup/backup.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"

#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define RETRY_MS INT64_C(600000)    // after a failure of a scheduled one
#define LONGEST_MS INT64_C(3600000) // the clock is looked at once an hour: it may have been set

// One child and what it says. Lives until both handles are closed, if need be longer than the
// backup that started it.
struct making {
    struct backup *owner; // NULL = nobody waits any more
    uv_process_t child;
    uv_pipe_t errors;
    bool exited, drained;
    int open;
    bool failed;
    char text[400], piece[400];
    size_t len;
    void (*done)(int result, const struct err *e, void *userdata);
    void *userdata;
};

struct backup {
    struct backup_options o;
    struct making *making; // NULL = none is being made
    uv_timer_t timer;
    int64_t newest_ms;
    char path[PATH_MAX]; // of the scheduled one that is being made
};

// --- the child ---

static void on_handle_closed(uv_handle_t *handle)
{
    struct making *m = handle->data;
    struct err e = {""};
    if (--m->open > 0)
        return;
    m->text[strcspn(m->text, "\n")] = '\0';
    int r = m->failed ? err_set(&e, -EIO, "%s", m->text[0] ? m->text : "its process was ended") : 0;
    if (m->owner) {
        m->owner->making = NULL;
        m->done(r, &e, m->userdata);
    }
    free(m);
}

static void end_when_both(struct making *m)
{
    if (!m->exited || !m->drained)
        return;
    uv_close((uv_handle_t *)&m->child, on_handle_closed);
    uv_close((uv_handle_t *)&m->errors, on_handle_closed);
}

static void on_exit_child(uv_process_t *child, int64_t status, int signal)
{
    struct making *m = child->data;
    m->failed = status != 0 || signal != 0;
    m->exited = true;
    end_when_both(m);
}

static void give_piece(uv_handle_t *handle, size_t wanted, uv_buf_t *ret)
{
    struct making *m = handle->data;
    (void)wanted;
    *ret = uv_buf_init(m->piece, sizeof(m->piece));
}

static void on_errors(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct making *m = stream->data;
    if (n > 0) {
        size_t room = sizeof(m->text) - 1 - m->len;
        size_t take = (size_t)n < room ? (size_t)n : room;
        memcpy(m->text + m->len, buf->base, take);
        m->len += take;
    } else if (n < 0) {
        m->drained = true;
        end_when_both(m);
    }
}

static int spawn(struct making *m, const struct backup_options *o, const char *path)
{
    const char *argv[] = {o->program,     "--backup", path, o->config_path ? "--config" : NULL,
                          o->config_path, NULL};
    char *args[ARRAY_SIZE(argv)];
    uv_stdio_container_t stdio[] = {
        {.flags = UV_IGNORE},
        {.flags = UV_IGNORE},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&m->errors}};
    memcpy(args, argv, sizeof(args)); // uv wants char **, and doesn't write through it
    const uv_process_options_t p = {.file = o->program,
                                    .args = args,
                                    .exit_cb = on_exit_child,
                                    .stdio = stdio,
                                    .stdio_count = ARRAY_SIZE(stdio)};
    (void)uv_pipe_init(o->loop, &m->errors, 0);
    m->child.data = m->errors.data = m;
    m->open = 2;
    int r = uv_spawn(o->loop, &m->child, &p);
    if (r == 0)
        r = uv_read_start((uv_stream_t *)&m->errors, give_piece, on_errors);
    return r;
}

int backup_start(struct backup *b, const char *path,
                 void (*done)(int result, const struct err *e, void *userdata), void *userdata,
                 struct err *e)
{
    if (b->making)
        return err_set(e, -EBUSY, "a backup is being made already");
    struct making *m = calloc(1, sizeof(*m));
    if (!m)
        return err_set(e, -ENOMEM, "out of memory");
    m->done = done;
    m->userdata = userdata;
    int r = spawn(m, &b->o, path);
    if (r < 0) { // its handles go by themselves; nobody is told
        m->exited = m->drained = true;
        end_when_both(m);
        return err_set(e, r, "%s can't be run: %s", b->o.program, uv_strerror(r));
    }
    m->owner = b;
    b->making = m;
    return 0;
}

// --- the schedule ---

static bool is_scheduled(const struct backup *b, const char *name)
{
    char prefix[128];
    size_t len = strlen(name);
    (void)snprintf(prefix, sizeof(prefix), "meadow-%.80s-", b->o.cluster);
    return strncmp(name, prefix, strlen(prefix)) == 0 && len > 4 &&
           strcmp(name + len - 4, ".tar") == 0;
}

static int newest_first(const struct dirent **a, const struct dirent **b)
{
    return -strcmp((*a)->d_name, (*b)->d_name); // the time is in the name
}

// Notes the newest and removes what is beyond `keep`.
static void look_at_folder(struct backup *b)
{
    struct dirent **list = NULL;
    char path[PATH_MAX];
    struct stat st;
    int64_t kept = 0;
    int n = scandir(b->o.to, &list, NULL, newest_first);
    b->newest_ms = 0;
    for (int i = 0; i < n; i++) {
        bool ours = is_scheduled(b, list[i]->d_name) &&
                    snprintf(path, sizeof(path), "%s/%s", b->o.to, list[i]->d_name) < PATH_MAX &&
                    stat(path, &st) == 0;
        if (ours && kept == 0)
            b->newest_ms = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
        if (ours && ++kept > b->o.keep && unlink(path) < 0)
            log_warn("backup", "%s can't be removed: %s", path, strerror(errno));
        free(list[i]);
    }
    free(list);
}

static void on_timer(uv_timer_t *timer);

static void plan_next(struct backup *b, int64_t wait_ms)
{
    int64_t wait = wait_ms < 0 ? 0 : wait_ms > LONGEST_MS ? LONGEST_MS : wait_ms;
    (void)uv_timer_start(&b->timer, on_timer, (uint64_t)wait, 0);
}

static void on_scheduled(int result, const struct err *e, void *userdata)
{
    struct backup *b = userdata;
    b->o.scheduled(result < 0 ? NULL : b->path, e, b->o.userdata);
    if (result == 0)
        look_at_folder(b);
    plan_next(b, result < 0 ? RETRY_MS : b->o.every_ms);
}

static void make_scheduled(struct backup *b)
{
    struct err e = {""};
    struct tm tm;
    char text[32];
    time_t now = clock_real_ms() / 1000;
    (void)strftime(text, sizeof(text), "%Y%m%dT%H%M%SZ", gmtime_r(&now, &tm));
    (void)snprintf(b->path, sizeof(b->path), "%.3900s/meadow-%.80s-%s.tar", b->o.to, b->o.cluster,
                   text);
    int r = backup_start(b, b->path, on_scheduled, b, &e);
    if (r < 0)
        on_scheduled(r, &e, b);
}

static void on_timer(uv_timer_t *timer)
{
    struct backup *b = timer->data;
    int64_t now = clock_real_ms();
    int64_t due = b->newest_ms + b->o.every_ms;
    // A newest file from the future is one of before the clock was set back: not waited for.
    if (b->newest_ms == 0 || b->newest_ms > now || now >= due)
        make_scheduled(b);
    else
        plan_next(b, due - now);
}

// --- life ---

// What a backup or a restore left that was cut off: it holds keys. The caller has the data folder's
// lock, so nobody is at it.
static void sweep_leftovers(const char *data_dir)
{
    static const char *const begin[] = {"backup.", "restore."};
    char path[PATH_MAX];
    struct err e = {""};
    DIR *d = opendir(data_dir);
    for (const struct dirent *f; d && (f = readdir(d));)
        for (size_t i = 0; i < ARRAY_SIZE(begin); i++)
            if (strncmp(f->d_name, begin[i], strlen(begin[i])) == 0 &&
                snprintf(path, sizeof(path), "%s/%s", data_dir, f->d_name) < PATH_MAX &&
                remove_tree(path, &e) < 0)
                log_warn("backup", "%s", e.text);
    if (d)
        (void)closedir(d);
}

int backup_new(const struct backup_options *o, struct backup **ret, struct err *e)
{
    struct backup *b = calloc(1, sizeof(*b));
    if (!b)
        return err_set(e, -ENOMEM, "out of memory");
    b->o = *o;
    sweep_leftovers(o->data_dir);
    (void)uv_timer_init(o->loop, &b->timer);
    b->timer.data = b;
    if (o->to && o->every_ms) {
        look_at_folder(b);
        plan_next(b, 0);
    }
    *ret = b;
    return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void backup_close(struct backup *b)
{
    struct err e = {"the master is stopping"};
    if (!b)
        return;
    if (b->making) {
        b->making->owner = NULL;
        (void)uv_process_kill(&b->making->child, SIGTERM);
        b->making->done(-ECANCELED, &e, b->making->userdata);
    }
    uv_close((uv_handle_t *)&b->timer, on_timer_closed);
}
