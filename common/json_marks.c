// SPDX-License-Identifier: Apache-2.0
// Two arrays, sorted once by pointer and then searched by halving: values, and keys by their
// object. The JSON walk needs no checks of its own: the text is valid, and jansson keeps members in
// the order of the text, so the n-th member of the text is the n-th of the object.
#include "common/json_marks.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct mark {
    const json_t *value; // of a key: its object
    char *text;          // of a value: its source or NULL; of a key: the key
    int line, column;
};

struct mark_list {
    struct mark *items;
    size_t count, capacity;
};

struct json_marks {
    struct mark_list values, keys;
};

struct json_marks *json_marks_new(void)
{
    return calloc(1, sizeof(struct json_marks));
}

static void list_free(struct mark_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->items[i].text);
    free(l->items);
}

void json_marks_free(struct json_marks *marks)
{
    if (!marks)
        return;
    list_free(&marks->values);
    list_free(&marks->keys);
    free(marks);
}

static int list_add(struct mark_list *l, const json_t *value, int line, int column,
                    const char *text, size_t len)
{
    char *copy = NULL;

    if (l->count == l->capacity) {
        size_t capacity = l->capacity ? l->capacity * 2 : 64;
        struct mark *items = realloc(l->items, capacity * sizeof(*items));
        if (!items)
            return -ENOMEM;
        l->items = items;
        l->capacity = capacity;
    }
    if (text) {
        copy = strndup(text, len);
        if (!copy)
            return -ENOMEM;
    }
    l->items[l->count++] =
        (struct mark){.value = value, .text = copy, .line = line, .column = column};
    return 0;
}

int json_marks_add(struct json_marks *marks, const json_t *value, int line, int column,
                   const char *source, size_t source_len)
{
    if (json_is_boolean(value) || json_is_null(value))
        return 0;
    return list_add(&marks->values, value, line, column, source, source_len);
}

int json_marks_add_key(struct json_marks *marks, const json_t *object, const char *key, int line,
                       int column)
{
    return list_add(&marks->keys, object, line, column, key, strlen(key));
}

static int by_value(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const struct mark *)a)->value;
    uintptr_t y = (uintptr_t)((const struct mark *)b)->value;
    return (x > y) - (x < y);
}

static int by_key(const void *a, const void *b)
{
    int order = by_value(a, b);
    return order ? order : strcmp(((const struct mark *)a)->text, ((const struct mark *)b)->text);
}

static void list_sort(struct mark_list *l, int (*order)(const void *, const void *))
{
    if (l->count > 1)
        qsort(l->items, l->count, sizeof(*l->items), order);
}

void json_marks_sort(struct json_marks *marks)
{
    list_sort(&marks->values, by_value);
    list_sort(&marks->keys, by_key);
}

static const struct mark *find(const struct mark_list *l, const struct mark *wanted,
                               int (*order)(const void *, const void *))
{
    if (l->count == 0)
        return NULL;
    return bsearch(wanted, l->items, l->count, sizeof(*l->items), order);
}

static bool place(const struct mark *m, int *ret_line, int *ret_column)
{
    if (!m)
        return false;
    *ret_line = m->line;
    *ret_column = m->column;
    return true;
}

bool json_marks_position(const struct json_marks *marks, const json_t *value, int *ret_line,
                         int *ret_column)
{
    return place(find(&marks->values, &(struct mark){.value = value}, by_value), ret_line,
                 ret_column);
}

bool json_marks_key_position(const struct json_marks *marks, const json_t *object, const char *key,
                             int *ret_line, int *ret_column)
{
    struct mark wanted = {.value = object, .text = (char *)(uintptr_t)key};
    return place(find(&marks->keys, &wanted, by_key), ret_line, ret_column);
}

const char *json_marks_source(const struct json_marks *marks, const json_t *value)
{
    const struct mark *m = find(&marks->values, &(struct mark){.value = value}, by_value);
    return m ? m->text : NULL;
}

// --- the walk over a JSON text ---

struct scan {
    struct json_marks *marks;
    const char *p, *end;
    int line, column;
};

static int walk(struct scan *s, const json_t *value);

static void step(struct scan *s)
{
    if (s->p >= s->end)
        return;
    if (*s->p == '\n') {
        s->line++;
        s->column = 1;
    } else if ((*s->p & 0xc0) != 0x80) { // a character counts once
        s->column++;
    }
    s->p++;
}

// To the next byte that starts a value or a key, or closes.
static void skip_between(struct scan *s)
{
    while (s->p < s->end && strchr(" \t\r\n,:", *s->p))
        step(s);
}

static void skip_string(struct scan *s)
{
    step(s);
    while (s->p < s->end && *s->p != '"') {
        if (*s->p == '\\')
            step(s);
        step(s);
    }
    step(s);
}

static void skip_word(struct scan *s)
{
    while (s->p < s->end && !strchr(" \t\r\n,:]}", *s->p))
        step(s);
}

static int walk_object(struct scan *s, const json_t *object)
{
    const char *key;
    json_t *member;

    step(s);
    json_object_foreach ((json_t *)(uintptr_t)object, key, member) {
        skip_between(s);
        int r = json_marks_add_key(s->marks, object, key, s->line, s->column);
        if (r < 0)
            return r;
        skip_string(s);
        r = walk(s, member);
        if (r < 0)
            return r;
    }
    skip_between(s);
    step(s);
    return 0;
}

static int walk_array(struct scan *s, const json_t *array)
{
    size_t i;
    json_t *item;

    step(s);
    json_array_foreach (array, i, item) {
        int r = walk(s, item);
        if (r < 0)
            return r;
    }
    skip_between(s);
    step(s);
    return 0;
}

static int walk(struct scan *s, const json_t *value)
{
    skip_between(s);
    int line = s->line, column = s->column;
    const char *start = s->p;
    int r = 0;

    if (s->p >= s->end)
        return 0;
    if (json_is_object(value))
        r = walk_object(s, value);
    else if (json_is_array(value))
        r = walk_array(s, value);
    else if (json_is_string(value))
        skip_string(s);
    else
        skip_word(s);
    if (r < 0)
        return r;
    return json_marks_add(s->marks, value, line, column, json_is_number(value) ? start : NULL,
                          (size_t)(s->p - start));
}

int json_marks_scan(const char *text, size_t len, const json_t *root, struct json_marks **ret)
{
    struct json_marks *marks = json_marks_new();
    struct scan s = {.marks = marks, .p = text, .end = text + len, .line = 1, .column = 1};

    if (!marks)
        return -ENOMEM;
    int r = walk(&s, root);
    if (r < 0) {
        json_marks_free(marks);
        return r;
    }
    json_marks_sort(marks);
    *ret = marks;
    return 0;
}
