// SPDX-License-Identifier: Apache-2.0
// Path, places, problems and warnings of a job file being read. The way to a value is kept as
// steps, not as text: a path is written only when there is something to say about it, so that a
// good file costs nothing here.
#include "proto/job_reader.h"

#include "common/cleanup.h"
#include "common/strbuf.h"
#include "common/text.h"
#include "common/units.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHORT_TABLE 6 // an unknown key in a mapping of so few fields gets all of them named

void job_reader_push_key(struct job_reader *r, const json_t *parent, const char *key)
{
    r->steps[r->depth++] = (struct job_step){.parent = parent, .key = key};
}

void job_reader_push_index(struct job_reader *r, const json_t *parent, size_t index)
{
    r->steps[r->depth++] = (struct job_step){.parent = parent, .index = index};
}

void job_reader_pop(struct job_reader *r)
{
    r->depth--;
}

char *job_reader_dup(struct job_reader *r, const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        r->failed = true;
    return copy;
}

void *job_reader_alloc(struct job_reader *r, size_t n, size_t size)
{
    if (n == 0)
        return NULL;
    void *p = calloc(n, size);
    if (!p)
        r->failed = true;
    return p;
}

// --- places ---

static const struct json_marks *marks_of(struct job_reader *r)
{
    if (!r->marks && r->text && json_marks_scan(r->text, r->len, r->root, &r->marks) < 0)
        r->failed = true;
    return r->marks;
}

static bool value_position(struct job_reader *r, const json_t *value, int *line, int *column)
{
    if (!value)
        return false;
    if (r->yaml)
        return yaml_position(r->yaml, value, line, column);
    const struct json_marks *marks = marks_of(r);
    return marks && json_marks_position(marks, value, line, column);
}

static bool key_position(struct job_reader *r, const struct job_step *s, int *line, int *column)
{
    if (!s->parent)
        return false;
    if (!s->key)
        return value_position(r, s->parent, line, column);
    if (r->yaml)
        return yaml_key_position(r->yaml, s->parent, s->key, line, column);
    const struct json_marks *marks = marks_of(r);
    return marks && json_marks_key_position(marks, s->parent, s->key, line, column);
}

// The value's own place, else that of its key, else of what it is in.
static void locate(struct job_reader *r, const json_t *value, int *line, int *column)
{
    if (value_position(r, value, line, column))
        return;
    for (int i = r->depth - 1; i >= 0; i--)
        if (key_position(r, &r->steps[i], line, column))
            return;
}

static void print_path(const struct job_reader *r, char *out, size_t size)
{
    size_t len = 0;

    out[0] = '\0';
    for (int i = 0; i < r->depth && len < size; i++) {
        const struct job_step *s = &r->steps[i];
        int n = s->key ? snprintf(out + len, size - len, "%s%s", i ? "." : "", s->key)
                       : snprintf(out + len, size - len, "[%zu]", s->index);
        len += (size_t)n;
    }
    text_make_utf8(out);
}

// --- problems and warnings ---

// A slot for one more problem, or NULL when there are enough of them (it is then only counted).
static struct job_problem *new_problem(struct job_reader *r)
{
    struct job_problems *p = r->problems;

    if (p->count == JOB_PROBLEMS_MAX) {
        p->more++;
        return NULL;
    }
    if (!p->items && !(p->items = calloc(JOB_PROBLEMS_MAX, sizeof(*p->items)))) {
        r->failed = true;
        return NULL;
    }
    return &p->items[p->count++];
}

void job_reader_problem(struct job_reader *r, const json_t *value, const char *fmt, ...)
{
    va_list ap;
    struct job_problem *p = new_problem(r);

    if (!p)
        return;
    print_path(r, p->path, sizeof(p->path));
    locate(r, value, &p->line, &p->column);
    va_start(ap, fmt);
    (void)vsnprintf(p->message, sizeof(p->message), fmt, ap);
    va_end(ap);
    text_make_utf8(p->message);
}

static const char *describe(struct job_reader *r, const json_t *value, char *out)
{
    char room[JOB_READER_TEXT_BYTES];

    if (json_is_object(value))
        return "a mapping";
    if (json_is_array(value))
        return "a list";
    if (json_is_null(value))
        return "nothing";
    if (json_is_string(value))
        return text_quote(json_string_value(value), out);
    (void)snprintf(out, TEXT_QUOTE_BYTES, "%.70s", job_reader_text(r, value, room));
    return out;
}

void job_reader_expected(struct job_reader *r, const json_t *value, const char *expected)
{
    char found[TEXT_QUOTE_BYTES];

    if (r->problems->count < JOB_PROBLEMS_MAX)
        job_reader_problem(r, value, "found %s, expected %s", describe(r, value, found), expected);
    else
        r->problems->more++;
}

void job_reader_warn(struct job_reader *r, const char *fmt, ...)
{
    va_list ap;
    char path[sizeof(((struct job_problem *)0)->path)];
    char text[512];
    struct job_warnings *w = r->warnings;

    print_path(r, path, sizeof(path));
    int n = snprintf(text, sizeof(text), "%s%s", path, *path ? ": " : "");
    va_start(ap, fmt);
    (void)vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, ap);
    va_end(ap);
    text_make_utf8(text);
    if (w->count == JOB_PROBLEMS_MAX)
        return;
    if (!w->items)
        w->items = job_reader_alloc(r, JOB_PROBLEMS_MAX, sizeof(*w->items));
    char *copy = w->items ? job_reader_dup(r, text) : NULL;
    if (copy)
        w->items[w->count++] = copy;
}

static int by_place(const void *a, const void *b)
{
    const struct job_problem *x = a, *y = b;
    if (x->line != y->line)
        return x->line < y->line ? -1 : 1;
    if (x->column != y->column)
        return x->column < y->column ? -1 : 1;
    return strcmp(x->path, y->path);
}

void job_reader_finish(struct job_reader *r)
{
    if (r->problems->count > 1)
        qsort(r->problems->items, r->problems->count, sizeof(*r->problems->items), by_place);
    json_marks_free(r->marks);
    r->marks = NULL;
}

// --- values ---

const char *job_reader_text(struct job_reader *r, const json_t *value, char *room)
{
    const char *source = NULL;

    if (json_is_string(value))
        return json_string_value(value);
    if (json_is_boolean(value))
        return json_is_true(value) ? "true" : "false";
    if (!json_is_number(value))
        return NULL;
    if (r->yaml)
        source = yaml_source(r->yaml, value);
    else if (json_is_real(value) && marks_of(r))
        source = json_marks_source(r->marks, value);
    if (source)
        return source;
    if (json_is_integer(value))
        (void)snprintf(room, JOB_READER_TEXT_BYTES, "%lld", (long long)json_integer_value(value));
    else
        (void)snprintf(room, JOB_READER_TEXT_BYTES, "%.17g", json_real_value(value));
    return room;
}

static void unknown_key(struct job_reader *r, const struct job_field *fields, size_t n,
                        const char *key)
{
    char quoted[TEXT_QUOTE_BYTES];
    cleanup_strbuf struct strbuf known = {0};

    if (r->problems->count == JOB_PROBLEMS_MAX) {
        r->problems->more++;
        return;
    }
    text_quote(key, quoted);
    const char *near = text_suggest(key, &fields[0].name, n, sizeof(fields[0]));
    for (size_t i = 0; i < n && n <= SHORT_TABLE && !near; i++)
        strbuf_printf(&known, "%s%s", i ? ", " : "; known here: ", fields[i].name);
    if (near)
        job_reader_problem(r, NULL, "unknown key %s: did you mean \"%s\"?", quoted, near);
    else
        job_reader_problem(r, NULL, "unknown key %s%s", quoted, known.data ? known.data : "");
}

static const struct job_field *find_field(const struct job_field *fields, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(fields[i].name, key) == 0)
            return &fields[i];
    return NULL;
}

void job_reader_object(struct job_reader *r, const struct job_field *fields, size_t n,
                       const json_t *value, void *object, const char *example)
{
    const char *key;
    json_t *member;

    if (!json_is_object(value)) {
        job_reader_expected(r, value, example);
        return;
    }
    json_object_foreach ((json_t *)(uintptr_t)value, key, member) {
        const struct job_field *f = find_field(fields, n, key);
        job_reader_push_key(r, value, key);
        if (f)
            f->read(r, f, member, object);
        else
            unknown_key(r, fields, n, key);
        job_reader_pop(r);
    }
}

// --- generic fields ---

// What to do about a number that is a text: quoted, or with zeros before it.
static const char *number_hint(const json_t *value)
{
    const char *text = json_string_value(value);
    if (!text || !*text || strspn(text, "0123456789") != strlen(text))
        return "";
    return text[0] == '0' && text[1] ? " (write it without leading zeros and quotes)"
                                     : " (write it without quotes)";
}

void job_read_int(struct job_reader *r, const struct job_field *f, const json_t *value,
                  void *object)
{
    char expected[160];
    json_int_t n = json_integer_value(value);

    if (json_is_integer(value) && n >= f->min && n <= f->max) {
        *(int *)((char *)object + f->offset) = (int)n;
        return;
    }
    (void)snprintf(expected, sizeof(expected), "a whole number from %lld to %lld%s",
                   (long long)f->min, (long long)f->max, number_hint(value));
    job_reader_expected(r, value, expected);
}

void job_read_bool(struct job_reader *r, const struct job_field *f, const json_t *value,
                   void *object)
{
    if (json_is_boolean(value))
        *(bool *)((char *)object + f->offset) = json_is_true(value);
    else
        job_reader_expected(r, value, "true or false");
}

void job_read_duration(struct job_reader *r, const struct job_field *f, const json_t *value,
                       void *object)
{
    char room[JOB_READER_TEXT_BYTES], least[UNITS_TEXT_BYTES], most[UNITS_TEXT_BYTES];
    char expected[192];
    int64_t ms = 0;
    bool scalar = json_is_string(value) || json_is_number(value);
    const char *text = scalar ? job_reader_text(r, value, room) : NULL;

    if (text && units_parse_duration(text, &ms, NULL) == 0 && ms >= f->min && ms <= f->max) {
        *(int64_t *)(void *)((char *)object + f->offset) = ms;
        return;
    }
    units_format_duration(f->min, least);
    units_format_duration(f->max, most);
    (void)snprintf(expected, sizeof(expected),
                   "a duration from %s to %s, such as 1500ms, 10s, 5m or 1h30m", least, most);
    job_reader_expected(r, value, expected);
}
