// SPDX-License-Identifier: Apache-2.0
// Log writer. A segment is closed at the first line end at or after its size is reached, unless the
// line would run on for more than a whole segment: then it is cut hard. So a segment stays below
// twice its size, and the kept bytes are below the limit at all times. A full disk never stops the
// command: its bytes are lost, the offset goes on.
#include "node-agent/init/streams.h"

#include "node-agent/init/times.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SEGMENT_MAX (8u << 20)
#define ECHO_PIECE 4096 // a pipe that polls writable takes this much without blocking

void stream_init(struct stream *s, int dir_fd, const char *name, int64_t limit, int echo_fd,
                 int64_t echo)
{
    *s = (struct stream){
        .name = name, .dir_fd = dir_fd, .fd = -1, .echo_fd = echo > 0 ? echo_fd : -1};
    s->echo_left = echo;
    s->limit = (uint64_t)limit;
    s->segment_size = s->limit / 8;
    if (s->segment_size > SEGMENT_MAX)
        s->segment_size = SEGMENT_MAX;
    s->times_fd = TIMES_UNOPENED;
}

static void segment_name(const struct stream *s, uint64_t offset, char name[40])
{
    (void)snprintf(name, 40, "%s.%020" PRIu64, s->name, offset);
}

static struct stream_segment *current(struct stream *s)
{
    return s->fd < 0 ? NULL : &s->segments[s->n_segments - 1];
}

static void drop_oldest(struct stream *s)
{
    char name[40];
    segment_name(s, s->segments[0].offset, name);
    (void)unlinkat(s->dir_fd, name, 0);
    s->kept -= s->segments[0].len;
    s->n_segments--;
    memmove(s->segments, s->segments + 1, s->n_segments * sizeof(s->segments[0]));
}

// Makes room for `len` more bytes in the current segment, which itself is never removed.
static void enforce_limit(struct stream *s, uint64_t len)
{
    size_t busy = s->fd >= 0 ? 1 : 0;
    while (s->n_segments > busy && s->kept + len > s->limit)
        drop_oldest(s);
}

static void close_segment(struct stream *s)
{
    struct stream_segment *seg = current(s);
    char name[40];
    if (!seg)
        return;
    (void)close(s->fd);
    s->fd = -1;
    s->line_len = 0;
    if (seg->len == 0) { // nothing could be written: the name must be free for a later try
        segment_name(s, seg->offset, name);
        (void)unlinkat(s->dir_fd, name, 0);
        s->n_segments--;
    }
}

static int open_segment(struct stream *s)
{
    char name[40];
    if (s->n_segments == STREAM_SEGMENTS_MAX)
        drop_oldest(s);
    segment_name(s, s->offset, name);
    s->fd = openat(s->dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (s->fd < 0)
        return -errno;
    s->segments[s->n_segments++] = (struct stream_segment){.offset = s->offset};
    s->line_len = 0;
    return 0;
}

// Puts bytes into the current segment; what the disk refuses becomes a gap.
static void put(struct stream *s, const char *data, size_t len)
{
    enforce_limit(s, len);
    while (len > 0) {
        ssize_t n = write(s->fd, data, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        current(s)->len += (uint64_t)n;
        s->kept += (uint64_t)n;
        s->offset += (uint64_t)n;
        data += n;
        len -= (size_t)n;
    }
    if (len > 0) {
        close_segment(s);
        s->offset += len;
        s->lost = true;
    }
}

// How many of the bytes go into the current segment now, and whether it ends after them.
static size_t plan(struct stream *s, const char *data, size_t len, bool *ret_rotate)
{
    uint64_t have = current(s)->len;
    uint64_t room = have < s->segment_size ? s->segment_size - have : 0;
    uint64_t line_room = s->segment_size - s->line_len; // until the line is cut
    const char *end;
    *ret_rotate = false;
    if (len <= room)
        return len;
    *ret_rotate = true;
    end = room ? memrchr(data, '\n', room) : NULL;
    if (end)
        return (size_t)(end - data) + 1;
    if (s->line_len == 0 && have > 0)
        return 0; // a new line that does not fit begins the next segment
    end = memchr(data, '\n', len);
    if (end && (uint64_t)(end - data) < line_room)
        return (size_t)(end - data) + 1;
    *ret_rotate = len >= line_room;
    return len < line_room ? len : (size_t)line_room;
}

static void advance_line(struct stream *s, const char *data, size_t n)
{
    const char *end = memrchr(data, '\n', n);
    s->line_len = end ? (uint64_t)(data + n - end - 1) : s->line_len + n;
}

static void echo(struct stream *s, const char *data, size_t len)
{
    if ((uint64_t)s->echo_left < len)
        len = (size_t)s->echo_left;
    while (len > 0 && s->echo_fd >= 0) {
        struct pollfd p = {.fd = s->echo_fd, .events = POLLOUT};
        size_t piece = len < ECHO_PIECE ? len : ECHO_PIECE;
        if (poll(&p, 1, 0) != 1 || !(p.revents & POLLOUT))
            return; // the reader is slow: this piece is only in the files
        ssize_t n = write(s->echo_fd, data, piece);
        if (n <= 0) {
            s->echo_fd = -1;
            return;
        }
        data += n;
        len -= (size_t)n;
        s->echo_left -= n;
    }
}

void stream_write(struct stream *s, const char *data, size_t len, int64_t now_ms)
{
    echo(s, data, len);
    times_add(s, now_ms);
    while (len > 0) {
        bool rotate;
        if (s->fd < 0 && open_segment(s) < 0) {
            s->offset += len;
            s->lost = true;
            return;
        }
        size_t n = plan(s, data, len, &rotate);
        advance_line(s, data, n);
        put(s, data, n);
        if (rotate)
            close_segment(s);
        data += n;
        len -= n;
    }
}

void stream_close(struct stream *s)
{
    close_segment(s);
    if (s->times_fd >= 0)
        (void)close(s->times_fd);
    s->times_fd = -1;
}
