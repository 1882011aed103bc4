// SPDX-License-Identifier: Apache-2.0
// A growing byte buffer, always NUL-terminated. Out of memory sticks: check `failed` once at the
// end.
#pragma once

#include "common/err.h"
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct strbuf {
    char *data; // NULL while empty
    size_t len;
    size_t capacity;
    bool failed;
};

// Add to the end, which stays NUL-terminated. Out of memory sets `failed`, and nothing more is
// added.
void strbuf_append(struct strbuf *b, const void *data, size_t len);
void strbuf_puts(struct strbuf *b, const char *text);
void strbuf_printf(struct strbuf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
// Drops the first `len` bytes (len <= b->len).
void strbuf_consume(struct strbuf *b, size_t len);
// Frees the memory; the buffer is empty and usable again.
void strbuf_reset(struct strbuf *b);
// Hands the memory to the caller (never NULL unless failed; free() it) and empties the buffer.
char *strbuf_take(struct strbuf *b);

#define cleanup_strbuf __attribute__((__cleanup__(strbuf_reset)))
