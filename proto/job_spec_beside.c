// SPDX-License-Identifier: Apache-2.0
// Where tasks are beside each other: `gang`, `affinity`, `anti_affinity`. A name in a list is a
// component of the job, or "job:NAME" another job of its user.
#include "proto/job_spec_internal.h"

#include <string.h>

#define NAMES_MAX 32
#define NAMES_FORM "a list of components of this job, or job:NAME for other jobs, at most 32"

void job_read_gang(struct job_reader *r, const struct job_field *f, const json_t *value,
                   void *object)
{
    const char *text = json_string_value(value);
    enum gang_mode *gang = (enum gang_mode *)(void *)((char *)object + f->offset);
    if (!text || gang_mode_from_string(text, gang) < 0)
        job_reader_expected(r, value, f->expected);
}

const char *job_named(const char *name)
{
    return strncmp(name, "job:", 4) == 0 ? name + 4 : NULL;
}

void job_read_beside(struct job_reader *r, const struct job_field *f, const json_t *value,
                     void *object)
{
    char ***list = (char ***)(void *)((char *)object + f->offset);
    size_t i, n = 0;
    json_t *item;

    if (!json_is_array(value) || json_array_size(value) > NAMES_MAX) {
        job_reader_expected(r, value, NAMES_FORM);
        return;
    }
    if (json_array_size(value) == 0)
        return;
    *list = job_reader_alloc(r, json_array_size(value) + 1, sizeof(**list));
    json_array_foreach (value, i, item) {
        char room[JOB_READER_TEXT_BYTES];
        const char *text = job_reader_text(r, item, room);
        const char *name = text && job_named(text) ? job_named(text) : text;
        job_reader_push_index(r, value, i);
        if (!name || !job_name_is_valid(name))
            job_reader_expected(r, item, "a component of this job, or job:NAME");
        else if (*list)
            (*list)[n++] = job_reader_dup(r, text);
        job_reader_pop(r);
    }
}

static bool has(char *const *list, const char *name)
{
    for (; list && *list; list++)
        if (strcmp(*list, name) == 0)
            return true;
    return false;
}

static bool is_component(const struct job_spec *spec, const char *name)
{
    for (size_t i = 0; i < spec->n_components; i++)
        if (spec->components[i].name && strcmp(spec->components[i].name, name) == 0)
            return true;
    return false;
}

static void check_name(struct job_reader *r, const struct job_component *c, const char *name,
                       bool apart)
{
    const char *job = job_named(name);
    bool gang = c->gang || r->spec->gang;

    if (job && r->spec->name && strcmp(job, r->spec->name) == 0)
        job_reader_problem(r, NULL, "names the job itself: name its components");
    else if (!job && !is_component(r->spec, name))
        job_reader_problem(r, NULL, "\"%s\" is no component of this job; another job is job:%s",
                           name, name);
    else if (!apart && c->name && strcmp(name, c->name) == 0)
        job_reader_problem(r, NULL,
                           "a component is beside itself already: `gang: same-node` puts "
                           "all of its tasks on one node");
    else if (!apart && !job && gang)
        job_reader_problem(r, NULL,
                           "`affinity` to a component and `gang` exclude each other: "
                           "`allocation.gang: same-node` puts the whole job on one node");
    else if (!apart && has(c->apart, name))
        job_reader_problem(r, NULL, "\"%s\" is in `anti_affinity`, too: it cannot be both", name);
}

void job_check_beside(struct job_reader *r, const struct job_component *c)
{
    for (int apart = 0; apart < 2; apart++)
        for (char *const *p = apart ? c->apart : c->near; p && *p; p++) {
            job_reader_push_key(r, NULL, apart ? "anti_affinity" : "affinity");
            check_name(r, c, *p, apart);
            job_reader_pop(r);
        }
}

void job_check_named(struct job_reader *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->spec->n_components; i++)
        for (int apart = 0; apart < 2; apart++) {
            const struct job_component *c = &r->spec->components[i];
            for (char *const *p = apart ? c->apart : c->near; p && *p; p++)
                n += job_named(*p) != NULL;
        }
    if (n > JOB_MAX_NAMED)
        job_reader_problem(r, NULL, "its components name other jobs %zu times, expected at most %d",
                           n, JOB_MAX_NAMED);
}
