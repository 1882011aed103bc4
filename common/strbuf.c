// SPDX-License-Identifier: Apache-2.0
// Growing byte buffer; growth doubles, so appends are amortised O(1).
#include "common/strbuf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Makes room for `extra` bytes and the NUL; false when out of memory.
static bool reserve(struct strbuf *b, size_t extra)
{
    if (b->failed)
        return false;
    size_t need = b->len + extra + 1;
    if (need <= b->capacity)
        return true;
    size_t capacity = b->capacity ? b->capacity : 64;
    while (capacity < need)
        capacity *= 2;
    char *data = realloc(b->data, capacity);
    if (!data) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->capacity = capacity;
    return true;
}

void strbuf_append(struct strbuf *b, const void *data, size_t len)
{
    if (!reserve(b, len))
        return;
    if (len)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void strbuf_puts(struct strbuf *b, const char *text)
{
    strbuf_append(b, text, strlen(text));
}

void strbuf_printf(struct strbuf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0 || !reserve(b, (size_t)n))
        return;
    va_start(ap, fmt);
    (void)vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
}

void strbuf_consume(struct strbuf *b, size_t len)
{
    if (len == 0)
        return;
    memmove(b->data, b->data + len, b->len - len + 1);
    b->len -= len;
}

void strbuf_reset(struct strbuf *b)
{
    free(b->data);
    *b = (struct strbuf){0};
}

char *strbuf_take(struct strbuf *b)
{
    char *data = NULL;
    if (reserve(b, 0)) {
        b->data[b->len] = '\0';
        data = b->data;
    } else {
        free(b->data);
    }
    *b = (struct strbuf){0};
    return data;
}
