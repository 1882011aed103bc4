// SPDX-License-Identifier: Apache-2.0
// Configuration files by table. Mappings in the file become dotted names ("listen: {port: 1}" is
// "listen.port"); each must be in the table. Every text is parsed by the same function whether it
// comes from the file or from the table's defaults.
#include "common/config.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/text.h"
#include "common/units.h"
#include "common/yaml.h"

#include <stdlib.h>
#include <string.h>

#define FILE_MAX (1 << 20)
#define NAME_MAX_BYTES 128

struct load {
    const char *path;
    const struct config_field *fields;
    size_t n_fields;
    void *out;
    const struct yaml_doc *doc;
    struct err *e;
};

DEFINE_CLEANUP(yaml_doc, yaml_doc_free)

static void list_free(char **list)
{
    for (char **p = list; p && *p; p++)
        free(*p);
    free(list);
}

static void *member(void *out, const struct config_field *f)
{
    return (char *)out + f->offset;
}

// --- texts to values: 0, -ENOMEM, or -EINVAL with what was expected ---

static int set_string(void *at, const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        return -ENOMEM;
    free(*(char **)at);
    *(char **)at = copy;
    return 0;
}

static int parse_int(const char *text, int64_t *ret, struct err *e)
{
    char *end;

    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno == ERANGE)
        return err_set(e, -EINVAL, "\"%.40s\" is too large", text);
    if (end == text || *end || (*text != '-' && (*text < '0' || *text > '9')))
        return err_set(e, -EINVAL, "expected a whole number, found \"%.60s\"", text);
    *ret = value;
    return 0;
}

static int parse_bool(const char *text, bool *ret, struct err *e)
{
    if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
        return err_set(e, -EINVAL, "expected true or false, found \"%.60s\"", text);
    *ret = text[0] == 't';
    return 0;
}

static void print_number(enum config_type type, int64_t value, char *out)
{
    if (type == CONFIG_DURATION_MS)
        units_format_duration(value, out);
    else if (type == CONFIG_MEMORY)
        units_format_memory(value, out);
    else if (type == CONFIG_CPU)
        units_format_cpu(value, out);
    else
        (void)snprintf(out, UNITS_TEXT_BYTES, "%lld", (long long)value);
}

static int check_range(const struct config_field *f, int64_t value, struct err *e)
{
    char found[UNITS_TEXT_BYTES], min[UNITS_TEXT_BYTES], max[UNITS_TEXT_BYTES];

    if ((f->min == 0 && f->max == 0) || (value >= f->min && value <= f->max))
        return 0;
    print_number(f->type, value, found);
    print_number(f->type, f->min, min);
    print_number(f->type, f->max, max);
    return err_set(e, -EINVAL, "%s is not between %s and %s", found, min, max);
}

static int set_number(const struct config_field *f, int64_t *at, const char *text, struct err *e)
{
    int64_t value = 0;
    int r;

    switch (f->type) {
    case CONFIG_DURATION_MS:
        r = units_parse_duration(text, &value, e);
        break;
    case CONFIG_MEMORY:
        r = units_parse_memory(text, &value, e);
        break;
    case CONFIG_CPU:
        r = units_parse_cpu(text, &value, e);
        break;
    default:
        r = parse_int(text, &value, e);
        break;
    }
    if (r == 0)
        r = check_range(f, value, e);
    if (r == 0)
        *at = value;
    return r;
}

static int set_text(const struct config_field *f, void *out, const char *text, struct err *e)
{
    if (f->type == CONFIG_STRING)
        return set_string(member(out, f), text);
    if (f->type == CONFIG_BOOL)
        return parse_bool(text, member(out, f), e);
    return set_number(f, member(out, f), text, e);
}

// --- values of a document ---

// The text of a scalar as it stands in the file; NULL for mappings, lists and nothing.
static const char *scalar(const struct yaml_doc *doc, const json_t *value)
{
    if (json_is_boolean(value))
        return json_is_true(value) ? "true" : "false";
    if (json_is_string(value))
        return json_string_value(value);
    return json_is_number(value) ? yaml_source(doc, value) : NULL;
}

static int set_list(const struct config_field *f, void *out, const struct yaml_doc *doc,
                    const json_t *value, struct err *e)
{
    size_t i;
    json_t *item;

    if (!json_is_array(value))
        return err_set(e, -EINVAL, "expected a list");
    char **list = calloc(json_array_size(value) + 1, sizeof(*list));
    if (!list)
        return -ENOMEM;
    json_array_foreach (value, i, item) {
        const char *text = scalar(doc, item);
        if (!text || !(list[i] = strdup(text))) {
            list_free(list);
            return text ? -ENOMEM : err_set(e, -EINVAL, "expected a list of texts");
        }
    }
    list_free(*(char ***)member(out, f));
    *(char ***)member(out, f) = list;
    return 0;
}

static int set_value(const struct config_field *f, void *out, const struct yaml_doc *doc,
                     const json_t *value, struct err *e)
{
    if (f->type == CONFIG_STRING_LIST)
        return set_list(f, out, doc, value, e);
    const char *text = scalar(doc, value);
    if (text)
        return set_text(f, out, text, e);
    return err_set(e, -EINVAL, "expected a single value, found a %s",
                   json_is_array(value) ? "list" : "mapping");
}

// --- defaults ---

static int set_default(const struct config_field *f, void *out, struct err *e)
{
    cleanup(yaml_doc) struct yaml_doc *doc = NULL;

    if (!f->default_text)
        return 0;
    if (f->type != CONFIG_STRING_LIST)
        return set_text(f, out, f->default_text, e);
    int r = yaml_parse(f->default_text, strlen(f->default_text), &doc, e);
    return r < 0 ? r : set_list(f, out, doc, yaml_root(doc), e);
}

static int set_defaults(const struct config_field *fields, size_t n, void *out, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        const struct config_field *f = &fields[i];
        size_t size = f->type == CONFIG_BOOL ? sizeof(bool) : sizeof(int64_t);
        if (f->type == CONFIG_STRING || f->type == CONFIG_STRING_LIST)
            size = sizeof(void *);
        memset(member(out, f), 0, size);
    }
    for (size_t i = 0; i < n; i++) {
        int r = set_default(&fields[i], out, e);
        if (r < 0)
            return err_wrap(e, r, "default of %s", fields[i].name);
    }
    return 0;
}

// --- the file ---

static const struct config_field *find(const struct load *l, const char *name)
{
    for (size_t i = 0; i < l->n_fields; i++)
        if (strcmp(l->fields[i].name, name) == 0)
            return &l->fields[i];
    return NULL;
}

// Whether the table has fields below the name ("listen" of "listen.port").
static bool is_group(const struct load *l, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < l->n_fields; i++)
        if (strncmp(l->fields[i].name, name, len) == 0 && l->fields[i].name[len] == '.')
            return true;
    return false;
}

// Puts "PATH, line L, column C: NAME: " before the error's text.
static int wrap(const struct load *l, int code, const json_t *mapping, const char *key,
                const char *name)
{
    int line = 0, column = 0;

    if (code == -ENOMEM)
        return err_set(l->e, code, "%s: out of memory", l->path);
    (void)yaml_key_position(l->doc, mapping, key, &line, &column);
    return err_wrap(l->e, code, "%s, line %d, column %d: %s", l->path, line, column, name);
}

// A known name near the given one; of "lisen" for "listen.port" its first part. out:
// NAME_MAX_BYTES.
static const char *nearest(const struct load *l, const char *name, char *out)
{
    const char *found = text_suggest(name, &l->fields[0].name, l->n_fields, sizeof(l->fields[0]));

    for (size_t i = 0; i < l->n_fields && !found; i++) {
        const char *dot = strchr(l->fields[i].name, '.');
        if (!dot)
            continue;
        (void)snprintf(out, NAME_MAX_BYTES, "%.*s", (int)(dot - l->fields[i].name),
                       l->fields[i].name);
        const char *word = out;
        found = text_suggest(name, &word, 1, sizeof(word));
    }
    return found;
}

static int unknown(const struct load *l, const json_t *mapping, const char *key, const char *name)
{
    char part[NAME_MAX_BYTES];
    const char *near = nearest(l, name, part);

    if (near)
        (void)err_set(l->e, -EINVAL, "unknown field: did you mean \"%s\"?", near);
    else
        (void)err_set(l->e, -EINVAL, "unknown field");
    return wrap(l, -EINVAL, mapping, key, name);
}

static int load_mapping(struct load *l, const json_t *mapping, const char *prefix);

static int load_member(struct load *l, const json_t *mapping, const char *key, const json_t *value,
                       const char *name)
{
    const struct config_field *f = find(l, name);

    if (!f && !is_group(l, name))
        return unknown(l, mapping, key, name);
    if (json_is_null(value)) // "name:" with nothing behind it: as if it were not there
        return 0;
    if (f) {
        int r = set_value(f, l->out, l->doc, value, l->e);
        return r < 0 ? wrap(l, r, mapping, key, name) : 0;
    }
    if (json_is_object(value))
        return load_mapping(l, value, name);
    (void)err_set(l->e, -EINVAL, "expected a mapping of fields");
    return wrap(l, -EINVAL, mapping, key, name);
}

static int load_mapping(struct load *l, const json_t *mapping, const char *prefix)
{
    const char *key;
    json_t *value;

    json_object_foreach ((json_t *)(uintptr_t)mapping, key, value) {
        char name[NAME_MAX_BYTES];
        (void)snprintf(name, sizeof(name), "%s%s%s", prefix, *prefix ? "." : "", key);
        text_make_utf8(name);
        int r = load_member(l, mapping, key, value, name);
        if (r < 0)
            return r;
    }
    return 0;
}

static int load_file(struct load *l)
{
    cleanup_free char *text = NULL;
    cleanup(yaml_doc) struct yaml_doc *doc = NULL;
    size_t len = 0;

    int r = atomic_file_read(l->path, FILE_MAX, &text, &len, l->e);
    if (r < 0)
        return r;
    r = yaml_parse(text, len, &doc, l->e);
    if (r < 0)
        return err_wrap(l->e, r, "%s", l->path);
    if (json_is_null(yaml_root(doc)))
        return 0;
    if (!json_is_object(yaml_root(doc)))
        return err_set(l->e, -EINVAL, "%s: expected \"field: value\" lines", l->path);
    l->doc = doc;
    return load_mapping(l, yaml_root(doc), "");
}

int config_load(const char *path, const struct config_field *fields, size_t n_fields, void *out,
                struct err *e)
{
    struct load l = {.path = path, .fields = fields, .n_fields = n_fields, .out = out, .e = e};
    int r = set_defaults(fields, n_fields, out, e);

    if (r == 0 && path)
        r = load_file(&l);
    if (r < 0)
        config_free(fields, n_fields, out);
    return r;
}

void config_free(const struct config_field *fields, size_t n_fields, void *out)
{
    for (size_t i = 0; i < n_fields; i++) {
        void *at = member(out, &fields[i]);
        if (fields[i].type == CONFIG_STRING) {
            free(*(char **)at);
            *(char **)at = NULL;
        } else if (fields[i].type == CONFIG_STRING_LIST) {
            list_free(*(char ***)at);
            *(char ***)at = NULL;
        }
    }
}
