// SPDX-License-Identifier: Apache-2.0
// One component of a job file, by table: its defaults, its simple fields, its command and
// environment.
#include "proto/job_spec_internal.h"

#include "common/cleanup.h"
#include "common/strbuf.h"
#include "common/text.h"

#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static void read_image(struct job_reader *r, const struct job_field *f, const json_t *value,
                       void *object)
{
    char room[JOB_READER_TEXT_BYTES];
    struct job_component *c = object;
    const char *text = job_reader_text(r, value, room);
    bool good = text && *text && strlen(text) <= JOB_MAX_IMAGE;

    for (const char *p = text; good && *p; p++)
        good = (unsigned char)*p > ' ' && *p != 0x7f;
    if (good)
        c->image = job_reader_dup(r, text);
    else
        job_reader_expected(r, value, f->expected);
}

static void read_num(struct job_reader *r, const struct job_field *f, const json_t *value,
                     void *object)
{
    if (json_is_object(value))
        job_later_num(r, value);
    else
        job_read_int(r, f, value, object);
}

static void read_network(struct job_reader *r, const struct job_field *f, const json_t *value,
                         void *object)
{
    struct job_component *c = object;
    const char *text = json_string_value(value);
    if (!text || network_mode_from_string(text, &c->network) < 0)
        job_reader_expected(r, value, f->expected);
}

// --- command ---

// An argument's text, or NULL after saying what is wrong with it.
static const char *argument(struct job_reader *r, const json_t *value, char *room,
                            const char *expected)
{
    const char *text = job_reader_text(r, value, room);
    if (!text)
        job_reader_expected(r, value, expected);
    else if (strlen(text) > JOB_MAX_ARG)
        job_reader_problem(r, value, "%zu bytes long, expected at most %d (the kernel's limit)",
                           strlen(text), JOB_MAX_ARG);
    return text && strlen(text) <= JOB_MAX_ARG ? text : NULL;
}

static void read_command_text(struct job_reader *r, const json_t *value, const char *text,
                              struct job_component *c)
{
    if (text[strspn(text, " \t\r\n")] == '\0') {
        job_reader_expected(r, value, "a command; leave the field out for the image's own");
        return;
    }
    c->command = job_reader_alloc(r, 4, sizeof(*c->command));
    if (!c->command)
        return;
    c->command_shell = true;
    c->command[0] = job_reader_dup(r, "/bin/sh");
    c->command[1] = job_reader_dup(r, "-c");
    c->command[2] = job_reader_dup(r, text);
}

static void read_command_list(struct job_reader *r, const json_t *value, struct job_component *c)
{
    size_t i;
    json_t *item;
    const char *program = json_string_value(json_array_get(value, 0));

    if (json_array_size(value) == 0 || (program && !*program)) {
        job_reader_problem(r, value, "the list must start with the program to run");
        return;
    }
    c->command = job_reader_alloc(r, json_array_size(value) + 1, sizeof(*c->command));
    if (!c->command)
        return;
    json_array_foreach (value, i, item) {
        char room[JOB_READER_TEXT_BYTES];
        job_reader_push_index(r, value, i);
        const char *text = argument(r, item, room, "a text");
        c->command[i] = job_reader_dup(r, text ? text : "");
        job_reader_pop(r);
    }
}

void job_read_command(struct job_reader *r, const struct job_field *f, const json_t *value,
                      void *object)
{
    char room[JOB_READER_TEXT_BYTES];

    (void)f;
    if (json_is_array(value)) {
        read_command_list(r, value, object);
        return;
    }
    const char *text =
        argument(r, value, room, "a text (run by sh -c) or a list of texts (run as it is)");
    if (text)
        read_command_text(r, value, text, object);
}

// --- env ---

static bool is_variable(const char *key)
{
    if (!isalpha((unsigned char)key[0]) && key[0] != '_')
        return false;
    for (const char *p = key; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '_')
            return false;
    return true;
}

// Variables that every task gets from the cluster: the file's value would be lost.
static bool is_reserved(const char *key)
{
    static const char *const names[] = {
        "CLUSTER_ID",
        "CLUSTER_NAME",
        "NODE_ID",
        "NODE_NAME",
        "JOB_ID",
        "JOB_NAME",
        "COMPONENT_ID",
        "COMPONENT_TYPE",
        "COMPONENT_INDEX",
        "COMPONENT_NAME",
        "CONTAINER_NAME",
        "PYTHONUNBUFFERED",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "MASTER_ADDR",
        "MASTER_PORT",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
    };

    if (strncmp(key, "MEADOW_", 7) == 0)
        return true;
    if (strncmp(key, "PORT", 4) == 0)
        return strspn(key + 4, "0123456789") == strlen(key + 4);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcmp(names[i], key) == 0)
            return true;
    return false;
}

static void read_variable(struct job_reader *r, const char *key, const json_t *value,
                          struct job_component *c)
{
    char room[JOB_READER_TEXT_BYTES];

    if (!is_variable(key) || strlen(key) > 255) {
        job_reader_problem(r, NULL,
                           "a variable's name is letters, digits and \"_\", not starting "
                           "with a digit, at most 255");
        return;
    }
    if (is_reserved(key))
        job_reader_warn(r, "ignored: every task gets this variable from the cluster");
    const char *text = argument(r, value, room, "a text (\"\" for an empty one)");
    if (!text)
        return;
    if (strlen(key) + 1 + strlen(text) > JOB_MAX_ARG) {
        job_reader_problem(r, value, "name and value are longer than %d bytes together",
                           JOB_MAX_ARG);
        return;
    }
    struct job_env *e = &c->env[c->n_env++];
    e->key = job_reader_dup(r, key);
    e->value = job_reader_dup(r, text);
}

static void job_read_env(struct job_reader *r, const struct job_field *f, const json_t *value,
                         void *object)
{
    struct job_component *c = object;
    const char *key;
    json_t *member;

    (void)f;
    if (json_is_null(value)) // "env:" with nothing below
        return;
    if (!json_is_object(value)) {
        job_reader_expected(r, value, "a mapping such as {KEY: value}");
        return;
    }
    c->env = job_reader_alloc(r, json_object_size(value), sizeof(*c->env));
    if (!c->env)
        return;
    json_object_foreach ((json_t *)(uintptr_t)value, key, member) {
        job_reader_push_key(r, value, key);
        read_variable(r, key, member, c);
        job_reader_pop(r);
    }
}

static void read_lost_action(struct job_reader *r, const struct job_field *f, const json_t *value,
                             void *object)
{
    struct job_component *c = object;
    const char *text = json_string_value(value);

    if (!text || node_lost_action_from_string(text, &c->lost_action) < 0)
        job_reader_expected(r, value, f->expected);
}

static const struct job_field node_lost_fields[] = {
    {"after", job_read_duration, offsetof(struct job_component, lost_after_ms), 1000,
     INT64_C(86400000), NULL},
    {"action", read_lost_action, 0, 0, 0, "restart, fail or wait"},
};

static void job_read_node_lost(struct job_reader *r, const struct job_field *f, const json_t *value,
                               void *object)
{
    (void)f;
    job_reader_object(r, node_lost_fields, ARRAY_SIZE(node_lost_fields), value, object,
                      "a mapping such as {after: 60s, action: restart}");
}

// --- the table ---

#define AT(member) offsetof(struct job_component, member)
#define YEARS_MS(n) (INT64_C(86400000) * 365 * (n))

static const struct job_field fields[] = {
    {"image", read_image, 0, 0, 0,
     "the name of an image such as pytorch:2.1, without spaces, at most 512 characters"},
    {"command", job_read_command, 0, 0, 0, NULL},
    {"num", read_num, AT(num), 1, JOB_MAX_NUM, NULL},
    {"resources", job_read_resources, 0, 0, 0, NULL},
    {"mount", job_read_mount, 0, 0, 0, NULL},
    {"mounts", job_read_mounts, 0, 0, 0, NULL},
    {"env", job_read_env, 0, 0, 0, NULL},
    {"secrets", job_read_secrets, 0, 0, 0, NULL},
    {"ports", job_read_int, AT(ports), 0, JOB_MAX_PORTS, NULL},
    {"network", read_network, 0, 0, 0, "host, bridge or none"},
    {"restart", job_read_restart, 0, 0, 0, NULL},
    {"stop", job_read_stop, 0, 0, 0, NULL},
    {"timeout", job_read_duration, AT(timeout_ms), 1, YEARS_MS(10), NULL},
    {"exclusive", job_read_bool, AT(exclusive), 0, 0, NULL},
    {"gang", job_read_gang, AT(gang), 0, 0, "same-node, few-nodes or any"},
    {"affinity", job_read_beside, AT(near), 0, 0, NULL},
    {"anti_affinity", job_read_beside, AT(apart), 0, 0, NULL},
    {"finishes_job", job_read_bool, AT(finishes_job), 0, 0, NULL},
    {"constraints", job_read_constraints, 0, 0, 0, NULL},
    {"on_node_lost", job_read_node_lost, 0, 0, 0, NULL},
    {"resize", job_later_resize, 0, 0, 0, NULL},
    {"array", job_later_any, 0, 0, 0, NULL},
    {"data", job_later_any, 0, 0, 0, NULL},
    {"deadline", job_later_any, 0, 0, 0, NULL},
    {"health", job_read_health, 0, 0, 0, NULL},
};

void job_read_component(struct job_reader *r, const json_t *value, struct job_component *c)
{
    c->num = 1;
    c->max_attempts = JOB_DEFAULT_ATTEMPTS;
    c->backoff_ms = JOB_DEFAULT_BACKOFF_MS;
    c->max_backoff_ms = JOB_DEFAULT_MAX_BACKOFF_MS;
    c->stop_signal = SIGTERM;
    c->grace_ms = JOB_DEFAULT_GRACE_MS;
    job_reader_object(r, fields, ARRAY_SIZE(fields), value, c,
                      "a mapping such as {image: …, command: …, num: 1}");
    job_add_cards(r, c);
}
