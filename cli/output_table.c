// SPDX-License-Identifier: Apache-2.0
// Tables: cells are collected, then printed with each column as wide as its widest cell. Width
// counts characters, not bytes.
#include "cli/output.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/units.h"

#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define GAP 2
#define ROW_OF_HEADINGS SIZE_MAX

struct table {
    const char *const *headings;
    size_t columns;
    struct strbuf text; // all cells, each with its NUL
    size_t *cells;      // where they begin
    size_t n, capacity;
};

struct table *table_new(const char *const *headings)
{
    struct table *t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    t->headings = headings;
    while (headings[t->columns])
        t->columns++;
    return t;
}

void table_free(struct table *t)
{
    if (!t)
        return;
    strbuf_reset(&t->text);
    free(t->cells);
    free(t);
}

void table_cell(struct table *t, const char *text)
{
    if (t->n == t->capacity) {
        size_t capacity = t->capacity ? t->capacity * 2 : 64;
        size_t *more = reallocarray(t->cells, capacity, sizeof(*more));
        if (!more) {
            t->text.failed = true;
            return;
        }
        t->cells = more;
        t->capacity = capacity;
    }
    t->cells[t->n++] = t->text.len;
    output_safe(&t->text, text && text[0] ? text : "-");
    strbuf_append(&t->text, "", 1);
}

void table_cellf(struct table *t, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0) {
        t->text.failed = true;
        text = NULL;
    }
    va_end(ap);
    table_cell(t, text);
    free(text);
}

static bool begins_character(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

static size_t width_of(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += begins_character(*text);
    return n;
}

static const char *cell_at(const struct table *t, size_t i)
{
    return t->text.data + t->cells[i];
}

static size_t column_width(const struct table *t, size_t column)
{
    size_t width = width_of(t->headings[column]);
    for (size_t i = column; i < t->n; i += t->columns) {
        size_t w = width_of(cell_at(t, i));
        width = w > width ? w : width;
    }
    return width;
}

// Appends at most `left` characters (0 = no bound); returns how many.
static size_t put_cut(struct strbuf *out, const char *text, size_t left)
{
    size_t n = 0, end = 0;
    for (; text[end]; end++) {
        if (begins_character(text[end]) && left && n++ == left)
            return strbuf_append(out, text, end), left;
    }
    strbuf_append(out, text, end);
    return left ? n : width_of(text);
}

static void put_spaces(struct strbuf *out, size_t n)
{
    static const char spaces[] = "                                                                ";
    for (size_t part; n > 0; n -= part) {
        part = n < sizeof(spaces) - 1 ? n : sizeof(spaces) - 1;
        strbuf_append(out, spaces, part);
    }
}

// The row whose first cell is `first`; ROW_OF_HEADINGS = the headings.
static void put_line(const struct table *t, size_t first, const size_t *widths, bool color,
                     unsigned width, struct strbuf *out)
{
    size_t used = 0;

    for (size_t i = 0; i < t->columns; i++) {
        const char *cell = first == ROW_OF_HEADINGS ? t->headings[i] : cell_at(t, first + i);
        bool last = i + 1 == t->columns;
        bool state = color && strcmp(t->headings[i], "STATE") == 0;
        if (width && used >= width)
            break;
        const char *escape = state ? output_state_color(cell) : "";
        strbuf_puts(out, escape);
        size_t n = put_cut(out, cell, width ? width - used : 0);
        strbuf_puts(out, escape[0] ? OUTPUT_RESET : "");
        if (!last)
            put_spaces(out, widths[i] - n + GAP);
        used += widths[i] + GAP;
    }
    while (out->len && out->data[out->len - 1] == ' ')
        out->data[--out->len] = '\0';
    strbuf_puts(out, "\n");
}

void table_render(const struct table *t, bool color, unsigned width, struct strbuf *out)
{
    cleanup_free size_t *widths = calloc(t->columns + 1, sizeof(*widths));

    if (!widths || t->text.failed) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < t->columns; i++)
        widths[i] = column_width(t, i);
    put_line(t, ROW_OF_HEADINGS, widths, false, width, out);
    for (size_t i = 0; i + t->columns <= t->n; i += t->columns)
        put_line(t, i, widths, color, width, out);
}

void table_print(const struct table *t, bool color)
{
    cleanup_strbuf struct strbuf out = {0};
    struct winsize size = {0};
    unsigned width =
        isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;

    table_render(t, color, width >= 40 ? width : 0, &out);
    (void)fwrite(out.data ? out.data : "", 1, out.len, stdout);
}

const char *output_state_color(const char *state)
{
    static const struct {
        const char *state, *escape;
    } colors[] = {{"ready", "\033[32m"},    {"running", "\033[32m"},     {"succeeded", "\033[32m"},
                  {"pending", "\033[33m"},  {"assigned", "\033[33m"},    {"starting", "\033[33m"},
                  {"stopping", "\033[33m"}, {"not_ready", "\033[33m"},   {"resizing", "\033[33m"},
                  {"failed", "\033[31m"},   {"unreachable", "\033[31m"}, {"lost", "\033[31m"},
                  {"unknown", "\033[31m"},  {"stopped", "\033[2m"},      {"left", "\033[2m"}};
    for (size_t i = 0; i < ARRAY_SIZE(colors); i++)
        if (strcmp(state, colors[i].state) == 0)
            return colors[i].escape;
    return "";
}

// --- cells ---

void output_age(const json_t *obj, const char *since, const char *until, char *out, size_t size)
{
    output_span(json_opt_time(obj, since), until ? json_opt_time(obj, until) : 0, out, size);
}

void output_span(int64_t from, int64_t to, char *out, size_t size)
{
    char text[UNITS_TEXT_BYTES] = "";

    if (from == 0) {
        (void)snprintf(out, size, "-");
        return;
    }
    if (to == 0)
        to = clock_real_ms();
    units_human_duration(to > from ? to - from : 0, text);
    (void)snprintf(out, size, "%s", text);
}

void output_cpu(int64_t milli, char *out, size_t size)
{
    char text[UNITS_TEXT_BYTES] = "";
    units_human_cpu(milli, text);
    (void)snprintf(out, size, "%s", text);
}

void output_memory(int64_t bytes, char *out, size_t size)
{
    char text[UNITS_TEXT_BYTES] = "";
    units_human_memory(bytes, text);
    (void)snprintf(out, size, "%s", text);
}
