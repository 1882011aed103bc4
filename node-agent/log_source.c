// SPDX-License-Identifier: Apache-2.0
// Segments and times of one log stream (layout: proto/AGENT.md). A segment may be removed, or the
// times file replaced, at any moment between two calls here: then the next look finds what is there
// now. The task itself can write into this folder, so only regular files are read and no number in
// them is believed without a check.
#include "node-agent/log_source.h"

#include "common/cleanup.h"

#include <dirent.h>
#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct segment {
    uint64_t offset;
    uint64_t size;
};

const char *log_stream_to_string(enum log_stream s)
{
    return s == LOG_STDERR ? "stderr" : "stdout";
}

// "<stream>.<20 digits>".
static bool segment_offset(const char *name, enum log_stream stream, uint64_t *ret)
{
    const char *prefix = log_stream_to_string(stream);
    size_t len = strlen(prefix);
    char *end;

    if (strncmp(name, prefix, len) != 0 || name[len] != '.')
        return false;
    name += len + 1;
    if (strlen(name) != 20 || strspn(name, "0123456789") != 20)
        return false;
    errno = 0;
    *ret = strtoull(name, &end, 10);
    return errno == 0 && *ret < INT64_MAX;
}

// Calls `visit` for each segment of the stream, in no order.
static int each_segment(int dir_fd, enum log_stream stream,
                        void (*visit)(const struct segment *, void *), void *userdata)
{
    const struct dirent *entry;
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir) {
        int r = -errno;
        if (fd >= 0)
            (void)close(fd);
        return r;
    }
    while ((entry = readdir(dir))) {
        struct segment s;
        struct stat st;
        if (!segment_offset(entry->d_name, stream, &s.offset) ||
            fstatat(dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
            continue;
        s.size = (uint64_t)st.st_size;
        visit(&s, userdata);
    }
    (void)closedir(dir);
    return 0;
}

// The first segment that has a byte at or above an offset.
struct search {
    uint64_t offset;
    struct segment best;
    bool found;
};

static void consider(const struct segment *s, void *userdata)
{
    struct search *search = userdata;

    if (s->size == 0 || s->offset + s->size <= search->offset)
        return;
    if (!search->found || s->offset < search->best.offset) {
        search->best = *s;
        search->found = true;
    }
}

// --- times ---------------------------------------------------------------------------------------

struct times {
    int fd; // -1 = none
    uint64_t count;
};

struct time_record {
    uint64_t offset;
    uint64_t time_ms;
};

static struct times times_open_at(int dir_fd, enum log_stream stream)
{
    char name[32];
    struct stat st;
    struct times t = {.fd = -1};

    (void)snprintf(name, sizeof(name), "%s.times", log_stream_to_string(stream));
    t.fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (t.fd >= 0 && fstat(t.fd, &st) == 0 && S_ISREG(st.st_mode))
        t.count = (uint64_t)st.st_size / sizeof(struct time_record);
    return t;
}

static bool times_get(const struct times *t, uint64_t i, struct time_record *ret)
{
    struct time_record raw;

    if (i >= t->count || pread(t->fd, &raw, sizeof(raw), (off_t)(i * sizeof(raw))) != sizeof(raw))
        return false;
    ret->offset = le64toh(raw.offset);
    ret->time_ms = le64toh(raw.time_ms);
    return true;
}

// Index of the last record at or below the offset; count when there is none.
static uint64_t times_find(const struct times *t, uint64_t offset)
{
    uint64_t low = 0;
    uint64_t high = t->count;
    struct time_record r;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (!times_get(t, middle, &r) || r.offset > offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low ? low - 1 : t->count;
}

// --- frames --------------------------------------------------------------------------------------

static void put_frame(struct strbuf *out, uint64_t time_ms, const char *data, size_t len)
{
    uint64_t when = htole64(time_ms);
    uint32_t length = htole32((uint32_t)len);

    strbuf_append(out, &when, sizeof(when));
    strbuf_append(out, &length, sizeof(length));
    strbuf_append(out, data, len);
}

// Cuts bytes that begin at `offset` into frames at the time records.
static void put_frames(const struct times *times, uint64_t offset, const char *data, size_t len,
                       int64_t fallback_ms, struct strbuf *out)
{
    struct time_record current = {.time_ms = (uint64_t)fallback_ms};
    struct time_record next;
    uint64_t i = times_find(times, offset);
    uint64_t following = i == times->count ? 0 : i + 1;

    (void)times_get(times, i, &current);
    while (len > 0) {
        size_t n = len;
        bool more = times_get(times, following, &next);
        if (more && next.offset > offset && next.offset - offset < n)
            n = (size_t)(next.offset - offset);
        put_frame(out, current.time_ms, data, n);
        offset += n;
        data += n;
        len -= n;
        while (more && next.offset <= offset) {
            current = next;
            more = times_get(times, ++following, &next);
        }
    }
}

static ssize_t read_segment(int dir_fd, enum log_stream stream, const struct segment *s,
                            uint64_t offset, char *buffer, size_t limit)
{
    char name[40];
    struct stat st;

    (void)snprintf(name, sizeof(name), "%s.%020llu", log_stream_to_string(stream),
                   (unsigned long long)s->offset);
    cleanup_close int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EPROTO;
    ssize_t n = pread(fd, buffer, limit, (off_t)(offset - s->offset));
    return n < 0 ? -errno : n;
}

int log_source_read(int dir_fd, enum log_stream stream, uint64_t offset, size_t limit,
                    int64_t fallback_ms, struct strbuf *out, uint64_t *ret_offset,
                    uint64_t *ret_next)
{
    struct search search = {.offset = offset};
    int r = each_segment(dir_fd, stream, consider, &search);

    *ret_offset = *ret_next = offset;
    if (r < 0 || !search.found)
        return r;
    if (search.best.offset > offset)
        offset = search.best.offset;
    cleanup_free char *buffer = malloc(limit);
    if (!buffer)
        return -ENOMEM;
    ssize_t n = read_segment(dir_fd, stream, &search.best, offset, buffer, limit);
    if (n <= 0)
        return n == -ENOENT ? 0 : (int)n; // removed since: the next look finds the gap
    struct times times = times_open_at(dir_fd, stream);
    put_frames(&times, offset, buffer, (size_t)n, fallback_ms, out);
    if (times.fd >= 0)
        (void)close(times.fd);
    if (out->failed)
        return -ENOMEM;
    *ret_offset = offset;
    *ret_next = offset + (uint64_t)n;
    return 0;
}
