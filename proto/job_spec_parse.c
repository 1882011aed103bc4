// SPDX-License-Identifier: Apache-2.0
// From text to a checked spec: the text's own form (JSON by jansson, YAML by our loader, both with
// the same limits), then fields, then rules.
#include "common/cleanup.h"
#include "common/json.h"
#include "common/text.h"
#include "proto/job_spec_internal.h"

#include <stdlib.h>
#include <string.h>

DEFINE_CLEANUP(yaml_doc, yaml_doc_free)
DEFINE_CLEANUP(job_spec, job_spec_free)

// Counts down the values that are left; NULL when all is in bounds, else the value that is not.
static const json_t *beyond(const json_t *value, int depth, int *left)
{
    const char *key;
    size_t i;
    json_t *item;
    const json_t *found = NULL;

    if (--*left < 0)
        return value;
    if (!json_is_object(value) && !json_is_array(value))
        return NULL;
    if (depth == YAML_MAX_DEPTH)
        return value;
    json_object_foreach ((json_t *)(uintptr_t)value, key, item)
        if (!found)
            found = beyond(item, depth + 1, left);
    json_array_foreach (value, i, item)
        if (!found)
            found = beyond(item, depth + 1, left);
    return found;
}

// YAML's limits for a JSON text.
static int check_limits(const char *text, size_t len, const json_t *root, struct err *e)
{
    int left = YAML_MAX_NODES;
    int line = 0, column = 0;
    struct json_marks *marks = NULL;
    const json_t *found = beyond(root, 0, &left);

    if (!found)
        return 0;
    if (json_marks_scan(text, len, root, &marks) < 0)
        return err_set(e, -ENOMEM, "out of memory");
    (void)json_marks_position(marks, found, &line, &column);
    json_marks_free(marks);
    if (left < 0)
        return err_set(e, -EPROTO, "line %d, column %d: more than %d values", line, column,
                       YAML_MAX_NODES);
    return err_set(e, -EPROTO, "line %d, column %d: nested more than %d levels deep", line, column,
                   YAML_MAX_DEPTH);
}

// Reads the tree into a new spec. 0, -ENOMEM, or -EINVAL when there are problems.
static int read_tree(struct job_reader *r, const json_t *root, struct job_spec **ret, struct err *e)
{
    cleanup(job_spec) struct job_spec *spec = calloc(1, sizeof(*spec));

    if (!spec)
        return err_set(e, -ENOMEM, "out of memory");
    r->root = root;
    r->spec = spec;
    job_spec_read(r, root);
    job_spec_check(r, root);
    job_reader_finish(r);
    if (r->failed)
        return err_set(e, -ENOMEM, "out of memory");
    if (r->problems->count > 0) {
        const struct job_problem *p = &r->problems->items[0];
        return err_set(e, -EINVAL, "%s%s%s", p->path, *p->path ? ": " : "", p->message);
    }
    *ret = TAKE_PTR(spec);
    return 0;
}

static int parse_yaml(struct job_reader *r, const char *text, size_t len, struct job_spec **ret,
                      struct err *e)
{
    cleanup(yaml_doc) struct yaml_doc *doc = NULL;
    int x = yaml_parse(text, len, &doc, e);
    if (x < 0)
        return x;
    r->yaml = doc;
    return read_tree(r, yaml_root(doc), ret, e);
}

static int parse_json(struct job_reader *r, const char *text, size_t len, struct job_spec **ret,
                      struct err *e)
{
    cleanup_json json_t *root = NULL;
    int x = json_parse(text, len, &root, e);
    if (x == 0)
        x = check_limits(text, len, root, e);
    if (x < 0)
        return x;
    r->text = text;
    r->len = len;
    return read_tree(r, root, ret, e);
}

int job_spec_parse(const char *text, size_t len, const char *format, const char *name,
                   struct job_spec **ret, struct job_problems *problems,
                   struct job_warnings *warnings, struct err *e)
{
    struct job_reader r = {.name = name, .problems = problems, .warnings = warnings};
    int x = strcmp(format, "yaml") == 0 ? parse_yaml(&r, text, len, ret, e)
                                        : parse_json(&r, text, len, ret, e);
    if (x < 0 && e)
        text_make_utf8(e->text);
    return x;
}

int job_spec_from_json(const json_t *json, struct job_spec **ret, struct err *e)
{
    struct job_problems problems = {0};
    struct job_warnings warnings = {0};
    struct job_reader r = {.problems = &problems, .warnings = &warnings};
    int x = read_tree(&r, json, ret, e);
    job_problems_free(&problems);
    job_warnings_free(&warnings);
    return x;
}
