// SPDX-License-Identifier: Apache-2.0
// How much all logs take on disk. Changes are counted as they are made; what was there before is
// counted by a thread after the start (100,000 logs take seconds). A log that changes while the
// thread passes may be counted by both: the sum is a bound for old logs, not an account. Whose they
// are is not known here: the list of them goes to who knows (master/cluster/lost_logs.c).
#include "master/logs/log_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct log_count {
    uv_work_t request;
    struct log_store *store; // NULL once it is closed
    int dir_fd;
    atomic_bool stop;
    int64_t sum;
    struct kept_log *logs;
    size_t n, capacity;
    bool incomplete; // out of memory: no list
    void (*found)(struct kept_log *logs, size_t n, void *userdata);
    void *userdata;
};

int64_t log_store_bytes(const struct log_store *s)
{
    return s->bytes;
}

static void note(struct log_count *k, const char *attempt, const struct log_listing *l)
{
    if (k->n == k->capacity) {
        size_t capacity = k->capacity ? 2 * k->capacity : 1024;
        struct kept_log *x = realloc(k->logs, capacity * sizeof(*x));
        if (!x) {
            k->incomplete = true;
            return;
        }
        k->logs = x;
        k->capacity = capacity;
    }
    struct kept_log *one = &k->logs[k->n++];
    *one = (struct kept_log){.written_ms = l->written_ms};
    (void)snprintf(one->attempt, sizeof(one->attempt), "%s", attempt);
}

static int by_attempt(const void *a, const void *b)
{
    return strcmp(((const struct kept_log *)a)->attempt, ((const struct kept_log *)b)->attempt);
}

static void count(uv_work_t *request)
{
    struct log_count *k = request->data;
    int fd = openat(k->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d && fd >= 0)
        (void)close(fd);
    for (const struct dirent *e; d && !k->stop && (e = readdir(d));) {
        struct log_listing l;
        if (!log_is_attempt(e->d_name) || log_segment_list(k->dir_fd, e->d_name, &l) < 0)
            continue;
        k->sum += (int64_t)l.bytes;
        note(k, e->d_name, &l);
    }
    if (d)
        (void)closedir(d);
    if (k->n > 0)
        qsort(k->logs, k->n, sizeof(*k->logs), by_attempt);
}

static void counted(uv_work_t *request, int status)
{
    struct log_count *k = request->data;
    (void)status;
    if (k->store) {
        k->store->bytes += k->sum;
        k->store->count = NULL;
        k->found(k->incomplete ? NULL : k->logs, k->incomplete ? 0 : k->n, k->userdata);
        if (!k->incomplete)
            k->logs = NULL;
    }
    free(k->logs);
    (void)close(k->dir_fd);
    free(k);
}

int log_store_count(struct log_store *s, uv_loop_t *loop,
                    void (*found)(struct kept_log *logs, size_t n, void *userdata), void *userdata)
{
    struct log_count *k = calloc(1, sizeof(*k));
    if (!k)
        return -ENOMEM;
    k->request.data = k;
    k->store = s;
    k->found = found;
    k->userdata = userdata;
    k->dir_fd = fcntl(s->dir_fd, F_DUPFD_CLOEXEC, 0); // the thread may outlive the store
    int r = k->dir_fd < 0 ? -errno : uv_queue_work(loop, &k->request, count, counted);
    if (r < 0) {
        if (k->dir_fd >= 0)
            (void)close(k->dir_fd);
        free(k);
        return r;
    }
    s->count = k;
    return 0;
}

void log_store_count_stop(struct log_store *s)
{
    if (!s->count)
        return;
    s->count->stop = true;
    s->count->store = NULL;
    s->count = NULL;
}
