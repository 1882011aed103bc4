// SPDX-License-Identifier: Apache-2.0
// Times of a stream: 16-byte records, little-endian u64 offset and u64 ms. Bounded: a full file is
// rewritten beside and renamed (a reader keeps the old one open), without records of removed bytes
// and, if still long, with every second one.
#include "node-agent/init/times.h"

#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

struct times_record {
    uint64_t offset, time_ms;
};

static int create(const struct stream *s, const char *suffix, char name[32])
{
    (void)snprintf(name, 32, "%s.%s", s->name, suffix);
    return openat(s->dir_fd, name, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
}

static int append(int fd, uint32_t at, struct times_record r)
{
    return pwrite(fd, &r, sizeof(r), (off_t)(at * sizeof(r))) == (ssize_t)sizeof(r) ? 0 : -1;
}

// Copies what is still of use; returns the number of records in `to`, or -1.
static int64_t copy_kept(const struct stream *s, int to)
{
    uint64_t first = s->n_segments ? s->segments[0].offset : s->offset;
    uint32_t kept = 0, useful = 0;
    struct times_record r, next;
    for (uint32_t i = 0; i < s->times_count; i++) {
        if (pread(s->times_fd, &r, sizeof(r), (off_t)(i * sizeof(r))) != (ssize_t)sizeof(r))
            return -1;
        bool more = i + 1 < s->times_count &&
                    pread(s->times_fd, &next, sizeof(next), (off_t)((i + 1) * sizeof(r))) ==
                        (ssize_t)sizeof(next);
        if (more && le64toh(next.offset) <= first)
            continue; // the next record covers the first byte that is left
        if (useful++ % 2 != 0)
            continue;
        if (append(to, kept++, r) < 0)
            return -1;
    }
    return kept;
}

static void shrink(struct stream *s)
{
    char temp[32], name[32];
    int fd = create(s, "times.tmp", temp);
    int64_t kept = fd < 0 ? -1 : copy_kept(s, fd);
    (void)snprintf(name, sizeof(name), "%s.times", s->name);
    if (kept >= 0 && renameat(s->dir_fd, temp, s->dir_fd, name) == 0) {
        (void)close(s->times_fd);
        s->times_fd = fd;
        s->times_count = (uint32_t)kept;
        return;
    }
    // No room for a second file: what is there stays, and no more is added.
    if (fd >= 0) {
        (void)close(fd);
        (void)unlinkat(s->dir_fd, temp, 0);
    }
    (void)close(s->times_fd);
    s->times_fd = -1;
}

void times_add(struct stream *s, int64_t now_ms)
{
    char name[32];
    if (s->times_fd ==
        TIMES_UNOPENED) // not earlier: most of what is started writes nothing for a while
        s->times_fd = create(s, "times", name);
    bool clock_set_back = now_ms < s->last_time_ms;
    if (s->times_fd < 0 ||
        (s->times_count && !clock_set_back && now_ms - s->last_time_ms < TIMES_INTERVAL_MS))
        return;
    if (s->times_count >= TIMES_MAX)
        shrink(s);
    struct times_record r = {htole64(s->offset), htole64((uint64_t)now_ms)};
    if (s->times_fd >= 0 && append(s->times_fd, s->times_count, r) == 0) {
        s->times_count++;
        s->last_time_ms = now_ms;
    }
}
