// SPDX-License-Identifier: Apache-2.0
// Writing one attempt's log. A write that fails half-way is cut off again, so that the file always
// ends with a whole frame; what a crash tears is cut when the attempt is next looked at. When a
// segment is full the next one begins, at the end of a line if one comes in time, and the oldest
// ones go as the cap demands. Each segment's head says where the streams go on, so that a reader
// knows what it missed.
#include "master/logs/log_file.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

// --- what is there ---

// Follows the frames to the last whole one.
static int scan(struct log_file *f, int fd)
{
    struct log_cursor c = {0};
    struct log_frame frame;
    struct log_head head;
    const uint8_t *data;
    int r = log_segment_head(fd, &head);
    if (r < 0)
        return r;
    memcpy(f->next, head.base, sizeof(f->next));
    memcpy(f->mid_line, head.mid_line, sizeof(f->mid_line));
    f->finished = false;
    log_cursor_start(&c, LOG_HEAD_BYTES);
    while ((r = log_cursor_next(&c, fd, &frame, &data)) == 1) {
        f->finished = frame.kind == LOG_FRAME_END;
        if (frame.kind == LOG_FRAME_DATA) {
            f->next[frame.channel] = frame.offset + frame.len;
            f->mid_line[frame.channel] = data[frame.len - 1] != '\n';
        } else if (frame.kind == LOG_FRAME_GAP) {
            f->next[frame.channel] = frame.offset + log_gap_decode(data);
            f->mid_line[frame.channel] = false;
        }
    }
    f->size = c.pos;
    log_cursor_reset(&c);
    if (r == -EPROTO)
        r = ftruncate(fd, (off_t)f->size) < 0 ? -errno : 0;
    return r;
}

// The newest segment whose head is whole; those that never got one go.
static int load_last(struct log_file *f, struct log_listing *l)
{
    while (l->last >= l->first) {
        cleanup_close int fd = -1;
        int r = log_segment_open(f->store->dir_fd, f->attempt, l->last, O_RDWR, &fd);
        if (r == 0)
            r = scan(f, fd);
        if (r != -EPROTO && r != -ENOENT)
            return r;
        if (r == -EPROTO && (r = log_segment_unlink(f->store->dir_fd, f->attempt, l->last)) < 0)
            return r;
        l->last--;
    }
    return 0;
}

int log_file_load(struct log_file *f)
{
    struct log_listing l;
    if (f->loaded)
        return 0;
    log_file_close(f);
    memset(f->next, 0, sizeof(f->next));
    memset(f->mid_line, 0, sizeof(f->mid_line));
    f->size = f->others = 0;
    f->finished = false;
    int r = log_segment_list(f->store->dir_fd, f->attempt, &l);
    if (r == 0 && l.n == 0)
        l.first = 1;
    if (r == 0)
        r = load_last(f, &l);
    if (r < 0)
        return r;
    f->first = l.first;
    f->last = l.last;
    struct log_listing now;
    r = log_segment_list(f->store->dir_fd, f->attempt, &now);
    f->others = now.bytes > f->size ? now.bytes - f->size : 0;
    f->loaded = r == 0;
    return r;
}

// --- segments ---

void log_file_close(struct log_file *f)
{
    if (f->fd < 0)
        return;
    log_store_unused(f);
    (void)close(f->fd);
    f->fd = -1;
}

static int open_last(struct log_file *f)
{
    if (f->fd < 0) {
        int r = log_segment_open(f->store->dir_fd, f->attempt, f->last, O_RDWR, &f->fd);
        if (r < 0)
            return r;
    }
    log_store_used(f);
    return 0;
}

static void drop_first(struct log_file *f)
{
    cleanup_close int fd = -1;
    struct stat st;
    if (log_segment_open(f->store->dir_fd, f->attempt, f->first, O_RDONLY, &fd) == 0 &&
        fstat(fd, &st) == 0) {
        f->others -= f->others < (uint64_t)st.st_size ? f->others : (uint64_t)st.st_size;
        f->store->bytes -= st.st_size;
    }
    (void)!log_segment_unlink(f->store->dir_fd, f->attempt, f->first);
    f->first++;
}

static int write_head(const struct log_file *f, int fd, int64_t time_ms)
{
    uint8_t bytes[LOG_HEAD_BYTES];
    struct log_head head = {.time_ms = time_ms};
    memcpy(head.base, f->next, sizeof(head.base));
    memcpy(head.mid_line, f->mid_line, sizeof(head.mid_line));
    log_head_encode(&head, bytes);
    ssize_t n = pwrite(fd, bytes, sizeof(bytes), 0);
    return n < 0 ? -errno : n == (ssize_t)sizeof(bytes) ? 0 : -ENOSPC;
}

// Room first, then the new one: on a full disk that is the order that can work.
static int begin_segment(struct log_file *f, int64_t time_ms)
{
    int fd = -1, dir = f->store->dir_fd;
    bool is_first = f->last < f->first;
    while (f->first < f->last && f->others + f->size + f->store->segment_limit > f->store->cap)
        drop_first(f);
    if (is_first && mkdirat(dir, f->attempt, 0700) < 0 && errno != EEXIST)
        return -errno;
    int r = log_segment_open(dir, f->attempt, f->last + 1, O_RDWR | O_CREAT | O_TRUNC, &fd);
    if (r == 0)
        r = write_head(f, fd, time_ms);
    if (r < 0) {
        if (fd >= 0) {
            (void)close(fd);
            (void)!log_segment_unlink(dir, f->attempt, f->last + 1);
        }
        return r;
    }
    log_file_close(f);
    f->others += is_first ? 0 : f->size;
    f->last++;
    f->size = LOG_HEAD_BYTES;
    f->store->bytes += LOG_HEAD_BYTES;
    f->fd = fd;
    log_store_used(f);
    return 0;
}

// --- frames ---

static int write_frame(struct log_file *f, const struct log_frame *frame, const void *data)
{
    uint8_t head[LOG_FRAME_BYTES];
    int r = open_last(f);
    if (r < 0)
        return r;
    log_frame_encode(frame, head);
    struct iovec parts[2] = {{head, sizeof(head)}, {(void *)(uintptr_t)data, frame->len}};
    ssize_t whole = (ssize_t)(sizeof(head) + frame->len);
    ssize_t n = pwritev(f->fd, parts, frame->len ? 2 : 1, (off_t)f->size);
    if (n == whole) {
        f->size += (uint64_t)whole;
        f->store->bytes += whole;
        f->finished = frame->kind == LOG_FRAME_END;
        return 0;
    }
    r = n < 0 ? -errno : -ENOSPC; // the rest did not fit
    if (n > 0 && ftruncate(f->fd, (off_t)f->size) < 0)
        f->loaded = false; // cut when next looked at
    return r;
}

static size_t last_line_end(const char *data, size_t len)
{
    const char *end = len ? memrchr(data, '\n', len) : NULL;
    return end ? (size_t)(end - data) + 1 : 0;
}

static size_t first_line_end(const char *data, size_t len)
{
    const char *end = memchr(data, '\n', len);
    return end ? (size_t)(end - data) + 1 : 0;
}

// How many of the bytes go to the current segment, 0 = none: begin the next one.
static size_t share_of_segment(const struct log_file *f, enum log_channel channel, const char *data,
                               size_t len)
{
    const struct log_store *s = f->store;
    bool between_lines = true;
    for (int c = 0; c < LOG_CHANNELS; c++)
        between_lines = between_lines && !f->mid_line[c];
    bool other_mid_line = f->mid_line[!channel];
    size_t n = len < LOG_CHUNK_BYTES ? len : LOG_CHUNK_BYTES;
    if (f->last < f->first || f->size + LOG_FRAME_BYTES >= s->segment_limit)
        return 0;
    uint64_t room = s->segment_limit - f->size - LOG_FRAME_BYTES;
    n = n < room ? n : (size_t)room;
    if (f->size + LOG_FRAME_BYTES + n <= s->segment_aim)
        return n;
    if (f->size + LOG_FRAME_BYTES < s->segment_aim) {
        size_t lines = last_line_end(data, (size_t)(s->segment_aim - f->size - LOG_FRAME_BYTES));
        if (lines)
            return lines;
    }
    if (between_lines && f->size > s->segment_aim / 2)
        return 0;
    size_t line = other_mid_line ? 0 : first_line_end(data, n);
    return line ? line : n;
}

static int append_data(struct log_file *f, enum log_channel channel, int64_t time_ms,
                       const char *data, size_t len)
{
    while (len > 0) {
        size_t n = share_of_segment(f, channel, data, len);
        int r = n == 0 ? begin_segment(f, time_ms) : 0;
        if (n > 0) {
            struct log_frame frame = {LOG_FRAME_DATA, channel, (uint32_t)n, time_ms,
                                      f->next[channel]};
            r = write_frame(f, &frame, data);
        }
        if (r < 0)
            return r;
        if (n == 0)
            continue;
        f->next[channel] += n;
        f->mid_line[channel] = data[n - 1] != '\n';
        data += n;
        len -= n;
    }
    return 0;
}

// A frame that is not data, in whichever segment has room.
static int append_mark(struct log_file *f, const struct log_frame *frame, const void *data)
{
    bool full =
        f->last < f->first || f->size + LOG_FRAME_BYTES + frame->len > f->store->segment_limit;
    int r = full ? begin_segment(f, frame->time_ms) : 0;
    return r < 0 ? r : write_frame(f, frame, data);
}

int log_file_append(struct log_file *f, enum log_channel channel, uint64_t offset, int64_t time_ms,
                    const void *data, size_t len)
{
    int r = log_file_load(f);
    if (r < 0)
        return r;
    if (offset > f->next[channel]) {
        uint8_t gap[LOG_GAP_BYTES];
        struct log_frame frame = {LOG_FRAME_GAP, channel, sizeof(gap), time_ms, f->next[channel]};
        log_gap_encode(offset - f->next[channel], gap);
        if ((r = append_mark(f, &frame, gap)) < 0)
            return r;
        f->next[channel] = offset;
        f->mid_line[channel] = false;
    }
    uint64_t known = f->next[channel] - offset;
    if (known >= len)
        return 0;
    return append_data(f, channel, time_ms, (const char *)data + known, len - (size_t)known);
}

int log_file_finish(struct log_file *f)
{
    struct log_frame frame = {.kind = LOG_FRAME_END};
    int r = log_file_load(f);
    if (r < 0 || f->finished || f->last < f->first)
        return r;
    return append_mark(f, &frame, NULL);
}

void log_file_remove(struct log_file *f)
{
    struct log_listing l;
    int dir = f->store->dir_fd;
    log_file_close(f);
    if (log_segment_list(dir, f->attempt, &l) == 0)
        for (uint32_t i = l.first; l.n > 0 && i <= l.last; i++)
            (void)!log_segment_unlink(dir, f->attempt, i);
    f->store->bytes -= (int64_t)l.bytes;
    (void)unlinkat(dir, f->attempt, AT_REMOVEDIR);
    f->loaded = false;
    f->kept = false;
}
