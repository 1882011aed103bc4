// SPDX-License-Identifier: Apache-2.0
// YAML to jansson over libyaml's events, with a stack of open mappings and lists instead of
// recursion. The rules are stricter than YAML: whatever could make a file mean something else than
// it seems to (anchors, tags, merge keys, repeated keys, octal, yes/no) is refused or stays a text.
#include "common/yaml.h"

#include "common/cleanup.h"
#include "common/json_marks.h"
#include "common/text.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define NUMBER_MAX 40 // longer ones stay texts: nothing here needs that many digits

struct yaml_doc {
    json_t *root;
    struct json_marks *marks;
};

// An open mapping or list.
struct level {
    json_t *container;
    char *key; // of a mapping: the key whose value comes next, or NULL
};

struct load {
    struct yaml_doc *doc;
    struct level levels[YAML_MAX_DEPTH];
    int depth;
    size_t nodes;
    bool has_document, done;
    struct err *e;
};

static int refuse(struct load *l, const yaml_mark_t *at, const char *text)
{
    return err_set(l->e, -EPROTO, "line %zu, column %zu: %s", at->line + 1, at->column + 1, text);
}

// --- scalars ---

static const char *digits(const char *p)
{
    while (*p >= '0' && *p <= '9')
        p++;
    return p;
}

// 0, 12, -3, 1.10; not 010, +1, 1., .5, 1e3, 0x1f, 1_000. *ret_real: it has a fraction.
static bool is_number(const char *text, bool *ret_real)
{
    const char *p = text + (text[0] == '-');
    const char *end = digits(p);

    if (strlen(text) > NUMBER_MAX || end == p || (*p == '0' && end > p + 1))
        return false;
    *ret_real = *end == '.';
    if (*end == '.') {
        p = end + 1;
        end = digits(p);
        if (end == p)
            return false;
    }
    return *end == '\0';
}

static json_t *number(const char *text, bool real)
{
    if (real)
        return json_real(strtod(text, NULL));
    errno = 0;
    long long value = strtoll(text, NULL, 10);
    return errno == ERANGE ? json_string(text) : json_integer(value);
}

static json_t *plain_scalar(const char *text)
{
    bool real = false;

    if (text[0] == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0)
        return json_null();
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        return json_boolean(text[0] == 't');
    if (is_number(text, &real))
        return number(text, real);
    return json_string(text);
}

static const char *scalar_text(const yaml_event_t *event)
{
    return (const char *)event->data.scalar.value;
}

static int check_scalar(struct load *l, const yaml_event_t *event)
{
    if (strlen(scalar_text(event)) != event->data.scalar.length)
        return refuse(l, &event->start_mark, "a NUL character (\\0) inside a text is not accepted");
    return 0;
}

static int make_scalar(struct load *l, const yaml_event_t *event, json_t **ret)
{
    bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    const char *text = scalar_text(event);
    int r = check_scalar(l, event);
    if (r < 0)
        return r;
    json_t *value = plain ? plain_scalar(text) : json_string(text);
    if (!value)
        return err_set(l->e, -ENOMEM, "out of memory");
    r = json_marks_add(l->doc->marks, value, (int)event->start_mark.line + 1,
                       (int)event->start_mark.column + 1, plain ? text : NULL, strlen(text));
    if (r < 0) {
        json_decref(value);
        return r;
    }
    *ret = value;
    return 0;
}

// --- the tree ---

static int repeated_key(struct load *l, const yaml_mark_t *at, const json_t *mapping,
                        const char *key)
{
    char quoted[TEXT_QUOTE_BYTES];
    int line = 0, column = 0;

    json_marks_sort(l->doc->marks);
    (void)json_marks_key_position(l->doc->marks, mapping, key, &line, &column);
    return err_set(
        l->e, -EPROTO,
        "line %zu, column %zu: the key %s is already given on line %d: keep one of the two",
        at->line + 1, at->column + 1, text_quote(key, quoted), line);
}

static int take_key(struct load *l, struct level *level, const yaml_event_t *event)
{
    const yaml_mark_t *at = &event->start_mark;
    const char *key = scalar_text(event);
    bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    int r = check_scalar(l, event);

    if (r < 0)
        return r;
    if (plain && strcmp(key, "<<") == 0)
        return refuse(l, at, "merge keys (<<) are not accepted: write the fields out");
    if (json_object_get(level->container, key))
        return repeated_key(l, at, level->container, key);
    level->key = strdup(key);
    if (!level->key)
        return err_set(l->e, -ENOMEM, "out of memory");
    return json_marks_add_key(l->doc->marks, level->container, key, (int)at->line + 1,
                              (int)at->column + 1);
}

// Puts a value (stolen) where it belongs: into the innermost open container, or as the root.
static int put(struct load *l, json_t *value)
{
    int r = 0;

    if (l->depth == 0) {
        l->doc->root = value;
        return 0;
    }
    struct level *level = &l->levels[l->depth - 1];
    if (json_is_array(level->container)) {
        r = json_array_append_new(level->container, value);
    } else {
        r = json_object_set_new(level->container, level->key, value);
        free(TAKE_PTR(level->key));
    }
    return r < 0 ? err_set(l->e, -ENOMEM, "out of memory") : 0;
}

static bool expects_key(const struct load *l)
{
    const struct level *level = l->depth ? &l->levels[l->depth - 1] : NULL;
    return level && json_is_object(level->container) && !level->key;
}

static int take_scalar(struct load *l, const yaml_event_t *event)
{
    json_t *value = NULL;

    if (expects_key(l))
        return take_key(l, &l->levels[l->depth - 1], event);
    int r = make_scalar(l, event, &value);
    return r < 0 ? r : put(l, value);
}

static int open_container(struct load *l, const yaml_event_t *event, json_t *container)
{
    const yaml_mark_t *at = &event->start_mark;
    int r;

    if (!container)
        return err_set(l->e, -ENOMEM, "out of memory");
    if (expects_key(l) || l->depth == YAML_MAX_DEPTH) {
        json_decref(container);
        return refuse(l, at,
                      l->depth == YAML_MAX_DEPTH
                          ? "nested more than 32 levels deep"
                          : "a mapping or list as a key is not accepted: a key is a text");
    }
    r = json_marks_add(l->doc->marks, container, (int)at->line + 1, (int)at->column + 1, NULL, 0);
    if (r < 0) {
        json_decref(container);
        return r;
    }
    r = put(l, container);
    if (r == 0)
        l->levels[l->depth++] = (struct level){.container = container};
    return r;
}

// --- events ---

static int check_properties(struct load *l, const yaml_event_t *event, const yaml_char_t *anchor,
                            const yaml_char_t *tag)
{
    if (anchor)
        return refuse(l, &event->start_mark,
                      "anchors (&name) are not accepted: write the value out where it is needed");
    if (tag)
        return refuse(l, &event->start_mark,
                      "tags (!name) are not accepted: leave the tag out, and quote what is a text");
    if (++l->nodes > YAML_MAX_NODES)
        return refuse(l, &event->start_mark, "more than 20000 values");
    return 0;
}

static int take_document(struct load *l, const yaml_event_t *event)
{
    if (l->has_document)
        return refuse(l, &event->start_mark,
                      "a second document (---) is not accepted: one file holds one document");
    l->has_document = true;
    return 0;
}

static int take_event(struct load *l, const yaml_event_t *event)
{
    int r;

    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return refuse(l, &event->start_mark,
                      "aliases (*name) are not accepted: write the value out (a text that starts "
                      "with * needs quotes)");
    case YAML_SCALAR_EVENT:
        r = check_properties(l, event, event->data.scalar.anchor, event->data.scalar.tag);
        return r < 0 ? r : take_scalar(l, event);
    case YAML_SEQUENCE_START_EVENT:
        r = check_properties(l, event, event->data.sequence_start.anchor,
                             event->data.sequence_start.tag);
        return r < 0 ? r : open_container(l, event, json_array());
    case YAML_MAPPING_START_EVENT:
        r = check_properties(l, event, event->data.mapping_start.anchor,
                             event->data.mapping_start.tag);
        return r < 0 ? r : open_container(l, event, json_object());
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        l->depth--;
        return 0;
    case YAML_DOCUMENT_START_EVENT:
        return take_document(l, event);
    case YAML_STREAM_END_EVENT:
        l->done = true;
        return 0;
    default:
        return 0;
    }
}

// --- libyaml's own complaints ---

static int unreadable(const yaml_parser_t *parser, const char *text, struct err *e)
{
    size_t line = 1, column = 1;

    if (parser->error == YAML_MEMORY_ERROR)
        return err_set(e, -ENOMEM, "out of memory");
    for (size_t i = 0; i < parser->problem_offset; i++) {
        column = text[i] == '\n' ? 1 : column + ((text[i] & 0xc0) != 0x80);
        line += text[i] == '\n';
    }
    return err_set(e, -EPROTO, "line %zu, column %zu: not readable as UTF-8 text: %s", line, column,
                   parser->problem ? parser->problem : "unknown character");
}

static const char *hint(char c)
{
    switch (c) {
    case '\t':
        return ": indent with spaces, not with tabs";
    case '@':
    case '`':
    case '%':
        return ": a text that starts with this character needs quotes";
    default:
        return "";
    }
}

static int malformed(const yaml_parser_t *parser, const char *text, size_t len, struct err *e)
{
    const yaml_mark_t *at = &parser->problem_mark;

    if (parser->error != YAML_SCANNER_ERROR && parser->error != YAML_PARSER_ERROR)
        return unreadable(parser, text, e);
    char c = at->index < len ? text[at->index] : '\0'; // index counts characters: a hint at most
    return err_set(e, -EPROTO, "line %zu, column %zu: %s%s%s%s", at->line + 1, at->column + 1,
                   parser->context ? parser->context : "", parser->context ? ", " : "",
                   parser->problem ? parser->problem : "not YAML", hint(c));
}

// --- interface ---

void yaml_doc_free(struct yaml_doc *doc)
{
    if (!doc)
        return;
    json_decref(doc->root);
    json_marks_free(doc->marks);
    free(doc);
}

static int run(struct load *l, yaml_parser_t *parser, const char *text, size_t len)
{
    while (!l->done) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event))
            return malformed(parser, text, len, l->e);
        int r = take_event(l, &event);
        yaml_event_delete(&event);
        if (r < 0)
            return r;
    }
    return 0;
}

// Reads the events into an empty document.
static int load_text(struct yaml_doc *doc, const char *text, size_t len, struct err *e)
{
    struct load l = {.doc = doc, .e = e};
    yaml_parser_t parser;

    if (!yaml_parser_initialize(&parser))
        return err_set(e, -ENOMEM, "out of memory");
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    int r = run(&l, &parser, text, len);
    yaml_parser_delete(&parser);
    for (int i = 0; i < YAML_MAX_DEPTH; i++)
        free(l.levels[i].key);
    return r;
}

static struct yaml_doc *doc_new(void)
{
    struct yaml_doc *doc = calloc(1, sizeof(*doc));
    if (!doc)
        return NULL;
    doc->marks = json_marks_new();
    if (doc->marks)
        return doc;
    free(doc);
    return NULL;
}

int yaml_parse(const char *text, size_t len, struct yaml_doc **ret, struct err *e)
{
    struct yaml_doc *doc = doc_new();

    if (!doc)
        return err_set(e, -ENOMEM, "out of memory");
    int r = load_text(doc, text, len, e);
    if (r < 0) {
        yaml_doc_free(doc);
        return r;
    }
    if (!doc->root)
        doc->root = json_null();
    json_marks_sort(doc->marks);
    *ret = doc;
    return 0;
}

json_t *yaml_root(const struct yaml_doc *doc)
{
    return doc->root;
}

bool yaml_position(const struct yaml_doc *doc, const json_t *value, int *ret_line, int *ret_column)
{
    return json_marks_position(doc->marks, value, ret_line, ret_column);
}

bool yaml_key_position(const struct yaml_doc *doc, const json_t *mapping, const char *key,
                       int *ret_line, int *ret_column)
{
    return json_marks_key_position(doc->marks, mapping, key, ret_line, ret_column);
}

const char *yaml_source(const struct yaml_doc *doc, const json_t *value)
{
    return json_marks_source(doc->marks, value);
}
