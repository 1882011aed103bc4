// SPDX-License-Identifier: Apache-2.0
// `secrets:` of a component: a list of names, or of {name, path}.
#include "proto/attempt_secret.h"
#include "proto/job_spec_internal.h"

#include "common/cleanup.h"

#include <stdlib.h>
#include <string.h>

#define NAME_FORM                                                                                  \
    "a secret's name: 1 to 63 of letters, digits, \"_\", \".\" and \"-\", not beginning with the " \
    "last two"

static void read_name(struct job_reader *r, const struct job_field *f, const json_t *value,
                      void *object)
{
    struct job_secret *s = object;
    const char *text = json_string_value(value);

    (void)f;
    if (!text || !secret_name_ok(text))
        job_reader_expected(r, value, NAME_FORM);
    else
        s->name = job_reader_dup(r, text);
}

static void read_path(struct job_reader *r, const struct job_field *f, const json_t *value,
                      void *object)
{
    struct job_secret *s = object;
    const char *text = json_string_value(value);

    (void)f;
    if (!text || !job_path_ok(text, strlen(text)) || text[strlen(text) - 1] == '/')
        job_reader_expected(r, value, "the absolute path of a file in the container");
    else
        s->path = job_reader_dup(r, text);
}

static const struct job_field secret_fields[] = {
    {"name", read_name, 0, 0, 0, NULL},
    {"path", read_path, 0, 0, 0, NULL},
};

static void add_secret(struct job_reader *r, const json_t *value, struct job_component *c)
{
    struct job_secret s = {0};

    if (json_is_string(value))
        read_name(r, NULL, value, &s);
    else
        job_reader_object(r, secret_fields, ARRAY_SIZE(secret_fields), value, &s,
                          "a secret's name, or a mapping such as {name: db, path: /etc/app/db}");
    if (json_is_object(value) && !json_object_get(value, "name"))
        job_reader_problem(r, value, "`name` is missing: " NAME_FORM);
    for (size_t i = 0; s.name && i < c->n_secrets; i++)
        if (strcmp(c->secrets[i].name, s.name) == 0)
            job_reader_problem(r, value, "is here twice");
    if (s.name) {
        c->secrets[c->n_secrets++] = s;
        return;
    }
    free(s.path);
}

void job_read_secrets(struct job_reader *r, const struct job_field *f, const json_t *value,
                      void *object)
{
    struct job_component *c = object;
    size_t i;
    json_t *item;

    (void)f;
    if (!json_is_array(value) || json_array_size(value) > SECRETS_PER_TASK) {
        job_reader_expected(r, value, "a list of at most 64 secrets such as [db-password]");
        return;
    }
    if (json_array_size(value) > 0 && !c->secrets)
        c->secrets = job_reader_alloc(r, SECRETS_PER_TASK + 1, sizeof(*c->secrets));
    if (!c->secrets)
        return;
    json_array_foreach (value, i, item) {
        job_reader_push_index(r, value, i);
        add_secret(r, item, c);
        job_reader_pop(r);
    }
}
