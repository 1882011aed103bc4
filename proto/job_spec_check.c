// SPDX-License-Identifier: Apache-2.0
// Rules of a job file that need more than one field, checked after all fields were read. Whether a
// field is missing is asked of the tree, so that one that was wrong is not reported as missing too.
#include "proto/job_spec_internal.h"

#include <ctype.h>
#include <string.h>

static void check_needed(struct job_reader *r, const json_t *root, const char *key,
                         const char *expected)
{
    if (json_object_get(root, key))
        return;
    job_reader_push_key(r, root, key);
    job_reader_problem(r, root, "`%s` is missing: %s", key, expected);
    job_reader_pop(r);
}

// Metrics serve two modes only; elsewhere the field is told to be useless and put back to its
// default.
static void check_metric(struct job_reader *r, const json_t *root)
{
    struct job_spec *spec = r->spec;
    const json_t *allocation = json_object_get(root, "allocation");

    if (spec->alloc == ALLOC_BALANCED || spec->alloc == ALLOC_COMPACTED)
        return;
    spec->metric = METRIC_CPU;
    if (!json_object_get(allocation, "metric"))
        return;
    job_reader_push_key(r, root, "allocation");
    job_reader_push_key(r, allocation, "metric");
    job_reader_warn(r, "ignored: mode %s weighs all resources", alloc_mode_to_string(spec->alloc));
    job_reader_pop(r);
    job_reader_pop(r);
}

static void check_component(struct job_reader *r, const json_t *value, struct job_component *c)
{
    bool process = r->spec->mode == JOB_MODE_PROCESS;
    bool has_image = json_object_get(value, "image");

    if (!json_is_object(value))
        return;
    if (!json_object_get(value, "command") && (process || !has_image))
        job_reader_problem(r, NULL, "%s",
                           process ? "`command` is missing: what the processes run"
                                   : "neither `image` nor `command`: there is nothing to run");
    job_health_check(r, value, c);
    job_check_beside(r, c);
    if (c->ports > 0 && c->network == NETWORK_NONE)
        job_reader_warn(r, "`ports` are of no use with `network: none`");
}

static void check_components(struct job_reader *r, const json_t *root)
{
    const json_t *components = json_object_get(root, "components");
    int64_t total = 0;

    job_reader_push_key(r, root, "components");
    for (size_t i = 0; i < r->spec->n_components; i++) {
        struct job_component *c = &r->spec->components[i];
        job_reader_push_key(r, components, c->name);
        check_component(r, json_object_get(components, c->name), c);
        job_reader_pop(r);
        total += c->num;
    }
    if (total > JOB_MAX_TASKS)
        job_reader_problem(r, NULL, "%lld tasks together, expected at most %d", (long long)total,
                           JOB_MAX_TASKS);
    job_reader_pop(r);
}

// Whether two components' addresses would be in one variable: names differ in case or in what is no
// letter or digit only.
static bool same_variable(const char *a, const char *b)
{
    for (; *a && *b; a++, b++) {
        bool word = isalnum((unsigned char)*a), other = isalnum((unsigned char)*b);
        if (word != other || (word && toupper((unsigned char)*a) != toupper((unsigned char)*b)))
            return false;
    }
    return *a == *b;
}

static void check_variables(struct job_reader *r)
{
    const struct job_spec *spec = r->spec;

    for (size_t i = 1; i < spec->n_components; i++)
        for (size_t k = 0; k < i; k++)
            if (same_variable(spec->components[i].name, spec->components[k].name))
                job_reader_warn(r, "components %s and %s share one MEADOW_…_ADDRS variable",
                                spec->components[k].name, spec->components[i].name);
}

void job_spec_check(struct job_reader *r, const json_t *root)
{
    if (!json_is_object(root) || r->failed)
        return;
    if (!r->name)
        check_needed(r, root, "name", "a name for the job such as my-job");
    check_needed(r, root, "components",
                 "a mapping of component names to what they run, such as {main: {command: ls}}");
    job_reader_push_key(r, root, "name");
    if (r->spec->array.count && r->spec->name && strlen(r->spec->name) > JOB_ARRAY_NAME_CHARS)
        job_reader_problem(r, NULL, "expected at most %d characters for an array",
                           JOB_ARRAY_NAME_CHARS);
    job_reader_pop(r);
    check_metric(r, root);
    check_components(r, root);
    check_variables(r);
    job_check_named(r);
    maro_warnings(r);
}
