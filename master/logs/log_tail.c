// SPDX-License-Identifier: Apache-2.0
// Where the last N lines begin. A line is of one stream and counts where it ends, so that lines of
// two streams that were written at the same time are told apart; what is unfinished at the end
// counts, and so does a gap. The answer is an offset per stream and the segment to begin in.
// Segments are read from the newest back, one per step: each counts its ends of lines; the one in
// which enough are found is read again for what lies before the first wanted one. A line that began
// in an earlier segment yet (a very long one) is followed back to its beginning.
#include "master/logs/log_reader.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <string.h>

static bool wants(const struct log_reader *r, enum log_channel c)
{
    return r->channels >> c & 1;
}

void log_tail_start(struct log_reader *r, uint64_t lines)
{
    const struct log_file *f = r->file;
    r->tail = (struct log_tail){.busy = true, .segment = f->last, .wanted = lines};
    for (int c = 0; c < LOG_CHANNELS; c++) {
        if (wants(r, (enum log_channel)c) && f->mid_line[c] && r->tail.wanted > 0 && lines > 0)
            r->tail.wanted--;
        else if (lines == 0 || !wants(r, (enum log_channel)c))
            r->tail.known[c] = true;
        if (r->tail.known[c])
            r->expected[c] = f->next[c];
    }
    if (lines == 0)
        r->tail.counted = true;
}

// What a walk over one segment does at each end of a line.
struct walk {
    struct log_reader *reader;
    uint64_t ends;  // found so far
    uint64_t limit; // those after so many are not noted
    bool note;
    bool seen[LOG_CHANNELS];
    uint64_t after[LOG_CHANNELS]; // behind the last one noted
};

static void line_ends(struct walk *w, enum log_channel c, uint64_t behind)
{
    if (w->note && w->ends < w->limit) {
        w->seen[c] = true;
        w->after[c] = behind;
    }
    w->ends++;
}

static void walk_frame(struct walk *w, const struct log_frame *f, const uint8_t *data)
{
    if (!wants(w->reader, f->channel))
        return;
    if (f->kind == LOG_FRAME_GAP)
        line_ends(w, f->channel, f->offset + log_gap_decode(data));
    if (f->kind != LOG_FRAME_DATA)
        return;
    for (const uint8_t *p = data, *end = data + f->len; p < end; p++) {
        p = memchr(p, '\n', (size_t)(end - p));
        if (!p)
            return;
        line_ends(w, f->channel, f->offset + (uint64_t)(p - data) + 1);
    }
}

static int walk_segment(struct walk *w, uint32_t number, struct log_head *ret_head)
{
    cleanup_close int fd = -1;
    const struct log_file *f = w->reader->file;
    struct log_cursor *c = &w->reader->cursor;
    struct log_frame frame;
    const uint8_t *data;
    int r = log_segment_open(f->store->dir_fd, f->attempt, number, O_RDONLY, &fd);
    if (r == 0)
        r = log_segment_head(fd, ret_head);
    if (r < 0)
        return r;
    log_cursor_start(c, LOG_HEAD_BYTES);
    while ((r = log_cursor_next(c, fd, &frame, &data)) == 1)
        walk_frame(w, &frame, data);
    return r == -EPROTO ? 0 : r; // a torn end is an end
}

// Uses what the walk noted: the line after the last end that is not wanted begins there, or where
// the segment does, or earlier.
static void settle(struct log_reader *r, const struct walk *w, const struct log_head *head)
{
    for (int c = 0; c < LOG_CHANNELS; c++) {
        if (r->tail.known[c] || (!w->seen[c] && head->mid_line[c]))
            continue;
        r->expected[c] = w->seen[c] ? w->after[c] : head->base[c];
        r->tail.known[c] = true;
    }
}

static void stand(struct log_reader *r, uint32_t segment)
{
    r->tail.busy = false;
    r->segment = segment;
    r->in_segment = false;
    log_cursor_start(&r->cursor, 0);
}

int log_tail_step(struct log_reader *r)
{
    struct log_tail *t = &r->tail;
    struct log_head head = {0};
    struct walk w = {.reader = r};
    bool all_known = t->counted;
    for (int c = 0; c < LOG_CHANNELS; c++)
        all_known = all_known && t->known[c];
    if (all_known || t->segment < r->file->first || r->file->first > r->file->last) {
        stand(r, all_known ? t->segment + (t->segment < r->file->last) : 0);
        return 0;
    }
    int e = t->counted ? 0 : walk_segment(&w, t->segment, &head);
    if (e == 0 && (t->counted || w.ends >= t->wanted)) {
        struct walk again = {
            .reader = r, .note = true, .limit = t->counted ? UINT64_MAX : w.ends - t->wanted};
        e = walk_segment(&again, t->segment, &head);
        if (e == 0) {
            t->counted = true;
            settle(r, &again, &head);
        }
    } else if (e == 0) {
        t->wanted -= w.ends;
    }
    if (e < 0 && e != -ENOENT && e != -EPROTO)
        return e;
    t->segment--;
    return 0;
}
