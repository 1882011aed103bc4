// SPDX-License-Identifier: Apache-2.0
// The top level of a job file, by table. A member that cannot be read keeps its default, so that
// the rest of the file is still checked.
#include "proto/job_spec_internal.h"

#include "common/cleanup.h"
#include "common/id.h"
#include "common/text.h"

#include <ctype.h>
#include <string.h>

bool job_name_is_valid(const char *name)
{
    size_t len = strlen(name);
    if (len == 0 || len > JOB_NAME_CHARS || !isalnum((unsigned char)name[0]))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("._-", name[i]))
            return false;
    return true;
}

#define NAME_FORM "1 to 63 letters, digits, \".\", \"_\" or \"-\", the first a letter or digit"

bool job_name_check(struct job_reader *r, const json_t *value, const char *name)
{
    char quoted[TEXT_QUOTE_BYTES];
    size_t len;
    int index;

    if (!job_name_is_valid(name)) {
        job_reader_problem(r, value, "found %s, expected " NAME_FORM, text_quote(name, quoted));
        return false;
    }
    if (id_is('j', name)) {
        job_reader_problem(r, value, "\"%s\" looks like the id of a job: choose another name",
                           name);
        return false;
    }
    if (job_element_split(name, &len, &index) && len == ID_BYTES - 1 && name[0] == 'j') {
        job_reader_problem(r, value,
                           "\"%s\" looks like the id of an array's element: choose "
                           "another name",
                           name);
        return false;
    }
    return true;
}

static void read_name(struct job_reader *r, const struct job_field *f, const json_t *value,
                      void *object)
{
    char room[JOB_READER_TEXT_BYTES];
    struct job_spec *spec = object;
    const char *text = job_reader_text(r, value, room);

    (void)f;
    if (r->name) // replaced by the caller: the file's own does not matter
        return;
    if (!text)
        job_reader_expected(r, value, NAME_FORM);
    else if (job_name_check(r, value, text))
        spec->name = job_reader_dup(r, text);
}

static void read_mode(struct job_reader *r, const struct job_field *f, const json_t *value,
                      void *object)
{
    struct job_spec *spec = object;
    const char *text = json_string_value(value);
    if (!text || job_mode_from_string(text, &spec->mode) < 0)
        job_reader_expected(r, value, f->expected);
}

static void read_alloc_mode(struct job_reader *r, const struct job_field *f, const json_t *value,
                            void *object)
{
    struct job_spec *spec = object;
    const char *text = json_string_value(value);
    if (!text || alloc_mode_from_string(text, &spec->alloc) < 0)
        job_reader_expected(r, value, f->expected);
}

static void read_metric(struct job_reader *r, const struct job_field *f, const json_t *value,
                        void *object)
{
    struct job_spec *spec = object;
    const char *text = json_string_value(value);
    if (!text || alloc_metric_from_string(text, &spec->metric) < 0)
        job_reader_expected(r, value, f->expected);
}

static const struct job_field allocation_fields[] = {
    {"mode", read_alloc_mode, 0, 0, 0,
     "best-fit, spread, single-metric-balanced or single-metric-compacted"},
    {"metric", read_metric, 0, 0, 0, "cpu, memory or gpu"},
    {"gang", job_read_gang, offsetof(struct job_spec, gang), 0, 0, "same-node, few-nodes or any"},
};

static void read_allocation(struct job_reader *r, const struct job_field *f, const json_t *value,
                            void *object)
{
    (void)f;
    job_reader_object(r, allocation_fields, ARRAY_SIZE(allocation_fields), value, object,
                      "a mapping such as {mode: spread}");
}

static void read_components(struct job_reader *r, const struct job_field *f, const json_t *value,
                            void *object)
{
    struct job_spec *spec = object;
    const char *key;
    json_t *member;

    (void)f;
    if (!json_is_object(value) || json_object_size(value) == 0) {
        job_reader_expected(r, value, "a mapping with at least one component");
        return;
    }
    if (json_object_size(value) > JOB_MAX_COMPONENTS) {
        job_reader_problem(r, value, "found %zu components, expected at most %d",
                           json_object_size(value), JOB_MAX_COMPONENTS);
        return;
    }
    spec->components = job_reader_alloc(r, json_object_size(value), sizeof(*spec->components));
    if (!spec->components)
        return;
    json_object_foreach ((json_t *)(uintptr_t)value, key, member) {
        struct job_component *c = &spec->components[spec->n_components++];
        job_reader_push_key(r, value, key);
        if (!job_name_is_valid(key))
            job_reader_problem(r, NULL, "a component's name is " NAME_FORM);
        c->name = job_reader_dup(r, key);
        job_read_component(r, member, c);
        job_reader_pop(r);
    }
}

// --- tags: a free map, kept as it is, but a decimal of a YAML file keeps its text (1.10) ---

static json_t *copy_tag(struct job_reader *r, const json_t *value)
{
    char room[JOB_READER_TEXT_BYTES];
    const char *key;
    size_t i;
    json_t *item;
    json_t *copy = NULL;

    if (json_is_object(value)) {
        copy = json_object();
        json_object_foreach ((json_t *)(uintptr_t)value, key, item)
            if (json_object_set_new(copy, key, copy_tag(r, item)) < 0)
                r->failed = true;
    } else if (json_is_array(value)) {
        copy = json_array();
        json_array_foreach (value, i, item)
            if (json_array_append_new(copy, copy_tag(r, item)) < 0)
                r->failed = true;
    } else if (json_is_real(value) && r->yaml) {
        copy = json_string(job_reader_text(r, value, room));
    } else {
        copy = json_deep_copy(value);
    }
    return copy;
}

static void read_tags(struct job_reader *r, const struct job_field *f, const json_t *value,
                      void *object)
{
    struct job_spec *spec = object;

    (void)f;
    if (json_is_null(value)) // "tags:" with nothing below
        return;
    if (!json_is_object(value)) {
        job_reader_expected(r, value, "a mapping such as {project: cim}");
        return;
    }
    spec->tags = copy_tag(r, value);
    if (!spec->tags)
        r->failed = true;
}

static const struct job_field fields[] = {
    {"name", read_name, 0, 0, 0, NULL},
    {"mode", read_mode, 0, 0, 0,
     "process, grass, grass/local, grass/on-premises, grass/azure or k8s/aks"},
    {"priority", job_read_int, offsetof(struct job_spec, priority), 0, JOB_MAX_PRIORITY, NULL},
    {"exclusive", job_read_bool, offsetof(struct job_spec, exclusive), 0, 0, NULL},
    {"preemptible", job_read_bool, offsetof(struct job_spec, preemptible), 0, 0, NULL},
    {"allocation", read_allocation, 0, 0, 0, NULL},
    {"components", read_components, 0, 0, 0, NULL},
    {"tags", read_tags, 0, 0, 0, NULL},
    {"weight", job_later_weight, 0, 0, 0, NULL},
    {"job_redis", job_later_bool, 0, 0, 0, NULL},
    {"job_names", job_later_names, 0, 0, 0, NULL},
    {"after", job_read_after, 0, 0, 0, NULL},
    {"array", job_read_array, 0, 0, 0, NULL},
    {"data", job_later_any, 0, 0, 0, NULL},
    {"deadline", job_read_deadline, offsetof(struct job_spec, deadline_ms), 1, JOB_MAX_LIMIT_MS,
     NULL},
    {"wait_limit", job_read_duration, offsetof(struct job_spec, wait_limit_ms), 1, JOB_MAX_LIMIT_MS,
     NULL},
    {"secrets", job_later_any, 0, 0, 0, NULL},
};

void job_spec_read(struct job_reader *r, const json_t *root)
{
    r->spec->priority = JOB_DEFAULT_PRIORITY;
    if (r->name) {
        job_reader_push_key(r, NULL, "name");
        if (job_name_check(r, NULL, r->name))
            r->spec->name = job_reader_dup(r, r->name);
        job_reader_pop(r);
    }
    job_reader_object(r, fields, ARRAY_SIZE(fields), root, r->spec,
                      "a mapping with name and components");
}
