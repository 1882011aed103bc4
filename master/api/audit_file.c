// SPDX-License-Identifier: Apache-2.0
// Appending, grouped syncing and rotation of the audit's file.
#include "master/api/audit_file.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/log.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 400
#define RETIRED_MAX 4 // rotated files that wait for their last sync

struct waiter {
    uint64_t lines; // called when this many are synced
    void (*fn)(int result, void *userdata);
    void *userdata;
    struct waiter *next;
};

struct audit_file {
    char folder[PATH_BYTES - 32];
    int fd;
    off_t size;
    size_t limit;
    unsigned keep;
    bool broken, closing, syncing, want_sync;
    uint64_t written, synced; // lines of this process
    struct waiter *first, *last;
    int retired[RETIRED_MAX];
    size_t n_retired;
    uv_async_t wake; // keeps the loop alive until closed, begins syncs
    uv_work_t work;
    struct { // of the sync under way
        int fds[RETIRED_MAX + 2];
        size_t n;
        uint64_t lines;
        int result;
    } job;
};

static void file_path(const char *folder, unsigned number, char out[PATH_BYTES])
{
    if (number == 0)
        (void)snprintf(out, PATH_BYTES, "%s/audit.log", folder);
    else
        (void)snprintf(out, PATH_BYTES, "%s/audit.log.%u", folder, number);
}

// --- syncing ---

static void sync_files(uv_work_t *work)
{
    struct audit_file *f = work->data;
    for (size_t i = 0; i < f->job.n; i++) {
        if ((i == 0 ? fsync(f->job.fds[i]) : fdatasync(f->job.fds[i])) < 0)
            f->job.result = -errno;
        (void)close(f->job.fds[i]);
    }
}

static void call_waiters(struct audit_file *f, uint64_t lines, int result)
{
    while (f->first && f->first->lines <= lines) {
        struct waiter *w = f->first;
        f->first = w->next;
        if (!f->first)
            f->last = NULL;
        w->fn(result, w->userdata);
        free(w);
    }
}

static void on_closed(uv_handle_t *handle)
{
    struct audit_file *f = handle->data;
    call_waiters(f, UINT64_MAX, -ECANCELED);
    if (f->fd >= 0)
        (void)close(f->fd);
    free(f);
}

static void begin_sync(struct audit_file *f);

static void sync_done(uv_work_t *work, int status)
{
    struct audit_file *f = work->data;
    int result = status < 0 ? status : f->job.result;
    f->syncing = false;
    if (result < 0) {
        log_error("audit", "%s: lines may not be on disk: %s", f->folder, strerror(-result));
        f->broken = true;
    }
    f->synced = f->job.lines;
    call_waiters(f, f->job.lines, result);
    if (f->synced < f->written)
        begin_sync(f);
    else if (f->closing)
        uv_close((uv_handle_t *)&f->wake, on_closed);
}

// The folder first: it holds the names of files that were rotated.
static void begin_sync(struct audit_file *f)
{
    int folder = open(f->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int current = fcntl(f->fd, F_DUPFD_CLOEXEC, 0);
    f->job.n = 0;
    f->job.result = folder < 0 || current < 0 ? -errno : 0;
    if (folder >= 0)
        f->job.fds[f->job.n++] = folder;
    if (current >= 0)
        f->job.fds[f->job.n++] = current;
    for (size_t i = 0; i < f->n_retired; i++)
        f->job.fds[f->job.n++] = f->retired[i];
    f->n_retired = 0;
    f->job.lines = f->written;
    f->syncing = true;
    f->work.data = f;
    (void)uv_queue_work(f->wake.loop, &f->work, sync_files, sync_done);
}

// At the end of the turn, so that all lines of a turn share one sync.
static void on_wake(uv_async_t *wake)
{
    struct audit_file *f = wake->data;
    if (f->syncing)
        return;
    if (f->synced < f->written)
        begin_sync(f);
    else if (f->closing)
        uv_close((uv_handle_t *)&f->wake, on_closed);
    else
        call_waiters(f, f->synced, 0);
}

bool audit_file_synced(const struct audit_file *f)
{
    return f->synced == f->written;
}

int audit_file_then(struct audit_file *f, void (*fn)(int result, void *userdata), void *userdata)
{
    struct waiter *w = malloc(sizeof(*w));
    if (!w)
        return -ENOMEM;
    *w = (struct waiter){f->written, fn, userdata, NULL};
    if (f->last)
        f->last->next = w;
    else
        f->first = w;
    f->last = w;
    (void)uv_async_send(&f->wake);
    return 0;
}

// --- writing ---

static int open_current(struct audit_file *f)
{
    char path[PATH_BYTES];
    struct stat st;
    file_path(f->folder, 0, path);
    f->fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (f->fd < 0 || fstat(f->fd, &st) < 0)
        return -errno;
    f->size = st.st_size;
    char end = '\n';
    if (f->size > 0 && pread(f->fd, &end, 1, f->size - 1) == 1 && end != '\n')
        return audit_file_append(f, "", 0);
    return 0;
}

static int rotate(struct audit_file *f)
{
    char from[PATH_BYTES], to[PATH_BYTES];
    for (unsigned i = f->keep - 1; i > 0; i--) {
        file_path(f->folder, i - 1, from);
        file_path(f->folder, i, to);
        if (rename(from, to) < 0 && errno != ENOENT)
            return -errno;
    }
    int old = f->fd;
    int r = open_current(f);
    if (r < 0) {
        if (f->fd >= 0)
            (void)close(f->fd);
        f->fd = old; // goes on in the renamed file
        return r;
    }
    if (f->n_retired == RETIRED_MAX) {
        (void)fdatasync(old);
        (void)close(old);
    } else {
        f->retired[f->n_retired++] = old;
    }
    return 0;
}

int audit_file_append(struct audit_file *f, const char *line, size_t len)
{
    cleanup_free char *whole = malloc(len + 1);
    if (!whole)
        return -ENOMEM;
    memcpy(whole, line, len);
    whole[len] = '\n';
    int r = f->size > 0 && (size_t)f->size + len >= f->limit ? rotate(f) : 0;
    if (r < 0)
        log_error("audit", "%s: rotation: %s", f->folder, strerror(-r));
    r = write_all(f->fd, whole, len + 1);
    f->broken = r < 0;
    if (r < 0) {
        if (ftruncate(f->fd, f->size) < 0)
            log_error("audit", "%s: half a line is left", f->folder);
        return r;
    }
    f->size += (off_t)len + 1;
    f->written++;
    (void)uv_async_send(&f->wake);
    return 0;
}

bool audit_file_ok(const struct audit_file *f)
{
    return !f->broken;
}

// --- life ---

int audit_file_open(uv_loop_t *loop, const char *folder, size_t bytes, unsigned keep,
                    struct audit_file **ret, struct err *e)
{
    int r = make_dirs(folder, 0700, e);
    if (r < 0)
        return r;
    struct audit_file *f = calloc(1, sizeof(*f));
    if (!f)
        return err_set(e, -ENOMEM, "out of memory");
    if (strlen(folder) >= sizeof(f->folder)) {
        free(f);
        return err_set(e, -ENAMETOOLONG, "%s: too long", folder);
    }
    (void)snprintf(f->folder, sizeof(f->folder), "%s", folder);
    f->limit = bytes;
    f->keep = keep < 2 ? 2 : keep;
    f->wake.data = f;
    r = uv_async_init(loop, &f->wake, on_wake);
    if (r < 0) {
        free(f);
        return err_errno(e, r, "audit");
    }
    r = open_current(f);
    if (r < 0) {
        uv_close((uv_handle_t *)&f->wake, on_closed);
        return err_errno(e, r, "%s/audit.log", folder);
    }
    *ret = f;
    return 0;
}

void audit_file_close(struct audit_file *f)
{
    if (!f)
        return;
    f->closing = true;
    (void)uv_async_send(&f->wake);
}
