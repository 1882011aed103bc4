// SPDX-License-Identifier: Apache-2.0
// A log as people and programs read it: text as it was written, text with a time before each line,
// or one JSON object per line. One renderer per attempt that is read.
#pragma once

#include "common/strbuf.h"
#include "master/logs/log_store.h"

struct log_render;

enum log_format {
    LOG_TEXT,  // the bytes in order of arrival; a lost part is a line "[meadow: N bytes of stdout
               // lost here]"
    LOG_LINES, // whole lines, each behind its time and/or the prefix; streams never mix within one
    LOG_JSON,  // application/x-ndjson {task, attempt, stream, time, text}: see log_render_chunk
};

#define LOG_LINE_BYTES (64u * 1024) // longer lines are cut in LOG_LINES and LOG_JSON

struct log_render_options { // texts are copied
    enum log_format format;
    bool timestamps;    // LOG_LINES: RFC 3339 and a space before each line
    const char *prefix; // LOG_LINES: before each line ("actor/3 | "), or NULL
    const char *task;   // LOG_JSON
    int64_t attempt;    // LOG_JSON: the attempt's number
};

// -ENOMEM.
int log_render_new(const struct log_render_options *options, struct log_render **ret) WARN_UNUSED;
// Appends the chunk's rendering to `out`. In LOG_LINES and LOG_JSON an unfinished line is kept
// until its end comes. JSON: `text` has no newline; bytes that are no UTF-8 come as `base64`
// instead; a line that is cut, or never ended, has "partial": true; a lost part has "gap": N and no
// text.
void log_render_chunk(struct log_render *r, const struct log_chunk *chunk, struct strbuf *out);
// The end of the log: unfinished lines come out.
void log_render_end(struct log_render *r, struct strbuf *out);
void log_render_free(struct log_render *r); // NULL is fine

// Reads and renders until `out` holds `limit` bytes or more, the log ends for now (LOG_NEXT_END),
// or the work of one turn is done (LOG_NEXT_AGAIN). LOG_NEXT_CHUNK = `out` is full. -errno.
int log_render_some(struct log_render *r, struct log_reader *from, struct strbuf *out,
                    size_t limit) WARN_UNUSED;
