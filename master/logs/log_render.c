// SPDX-License-Identifier: Apache-2.0
// Turns chunks into what people and programs read. Whole lines are put together per stream, each
// with the time of its first byte, and with a bound, so that a task that never ends its line takes
// no more memory than LOG_LINE_BYTES.
#include "master/logs/log_render.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <string.h>

struct line {
    struct strbuf text;
    int64_t time_ms;
};

struct log_render {
    enum log_format format;
    bool timestamps;
    char *prefix, *task;
    int64_t attempt;
    bool mid_line; // LOG_TEXT: the last byte was no newline
    struct line lines[LOG_CHANNELS];
};

int log_render_new(const struct log_render_options *o, struct log_render **ret)
{
    struct log_render *r = calloc(1, sizeof(*r));
    if (!r)
        return -ENOMEM;
    *r = (struct log_render){
        .format = o->format, .timestamps = o->timestamps, .attempt = o->attempt};
    r->prefix = strdup(o->prefix ? o->prefix : "");
    r->task = strdup(o->task ? o->task : "");
    if (!r->prefix || !r->task) {
        log_render_free(r);
        return -ENOMEM;
    }
    *ret = r;
    return 0;
}

void log_render_free(struct log_render *r)
{
    if (!r)
        return;
    for (int c = 0; c < LOG_CHANNELS; c++)
        strbuf_reset(&r->lines[c].text);
    free(r->prefix);
    free(r->task);
    free(r);
}

// --- one line ---

static void put_prefix(const struct log_render *r, int64_t time_ms, struct strbuf *out)
{
    char time[CLOCK_TEXT_BYTES];
    strbuf_puts(out, r->prefix);
    if (!r->timestamps)
        return;
    clock_format_ms(time_ms, time);
    strbuf_puts(out, time);
    strbuf_puts(out, " ");
}

static void put_base64(json_t *o, const char *data, size_t len)
{
    cleanup_free unsigned char *text = malloc(len / 3 * 4 + 8);
    if (!text)
        return;
    (void)EVP_EncodeBlock(text, (const unsigned char *)data, (int)len);
    json_put_str(o, "base64", (const char *)text);
}

static void put_object(json_t *o, struct strbuf *out)
{
    cleanup_free char *text = json_text(o);
    if (text) {
        strbuf_puts(out, text);
        strbuf_puts(out, "\n");
    } else {
        out->failed = true;
    }
}

static json_t *new_object(const struct log_render *r, enum log_channel c, int64_t time_ms)
{
    json_t *o = json_object();
    json_put_str(o, "task", r->task);
    json_put_i64(o, "attempt", r->attempt);
    json_put_str(o, "stream", log_channel_to_string(c));
    json_put_time(o, "time", time_ms);
    return o;
}

static void put_json_line(const struct log_render *r, enum log_channel c, const char *data,
                          size_t len, int64_t time_ms, bool partial, struct strbuf *out)
{
    cleanup_json json_t *o = new_object(r, c, time_ms);
    json_t *text = json_stringn(data, len); // NULL: no UTF-8
    if (text)
        json_put(o, "text", text);
    else
        put_base64(o, data, len);
    if (partial)
        json_put_bool(o, "partial", true);
    put_object(o, out);
}

static void put_line(const struct log_render *r, enum log_channel c, const char *data, size_t len,
                     int64_t time_ms, bool partial, struct strbuf *out)
{
    if (r->format == LOG_JSON) {
        put_json_line(r, c, data, len, time_ms, partial, out);
        return;
    }
    put_prefix(r, time_ms, out);
    strbuf_append(out, data, len);
    strbuf_puts(out, "\n");
}

// --- lines put together ---

static void flush(struct log_render *r, enum log_channel c, bool partial, struct strbuf *out)
{
    struct line *l = &r->lines[c];
    put_line(r, c, l->text.data ? l->text.data : "", l->text.len, l->time_ms, partial, out);
    strbuf_consume(&l->text, l->text.len);
}

// Where to cut at most `n` bytes off, not within a character of UTF-8 if that can be.
static size_t cut_at(const char *data, size_t n)
{
    size_t at = n;
    while (at > 0 && n - at < 3 && ((unsigned char)data[at] & 0xC0) == 0x80)
        at--;
    return at > 0 && ((unsigned char)data[at] & 0xC0) != 0x80 ? at : n;
}

static void add_piece(struct log_render *r, const struct log_chunk *k, const char *data, size_t len,
                      bool ends, struct strbuf *out)
{
    struct line *l = &r->lines[k->channel];
    do {
        size_t room = LOG_LINE_BYTES - l->text.len;
        size_t n = len <= room ? len : cut_at(data, room);
        if (l->text.len == 0)
            l->time_ms = k->time_ms;
        strbuf_append(&l->text, data, n);
        out->failed = out->failed || l->text.failed;
        data += n;
        len -= n;
        if (len > 0)
            flush(r, k->channel, true, out);
    } while (len > 0 && !out->failed);
    if (ends)
        flush(r, k->channel, false, out);
}

static void put_lines(struct log_render *r, const struct log_chunk *k, struct strbuf *out)
{
    const char *p = k->data, *end = k->data + k->len;
    while (p < end && !out->failed) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((newline ? newline : end) - p);
        add_piece(r, k, p, n, newline != NULL, out);
        p += n + (newline != NULL);
    }
    if (r->lines[k->channel].text.len == 0)
        strbuf_reset(&r->lines[k->channel].text);
}

// --- chunks ---

static void put_gap(struct log_render *r, const struct log_chunk *k, struct strbuf *out)
{
    if (r->format == LOG_JSON) {
        cleanup_json json_t *o = new_object(r, k->channel, k->time_ms);
        json_put_i64(o, "gap", (int64_t)k->gap);
        put_object(o, out);
        return;
    }
    if (r->format == LOG_TEXT && r->mid_line)
        strbuf_puts(out, "\n");
    if (r->format == LOG_LINES)
        put_prefix(r, k->time_ms, out);
    strbuf_printf(out, "[meadow: %" PRIu64 " bytes of %s lost here]\n", k->gap,
                  log_channel_to_string(k->channel));
    r->mid_line = false;
}

void log_render_chunk(struct log_render *r, const struct log_chunk *k, struct strbuf *out)
{
    if (k->gap > 0) {
        if (r->lines[k->channel].text.len > 0)
            flush(r, k->channel, true, out);
        put_gap(r, k, out);
    } else if (k->len > 0 && r->format == LOG_TEXT) {
        strbuf_append(out, k->data, k->len);
        r->mid_line = k->data[k->len - 1] != '\n';
    } else if (k->len > 0) {
        put_lines(r, k, out);
    }
}

void log_render_end(struct log_render *r, struct strbuf *out)
{
    for (int c = 0; c < LOG_CHANNELS; c++) {
        if (r->lines[c].text.len > 0)
            flush(r, (enum log_channel)c, true, out);
        strbuf_reset(&r->lines[c].text);
    }
}

int log_render_some(struct log_render *r, struct log_reader *from, struct strbuf *out, size_t limit)
{
    struct log_chunk k;
    while (out->len < limit) {
        int e = log_reader_next(from, &k);
        if (e != LOG_NEXT_CHUNK)
            return e;
        log_render_chunk(r, &k, out);
        if (out->failed)
            return -ENOMEM;
    }
    return LOG_NEXT_CHUNK;
}
