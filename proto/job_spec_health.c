// SPDX-License-Identifier: Apache-2.0
// `health` of a component, with Docker's names (HEALTHCHECK, and compose's healthcheck).
#include "proto/job_spec_internal.h"

#include "common/cleanup.h"
#include "common/units.h"

#include <stdlib.h>
#include <string.h>

#define DAY_MS INT64_C(86400000)

static void read_command(struct job_reader *r, const struct job_field *f, const json_t *value,
                         void *object)
{
    struct job_health *h = object;
    struct job_component c = {0};
    if (json_array_size(value) > HEALTH_ARGS_MAX) {
        job_reader_problem(r, value, "%zu arguments, expected at most %d", json_array_size(value),
                           HEALTH_ARGS_MAX);
        return;
    }
    job_read_command(r, f, value, &c);
    h->command = c.command;
    h->command_shell = c.command_shell;
}

static void read_path(struct job_reader *r, const struct job_field *f, const json_t *value,
                      void *object)
{
    struct job_health *h = object;
    const char *text = json_string_value(value);
    bool good = text && text[0] == '/' && strlen(text) <= HEALTH_PATH_MAX;
    for (const char *p = text; good && *p; p++)
        good = (unsigned char)*p > ' ' && (unsigned char)*p < 0x7f;
    if (!good) {
        job_reader_expected(r, value, f->expected);
        return;
    }
    free(h->path);
    h->path = job_reader_dup(r, text);
}

static void read_count(struct job_reader *r, const struct job_field *f, const json_t *value,
                       void *object)
{
    int n = 0;
    struct job_field plain = *f;
    plain.offset = 0;
    job_read_int(r, &plain, value, &n);
    *(int64_t *)(void *)((char *)object + f->offset) = n;
}

#define AT(member) offsetof(struct job_health, member)

static const struct job_field http_fields[] = {
    {"port", read_count, AT(port), 0, 65535, NULL},
    {"path", read_path, 0, 0, 0, "a path such as /healthz: printable ASCII, up to 1024 characters"},
};

static void read_http(struct job_reader *r, const struct job_field *f, const json_t *value,
                      void *object)
{
    struct job_health *h = object;
    (void)f;
    h->path = job_reader_dup(r, "/");
    job_reader_object(r, http_fields, ARRAY_SIZE(http_fields), value, h,
                      "a mapping such as {port: 0, path: /healthz}");
}

static const struct job_field fields[] = {
    {"command", read_command, 0, 0, 0, NULL},
    {"http", read_http, 0, 0, 0, NULL},
    {"interval", job_read_duration, AT(interval_ms), 100, DAY_MS, NULL},
    {"timeout", job_read_duration, AT(timeout_ms), 100, DAY_MS, NULL},
    {"start_period", job_read_duration, AT(start_period_ms), 0, DAY_MS, NULL},
    {"retries", read_count, AT(retries), 1, 1000, NULL},
};

void job_read_health(struct job_reader *r, const struct job_field *f, const json_t *value,
                     void *object)
{
    struct job_component *c = object;
    (void)f;
    c->health = job_reader_alloc(r, 1, sizeof(*c->health));
    if (!c->health)
        return;
    c->health->interval_ms = 10000;
    c->health->timeout_ms = 5000;
    c->health->retries = 3;
    job_reader_object(r, fields, ARRAY_SIZE(fields), value, c->health,
                      "a mapping such as {command: ./check, interval: 10s}");
    if (json_is_object(value) &&
        !json_object_get(value, "command") == !json_object_get(value, "http"))
        job_reader_problem(r, value, "expected exactly one of `command` and `http`");
}

void job_health_check(struct job_reader *r, const json_t *component, const struct job_component *c)
{
    const json_t *health = json_object_get(component, "health");
    const json_t *http = json_object_get(health, "http");
    const json_t *port = json_object_get(http, "port");
    if (port && json_integer_value(port) != (c->health ? c->health->port : 0))
        return; // it was wrong, and is told
    if (!json_is_object(http) || !c->health || c->health->port >= HEALTH_INDEX_BOUND ||
        c->health->port < c->ports)
        return;
    job_reader_push_key(r, component, "health");
    job_reader_push_key(r, health, "http");
    if (c->ports == 0)
        job_reader_problem(r, http,
                           "`port` %d is an index into `ports`, of which the component has none: "
                           "set `ports: 1`, or name the port that the program listens on",
                           (int)c->health->port);
    else
        job_reader_problem(r, http, "`port` %d is an index into `ports`: expected 0 to %d",
                           (int)c->health->port, c->ports - 1);
    job_reader_pop(r);
    job_reader_pop(r);
}
