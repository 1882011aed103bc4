// SPDX-License-Identifier: Apache-2.0
#include "common/json_fields.h"

#include <limits.h>
#include <string.h>

void json_put_fields(json_t *obj, const struct json_field *fields, size_t n, const void *from)
{
    for (const struct json_field *f = fields; f < fields + n; f++) {
        const char *at = (const char *)from + f->offset;
        switch (f->type) {
        case JSON_FIELD_CHARS:
            json_put_str(obj, f->key, at);
            break;
        case JSON_FIELD_TEXT:
        case JSON_FIELD_OPT_TEXT:
            json_put_str(obj, f->key, *(char *const *)(const void *)at);
            break;
        case JSON_FIELD_INT:
            json_put_i64(obj, f->key, *(const int *)(const void *)at);
            break;
        case JSON_FIELD_I64:
            json_put_i64(obj, f->key, *(const int64_t *)(const void *)at);
            break;
        case JSON_FIELD_FLAG:
            json_put_bool(obj, f->key, *(const bool *)(const void *)at);
            break;
        }
    }
}

static int get_chars(const json_t *obj, const struct json_field *f, char *to, struct err *e)
{
    const char *text;
    int r = json_get_str(obj, f->key, &text, e);
    if (r < 0)
        return r;
    if (strlen(text) >= (size_t)f->max)
        return err_set(e, -EPROTO, "member \"%s\": is too long", f->key);
    memcpy(to, text, strlen(text) + 1);
    return 0;
}

static int get_text(const json_t *obj, const struct json_field *f, char **to, struct err *e)
{
    const char *text = json_opt_str(obj, f->key, NULL);
    if (!text)
        return f->type == JSON_FIELD_OPT_TEXT ? 0 : json_get_str(obj, f->key, &text, e);
    *to = strdup(text);
    return *to ? 0 : err_set(e, -ENOMEM, "out of memory");
}

static int get_number(const json_t *obj, const struct json_field *f, int64_t *to, struct err *e)
{
    int r = json_get_i64(obj, f->key, to, e);
    if (r == 0 && (*to < f->min || *to > f->max))
        return err_set(e, -EPROTO, "member \"%s\": %lld is out of range", f->key, (long long)*to);
    return r;
}

static int get_field(const json_t *obj, const struct json_field *f, char *at, struct err *e)
{
    int64_t number = 0;
    int r = 0;
    switch (f->type) {
    case JSON_FIELD_CHARS:
        return get_chars(obj, f, at, e);
    case JSON_FIELD_TEXT:
    case JSON_FIELD_OPT_TEXT:
        return get_text(obj, f, (char **)(void *)at, e);
    case JSON_FIELD_INT:
        r = get_number(obj, f, &number, e);
        *(int *)(void *)at = r < 0 ? 0 : (int)number;
        return r;
    case JSON_FIELD_I64:
        return get_number(obj, f, (int64_t *)(void *)at, e);
    case JSON_FIELD_FLAG:
        *(bool *)(void *)at = json_opt_bool(obj, f->key, false);
        return 0;
    }
    return r;
}

int json_get_fields(const json_t *obj, const struct json_field *fields, size_t n, void *to,
                    struct err *e)
{
    int r = 0;
    for (const struct json_field *f = fields; f < fields + n && r == 0; f++)
        r = get_field(obj, f, (char *)to + f->offset, e);
    return r;
}
