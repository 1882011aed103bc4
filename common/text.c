// SPDX-License-Identifier: Apache-2.0
// Quoting and suggestions for messages.
#include "common/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_MAX 40 // longer words get no suggestion

// Bytes of the UTF-8 sequence at p, 0 when it is none. *ret_cut: the text ended inside it.
static size_t sequence(const unsigned char *p, bool *ret_cut)
{
    size_t len = p[0] < 0x80 ? 1 : p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    *ret_cut = false;
    if (len == 1)
        return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < len; i++) {
        *ret_cut = p[i] == '\0';
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    }
    bool overlong = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
    bool outside = (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf4 && p[1] > 0x8f);
    return overlong || outside ? 0 : len;
}

void text_make_utf8(char *text)
{
    bool cut;
    for (char *p = text; *p;) {
        size_t len = sequence((const unsigned char *)p, &cut);
        if (len == 0 && cut) {
            *p = '\0';
            return;
        }
        if (len == 0)
            *p = '?';
        p += len ? len : 1;
    }
}

const char *text_quote(const char *text, char *out)
{
    int n = snprintf(out, TEXT_QUOTE_BYTES - 5, "\"%s", text);
    bool cut = n >= TEXT_QUOTE_BYTES - 5;

    text_make_utf8(out);
    for (char *p = out; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
    size_t len = strlen(out);
    (void)snprintf(out + len, TEXT_QUOTE_BYTES - len, "%s", cut ? "...\"" : "\"");
    return out;
}

static int min3(int a, int b, int c)
{
    int least = a < b ? a : b;
    return least < c ? least : c;
}

static bool same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

// Optimal string alignment distance; both at most WORD_MAX long.
static int distance(const char *a, const char *b)
{
    int rows[3][WORD_MAX + 1];
    int *before = rows[0], *last = rows[1], *now = rows[2];
    size_t n = strlen(b);

    for (size_t j = 0; j <= n; j++)
        last[j] = (int)j;
    for (size_t i = 1; a[i - 1]; i++) {
        now[0] = (int)i;
        for (size_t j = 1; j <= n; j++) {
            now[j] = min3(last[j] + 1, now[j - 1] + 1, last[j - 1] + !same(a[i - 1], b[j - 1]));
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]) &&
                before[j - 2] + 1 < now[j])
                now[j] = before[j - 2] + 1;
        }
        int *free_row = before;
        before = last;
        last = now;
        now = free_row;
    }
    return last[n];
}

const char *text_suggest(const char *text, const char *const *words, size_t n, size_t stride)
{
    const char *best = NULL;
    size_t len = strlen(text);
    int best_distance =
        len < 5 ? 2 : 3; // must stay below: one edit for short words, two for others

    if (len == 0 || len > WORD_MAX)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        const char *word = *(const char *const *)((const char *)words + i * stride);
        if (strlen(word) > WORD_MAX)
            continue;
        int d = distance(text, word);
        // "go" and "cpu" share nothing although two edits suffice.
        if (d < best_distance && d < (int)strlen(word)) {
            best = word;
            best_distance = d;
        }
    }
    return best;
}

int text_hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

int text_percent_decode(const char *text, size_t len, char *out)
{
    int n = 0;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c == '%') {
            int high = len - i > 2 ? text_hex_digit(text[i + 1]) : -1;
            int low = high < 0 ? -1 : text_hex_digit(text[i + 2]);
            c = low < 0 ? '\0' : (char)(high << 4 | low);
            i += 2;
        }
        if (c == '\0')
            return -EINVAL;
        out[n++] = c;
    }
    out[n] = '\0';
    return n;
}
