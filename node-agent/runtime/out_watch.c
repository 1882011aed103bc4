// SPDX-License-Identifier: Apache-2.0
// Records are renamed into place, so IN_MOVED_TO says exactly "whole and there", and the log files
// that are created beside them wake nobody.
#include "node-agent/runtime/out_watch.h"

#include "common/cleanup.h"

#include <string.h>
#include <sys/inotify.h>
#include <uthash.h>

struct watched {
    char id[ATTEMPT_ID_BYTES];
    int wd;
    UT_hash_handle by_id, by_wd;
};

struct out_watch {
    uv_poll_t poll;
    int fd;
    const struct attempt_dirs *dirs; // weak
    void (*changed)(const char *id, void *userdata);
    void *userdata;
    struct watched *ids, *wds;
    bool closing;
};

static void tell_all(struct out_watch *w)
{
    struct watched *x, *next;
    HASH_ITER (by_id, w->ids, x, next) {
        char id[ATTEMPT_ID_BYTES];
        memcpy(id, x->id, sizeof(id));
        w->changed(id, w->userdata);
        if (w->closing)
            return;
    }
}

static bool is_record(const char *name)
{
    return strcmp(name, "started") == 0 || strcmp(name, "exit") == 0 || strcmp(name, "health") == 0;
}

static void on_event(struct out_watch *w, const struct inotify_event *ev)
{
    struct watched *x;
    if (ev->mask & IN_Q_OVERFLOW) {
        tell_all(w);
        return;
    }
    if (ev->len == 0 || !is_record(ev->name))
        return;
    HASH_FIND(by_wd, w->wds, &ev->wd, sizeof(ev->wd), x);
    if (!x)
        return;
    char id[ATTEMPT_ID_BYTES]; // the listener may remove the entry
    memcpy(id, x->id, sizeof(id));
    w->changed(id, w->userdata);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct out_watch *w = container_of(poll, struct out_watch, poll);
    char buf[8192] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t n = read(w->fd, buf, sizeof(buf));
    (void)status;
    (void)events;
    for (char *p = buf; n > 0 && p < buf + n && !w->closing;) {
        const struct inotify_event *ev = (const struct inotify_event *)(void *)p;
        p += sizeof(*ev) + ev->len;
        on_event(w, ev);
    }
}

int out_watch_new(uv_loop_t *loop, const struct attempt_dirs *dirs,
                  void (*changed)(const char *id, void *userdata), void *userdata,
                  struct out_watch **ret, struct err *e)
{
    struct out_watch *w = calloc(1, sizeof(*w));
    if (!w)
        return err_set(e, -ENOMEM, "out of memory");
    *w = (struct out_watch){.dirs = dirs, .changed = changed, .userdata = userdata};
    w->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    int r = w->fd < 0 ? -errno : uv_poll_init(loop, &w->poll, w->fd);
    if (r < 0) {
        if (w->fd >= 0)
            (void)close(w->fd);
        free(w);
        return err_errno(e, r, "watch the attempts' folders");
    }
    (void)uv_poll_start(&w->poll, UV_READABLE, on_readable);
    *ret = w;
    return 0;
}

int out_watch_add(struct out_watch *w, const char *id, struct err *e)
{
    struct watched *x;
    char path[ATTEMPT_PATH_BYTES];
    HASH_FIND(by_id, w->ids, id, strlen(id), x);
    if (x)
        return 0;
    attempt_path(w->dirs, id, "out", path);
    int wd = inotify_add_watch(w->fd, path, IN_MOVED_TO | IN_ONLYDIR);
    if (wd < 0)
        return err_errno(e, -errno, "watch %s", path);
    x = calloc(1, sizeof(*x));
    if (!x) {
        (void)inotify_rm_watch(w->fd, wd);
        return err_set(e, -ENOMEM, "out of memory");
    }
    (void)snprintf(x->id, sizeof(x->id), "%s", id);
    x->wd = wd;
    HASH_ADD(by_id, w->ids, id, strlen(x->id), x);
    HASH_ADD(by_wd, w->wds, wd, sizeof(x->wd), x);
    return 0;
}

static void drop(struct out_watch *w, struct watched *x)
{
    HASH_DELETE(by_id, w->ids, x);
    HASH_DELETE(by_wd, w->wds, x);
    (void)inotify_rm_watch(w->fd, x->wd); // fails when the folder is gone: fine
    free(x);
}

void out_watch_remove(struct out_watch *w, const char *id)
{
    struct watched *x;
    HASH_FIND(by_id, w->ids, id, strlen(id), x);
    if (x)
        drop(w, x);
}

static void on_closed(uv_handle_t *h)
{
    free(container_of((uv_poll_t *)h, struct out_watch, poll));
}

void out_watch_close(struct out_watch *w)
{
    struct watched *x, *next;
    w->closing = true;
    HASH_ITER (by_id, w->ids, x, next)
        drop(w, x);
    (void)uv_poll_stop(&w->poll);
    (void)close(w->fd);
    uv_close((uv_handle_t *)&w->poll, on_closed);
}
