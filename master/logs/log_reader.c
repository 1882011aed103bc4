// SPDX-License-Identifier: Apache-2.0
// Reading one attempt, frame by frame, from wherever the reader stands. Knows which offset of each
// stream comes next: what is missing, for whatever reason, comes out as a gap, and what was there
// before is skipped. Rotation may take the segment away meanwhile: the reader goes on in the oldest
// one left.
#include "master/logs/log_reader.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <string.h>

#define SKIP_MAX 4096 // frames of no interest that one call passes over

int log_reader_open(struct log_store *s, const char *attempt, unsigned channels, int64_t tail,
                    struct log_reader **ret)
{
    struct log_reader *r = calloc(1, sizeof(*r));
    if (!r)
        return -ENOMEM;
    r->channels = channels & LOG_ALL_CHANNELS;
    int e = log_file_get(s, attempt, &r->file);
    if (e == 0)
        e = log_file_load(r->file);
    if (e < 0) {
        log_reader_close(r);
        return e;
    }
    if (tail >= 0)
        log_tail_start(r, (uint64_t)tail);
    *ret = r;
    return 0;
}

void log_reader_close(struct log_reader *r)
{
    if (!r)
        return;
    log_cursor_reset(&r->cursor);
    if (r->file)
        log_file_put(r->file);
    free(r);
}

// --- gaps ---

// The stream lacks what lies between the expected offset and this one.
static bool gap_before(struct log_reader *r, enum log_channel c, uint64_t offset, int64_t time_ms,
                       struct log_chunk *ret)
{
    if (!(r->channels >> c & 1) || offset <= r->expected[c])
        return false;
    *ret = (struct log_chunk){
        .channel = c, .time_ms = time_ms, .offset = r->expected[c], .gap = offset - r->expected[c]};
    r->expected[c] = offset;
    return true;
}

static bool gap_at_head(struct log_reader *r, struct log_chunk *ret)
{
    for (int c = 0; c < LOG_CHANNELS; c++) {
        if (!(r->head_gaps >> c & 1))
            continue;
        r->head_gaps &= ~(1u << c);
        if (gap_before(r, (enum log_channel)c, r->head.base[c], r->head.time_ms, ret))
            return true;
    }
    return false;
}

// --- frames ---

// Whether the frame gives something to see.
static bool take_data(struct log_reader *r, const struct log_frame *f, const uint8_t *data,
                      struct log_chunk *ret)
{
    uint64_t *expected = &r->expected[f->channel];
    uint64_t end = f->offset + f->len;
    if (!(r->channels >> f->channel & 1) || end <= *expected)
        return false;
    if (gap_before(r, f->channel, f->offset, f->time_ms, ret)) {
        log_cursor_back(&r->cursor, f);
        return true;
    }
    size_t skip = (size_t)(*expected - f->offset);
    *ret = (struct log_chunk){.channel = f->channel,
                              .time_ms = f->time_ms,
                              .offset = *expected,
                              .data = (const char *)data + skip,
                              .len = f->len - skip};
    *expected = end;
    return true;
}

static bool take_frame(struct log_reader *r, const struct log_frame *f, const uint8_t *data,
                       struct log_chunk *ret)
{
    if (f->kind == LOG_FRAME_DATA)
        return take_data(r, f, data, ret);
    return f->kind == LOG_FRAME_GAP &&
           gap_before(r, f->channel, f->offset + log_gap_decode(data), f->time_ms, ret);
}

// --- segments ---

static int enter(struct log_reader *r, uint32_t segment, int *fd)
{
    if (*fd < 0) {
        int e = log_segment_open(r->file->store->dir_fd, r->file->attempt, segment, O_RDONLY, fd);
        if (e < 0)
            return e;
    }
    if (r->in_segment)
        return 0;
    int e = log_segment_head(*fd, &r->head);
    if (e < 0)
        return e;
    r->in_segment = true;
    r->head_gaps = LOG_ALL_CHANNELS;
    log_cursor_start(&r->cursor, LOG_HEAD_BYTES);
    return 0;
}

static void leave(struct log_reader *r, uint32_t to, int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
    r->segment = to;
    r->in_segment = false;
    log_cursor_start(&r->cursor, 0);
}

// One frame, opening what must be opened. 1, 0 = the end of all, or -errno.
static int next_frame(struct log_reader *r, int *fd, struct log_frame *f, const uint8_t **data)
{
    for (;;) {
        const struct log_file *of = r->file;
        if (of->first > of->last)
            return 0;
        if (r->segment < of->first || r->segment > of->last)
            leave(r, of->first, fd);
        int e = r->in_segment ? log_cursor_next(&r->cursor, *fd, f, data) : -EAGAIN;
        if (e == 1)
            return 1;
        bool is_last = r->segment == of->last;
        if (e == -EAGAIN) {
            e = enter(r, r->segment, fd);
            if (e == 0 && r->head_gaps)
                return 2;
            if (e == 0)
                continue;
        }
        if (e < 0 && e != -EPROTO && e != -ENOENT)
            return e;
        if (is_last)
            return 0;
        leave(r, r->segment + 1, fd);
    }
}

static int read_on(struct log_reader *r, struct log_chunk *ret)
{
    cleanup_close int fd = -1;
    struct log_frame f;
    const uint8_t *data;
    for (int i = 0; i < SKIP_MAX; i++) {
        if (gap_at_head(r, ret))
            return LOG_NEXT_CHUNK;
        int e = next_frame(r, &fd, &f, &data);
        if (e < 0)
            return e;
        if (e == 0) {
            log_cursor_reset(&r->cursor);
            return LOG_NEXT_END;
        }
        if (e == 1 && take_frame(r, &f, data, ret))
            return LOG_NEXT_CHUNK;
    }
    return LOG_NEXT_AGAIN;
}

int log_reader_next(struct log_reader *r, struct log_chunk *ret)
{
    int e = log_file_load(r->file);
    if (e < 0)
        return e;
    if (!r->tail.busy)
        return read_on(r, ret);
    e = log_tail_step(r);
    return e < 0 ? e : LOG_NEXT_AGAIN;
}
