// SPDX-License-Identifier: Apache-2.0
// The attempts that are being written, read or watched, and who hears of their changes. A finished
// attempt takes no memory; only the most recently written ones have a descriptor.
#include "master/logs/log_file.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"

#include <fcntl.h>
#include <string.h>
#include <utlist.h>

#define OPEN_MAX 64
#define SEGMENTS 8 // at the cap, about
#define SEGMENT_MIN (4u * 1024)
#define SEGMENT_MAX (1024u * 1024) // what is read at once when an attempt is first looked at
#define SEGMENTS_MAX 256

static const char *const channel_names[LOG_CHANNELS] = {"stdout", "stderr"};

const char *log_channel_to_string(enum log_channel c)
{
    return channel_names[c];
}

int log_channel_from_string(const char *text, enum log_channel *ret)
{
    for (int c = 0; c < LOG_CHANNELS; c++)
        if (strcmp(text, channel_names[c]) == 0) {
            *ret = (enum log_channel)c;
            return 0;
        }
    return -EINVAL;
}

bool log_is_attempt(const char *text)
{
    size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-");
    return n > 0 && n < LOG_ATTEMPT_BYTES && text[n] == '\0';
}

// --- the store ---

static void set_sizes(struct log_store *s, uint64_t cap)
{
    s->cap = cap > LOG_CAP_MIN ? cap : LOG_CAP_MIN;
    s->segment_aim = s->cap / SEGMENTS;
    if (s->segment_aim > SEGMENT_MAX)
        s->segment_aim = s->cap / SEGMENTS_MAX > SEGMENT_MAX ? s->cap / SEGMENTS_MAX : SEGMENT_MAX;
    if (s->segment_aim < SEGMENT_MIN)
        s->segment_aim = SEGMENT_MIN;
    s->segment_limit = s->segment_aim + s->segment_aim / 2;
}

int log_store_open(const char *dir, uint64_t cap, struct log_store **ret, struct err *e)
{
    int r = make_dirs(dir, 0700, e);
    if (r < 0)
        return r;
    cleanup_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, -errno, "%s", dir);
    struct log_store *s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(e, -ENOMEM, "out of memory");
    s->dir_fd = TAKE_FD(fd);
    set_sizes(s, cap);
    *ret = s;
    return 0;
}

static void forget(struct log_file *f)
{
    log_file_close(f);
    HASH_DEL(f->store->files, f);
    free(f);
}

void log_store_close(struct log_store *s)
{
    struct log_file *f, *next;
    if (!s)
        return;
    log_store_count_stop(s);
    HASH_ITER (hh, s->files, f, next) {
        forget(f);
    }
    (void)close(s->dir_fd);
    free(s);
}

// --- its files ---

static struct log_file *make(struct log_store *s, const char *attempt)
{
    struct log_file *f = calloc(1, sizeof(*f));
    if (!f)
        return NULL;
    f->store = s;
    f->fd = -1;
    memcpy(f->attempt, attempt, strlen(attempt) + 1);
    HASH_ADD_STR(s->files, attempt, f);
    return f;
}

int log_file_get(struct log_store *s, const char *attempt, struct log_file **ret)
{
    struct log_file *f;
    if (!log_is_attempt(attempt))
        return -EINVAL;
    HASH_FIND_STR(s->files, attempt, f);
    if (!f)
        f = make(s, attempt);
    if (!f)
        return -ENOMEM;
    f->users++;
    *ret = f;
    return 0;
}

void log_file_put(struct log_file *f)
{
    f->users--;
    if (f->users == 0 && !f->kept && !f->watches)
        forget(f);
}

void log_store_unused(struct log_file *f)
{
    struct log_store *s = f->store;
    if (!f->prev)
        return;
    DL_DELETE2(s->open, f, prev, next_open);
    f->prev = f->next_open = NULL;
    s->n_open--;
}

void log_store_used(struct log_file *f)
{
    struct log_store *s = f->store;
    log_store_unused(f);
    DL_APPEND2(s->open, f, prev, next_open);
    if (++s->n_open > OPEN_MAX)
        log_file_close(s->open);
}

// --- changes ---

// All are marked first: a watch may remove itself or any other, and one that is added hears of the
// next change.
static void tell(struct log_file *f, bool finished)
{
    struct log_watch *w;
    DL_FOREACH (f->watches, w) {
        w->due = true;
    }
    for (w = f->watches; w;) {
        if (!w->due) {
            w = w->next;
            continue;
        }
        w->due = false;
        w->changed(w, finished);
        w = f->watches;
    }
}

int log_store_append(struct log_store *s, const char *attempt, enum log_channel channel,
                     uint64_t offset, int64_t time_ms, const void *data, size_t len,
                     uint64_t *ret_next)
{
    struct log_file *f;
    if (offset > INT64_MAX || len > INT64_MAX - offset)
        return -EINVAL;
    int r = log_file_get(s, attempt, &f);
    if (r < 0)
        return r;
    r = log_file_load(f);
    uint64_t before = f->next[channel];
    if (r == 0)
        r = log_file_append(f, channel, offset, time_ms, data, len);
    bool grew = f->next[channel] > before;
    f->kept = f->kept || grew;
    if (r == 0)
        *ret_next = f->next[channel];
    if (grew)
        tell(f, false);
    log_file_put(f);
    return r;
}

int log_store_next(struct log_store *s, const char *attempt, enum log_channel channel,
                   uint64_t *ret_next)
{
    struct log_file *f;
    int r = log_file_get(s, attempt, &f);
    if (r < 0)
        return r;
    r = log_file_load(f);
    if (r == 0)
        *ret_next = f->next[channel];
    log_file_put(f);
    return r;
}

int log_store_finish(struct log_store *s, const char *attempt)
{
    struct log_file *f;
    int r = log_file_get(s, attempt, &f);
    if (r < 0)
        return r;
    r = log_file_finish(f);
    log_file_close(f);
    f->kept = false;
    tell(f, true);
    log_file_put(f);
    return r;
}

void log_store_delete(struct log_store *s, const char *attempt)
{
    struct log_file *f;
    if (log_file_get(s, attempt, &f) < 0)
        return;
    log_file_remove(f);
    tell(f, true);
    log_file_put(f);
}

// --- watches ---

int log_watch_add(struct log_store *s, const char *attempt, struct log_watch *w)
{
    struct log_file *f;
    int r = log_file_get(s, attempt, &f);
    if (r < 0)
        return r;
    w->file = f;
    w->due = false;
    DL_APPEND(f->watches, w);
    log_file_put(f);
    return 0;
}

void log_watch_remove(struct log_store *s, struct log_watch *w)
{
    (void)s;
    struct log_file *f = w->file;
    if (!f)
        return;
    DL_DELETE(f->watches, w);
    w->file = NULL;
    f->users++;
    log_file_put(f);
}
