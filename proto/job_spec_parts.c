// SPDX-License-Identifier: Apache-2.0
// The mappings inside a component: resources, mounts, restart, stop.
#include "proto/constraint.h"
#include "proto/job_spec_internal.h"

#include "common/cleanup.h"
#include "common/strbuf.h"
#include "common/text.h"
#include "common/units.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// --- resources ---

static bool is_all(const json_t *value)
{
    return json_is_string(value) && strcmp(json_string_value(value), "all") == 0;
}

// The text of a quantity; booleans, mappings and the like are none.
static const char *quantity(struct job_reader *r, const json_t *value, char *room)
{
    return json_is_boolean(value) ? NULL : job_reader_text(r, value, room);
}

static void read_cpu(struct job_reader *r, const struct job_field *f, const json_t *value,
                     void *object)
{
    char room[JOB_READER_TEXT_BYTES];
    struct job_component *c = object;
    int64_t milli = 0;

    c->cpu_all = is_all(value);
    if (c->cpu_all)
        return;
    const char *text = quantity(r, value, room);
    if (text && units_parse_cpu(text, &milli, NULL) == 0 && milli <= RESOURCES_MAX_CPU_MILLI)
        c->resources.cpu_milli = milli;
    else
        job_reader_expected(r, value, f->expected);
}

static void read_memory(struct job_reader *r, const struct job_field *f, const json_t *value,
                        void *object)
{
    char room[JOB_READER_TEXT_BYTES], found[TEXT_QUOTE_BYTES];
    struct job_component *c = object;
    int64_t bytes = 0;

    c->memory_all = is_all(value);
    if (c->memory_all)
        return;
    const char *text = quantity(r, value, room);
    if (!text || units_parse_memory(text, &bytes, NULL) < 0 || bytes > RESOURCES_MAX_MEMORY)
        job_reader_expected(r, value, f->expected);
    else if (bytes > 0 && bytes < JOB_MIN_MEMORY)
        job_reader_problem(r, value,
                           "found %s, expected 0 (no limit) or at least 6m: container engines "
                           "refuse less than 6 MiB (a bare number counts MiB)",
                           text_quote(text, found));
    else
        c->resources.memory = bytes;
}

static void read_gpu(struct job_reader *r, const struct job_field *f, const json_t *value,
                     void *object)
{
    struct job_component *c = object;
    json_int_t cards = json_integer_value(value);

    c->gpu_all = is_all(value);
    if (c->gpu_all)
        return;
    if (json_is_integer(value) && cards >= 0 && cards <= JOB_MAX_GPU)
        c->resources.gpu = cards;
    else
        job_reader_expected(r, value, f->expected);
}

static void read_gpu_model(struct job_reader *r, const struct job_field *f, const json_t *value,
                           void *object)
{
    char room[JOB_READER_TEXT_BYTES];
    struct job_component *c = object;
    const char *text = job_reader_text(r, value, room);
    const char *problem = text ? constraint_problem(text) : NULL;

    if (!text || !*text)
        job_reader_expected(r, value, f->expected);
    else if (problem)
        job_reader_problem(r, value, "%s", problem);
    else
        c->gpu_model = job_reader_dup(r, text);
}

static void read_gpu_memory(struct job_reader *r, const struct job_field *f, const json_t *value,
                            void *object)
{
    char room[JOB_READER_TEXT_BYTES];
    struct job_component *c = object;
    const char *text = quantity(r, value, room);

    if (!text || units_parse_memory(text, &c->gpu_memory, NULL) < 0 ||
        c->gpu_memory > RESOURCES_MAX_MEMORY)
        job_reader_expected(r, value, f->expected);
}

static const struct job_field resource_fields[] = {
    {"cpu", read_cpu, 0, 0, 0, "cores such as 4, 0.5 or 500m (at most 100000), or all"},
    {"memory", read_memory, 0, 0, 0,
     "memory such as 4096m or 1.5g (a bare number counts MiB; at most 64t), or all"},
    {"gpu", read_gpu, 0, 0, 0, "a whole number of cards from 0 to 1024, or all"},
    {"gpu_model", read_gpu_model, 0, 0, 0, "a card's name such as \"NVIDIA A100*\""},
    {"gpu_memory", read_gpu_memory, 0, 0, 0, "the least memory of a card such as 40g"},
};

void job_read_resources(struct job_reader *r, const struct job_field *f, const json_t *value,
                        void *object)
{
    struct job_component *c = object;

    (void)f;
    c->has_resources = true;
    job_reader_object(r, resource_fields, ARRAY_SIZE(resource_fields), value, c,
                      "a mapping such as {cpu: 4, memory: 8192m, gpu: 1}");
    if ((c->gpu_model || c->gpu_memory) && !c->gpu_all && !json_object_get(value, "gpu"))
        job_reader_problem(r, value, "names a kind of card and not how many: add `gpu: 1`");
}

void job_add_cards(struct job_reader *r, struct job_component *c)
{
    cleanup_strbuf struct strbuf all = {0};
    if ((!c->gpu_model && !c->gpu_memory) || (!c->gpu_all && c->resources.gpu == 0))
        return;
    strbuf_puts(&all, c->where ? c->where : "");
    if (c->gpu_model)
        strbuf_printf(&all, CONSTRAINT_CARD_MODEL "\n%s\n", c->gpu_model);
    if (c->gpu_memory)
        strbuf_printf(&all, CONSTRAINT_CARD_MEMORY "\n>= %lld\n", (long long)c->gpu_memory);
    free(c->where);
    c->where = job_reader_dup(r, all.failed ? "" : all.data);
    r->failed |= all.failed;
}

// --- mounts ---

#define TARGET_FORM "an absolute path in the container, or /host/path:/container/path"

bool job_path_ok(const char *p, size_t len)
{
    if (len < 2 || len > JOB_MAX_PATH || p[0] != '/')
        return false;
    for (size_t i = 0; i < len; i++) {
        bool dots = p[i] == '/' && i + 2 < len && p[i + 1] == '.' && p[i + 2] == '.';
        if (dots && (i + 3 == len || p[i + 3] == '/')) // a way out of what is mounted
            return false;
        if ((unsigned char)p[i] < ' ' || p[i] == 0x7f || p[i] == ':')
            return false;
    }
    return true;
}

static char *dup_part(struct job_reader *r, const char *p, size_t len)
{
    char *copy = strndup(p, len);
    if (!copy)
        r->failed = true;
    return copy;
}

static void read_target(struct job_reader *r, const struct job_field *f, const json_t *value,
                        void *object)
{
    struct job_mount *m = object;
    const char *text = json_string_value(value);
    const char *colon = text ? strchr(text, ':') : NULL;
    const char *inside = colon ? colon + 1 : text;

    (void)f;
    if (!text || !job_path_ok(inside, strlen(inside)) ||
        (colon && !job_path_ok(text, (size_t)(colon - text)))) {
        job_reader_expected(r, value, TARGET_FORM);
        return;
    }
    m->target = job_reader_dup(r, inside);
    if (!colon)
        return;
    if (m->source)
        job_reader_problem(r, value, "names a host path although `source` does: keep one of them");
    else
        m->source = dup_part(r, text, (size_t)(colon - text));
}

static void read_source(struct job_reader *r, const struct job_field *f, const json_t *value,
                        void *object)
{
    struct job_mount *m = object;
    const char *text = json_string_value(value);

    (void)f;
    if (!text || !job_path_ok(text, strlen(text)))
        job_reader_expected(r, value, "an absolute path on the node");
    else if (m->source)
        job_reader_problem(r, value, "`target` names a host path too: keep one of them");
    else
        m->source = job_reader_dup(r, text);
}

static const struct job_field mount_fields[] = {
    {"target", read_target, 0, 0, 0, NULL},
    {"source", read_source, 0, 0, 0, NULL},
    {"read_only", job_read_bool, offsetof(struct job_mount, read_only), 0, 0, NULL},
};

// Reads one mount at the current path and adds it to the component, which has room for it.
static void add_mount(struct job_reader *r, const json_t *value, struct job_component *c)
{
    struct job_mount m = {0};

    job_reader_object(r, mount_fields, ARRAY_SIZE(mount_fields), value, &m,
                      "a mapping such as {target: /mnt/data}");
    if (json_is_object(value) && !json_object_get(value, "target"))
        job_reader_problem(r, value, "`target` is missing: " TARGET_FORM);
    for (size_t i = 0; i < c->n_mounts && m.target; i++)
        if (strcmp(c->mounts[i].target, m.target) == 0)
            job_reader_problem(r, value, "another mount has this target already");
    if (m.target) {
        c->mounts[c->n_mounts++] = m;
        return;
    }
    free(m.source);
}

static bool make_room(struct job_reader *r, struct job_component *c)
{
    if (!c->mounts)
        c->mounts = job_reader_alloc(r, JOB_MAX_MOUNTS + 1, sizeof(*c->mounts));
    return c->mounts;
}

void job_read_mount(struct job_reader *r, const struct job_field *f, const json_t *value,
                    void *object)
{
    (void)f;
    if (make_room(r, object))
        add_mount(r, value, object);
}

void job_read_mounts(struct job_reader *r, const struct job_field *f, const json_t *value,
                     void *object)
{
    size_t i;
    json_t *item;

    (void)f;
    if (!json_is_array(value) || json_array_size(value) > JOB_MAX_MOUNTS) {
        job_reader_expected(r, value, "a list of at most 32 mounts such as [{target: /mnt/data}]");
        return;
    }
    if (json_array_size(value) == 0 || !make_room(r, object))
        return;
    json_array_foreach (value, i, item) {
        job_reader_push_index(r, value, i);
        add_mount(r, item, object);
        job_reader_pop(r);
    }
}

// --- restart ---

static void read_policy(struct job_reader *r, const struct job_field *f, const json_t *value,
                        void *object)
{
    struct job_component *c = object;
    const char *text = json_string_value(value);
    if (!text || restart_policy_from_string(text, &c->restart) < 0)
        job_reader_expected(r, value, f->expected);
}

static void read_scope(struct job_reader *r, const struct job_field *f, const json_t *value,
                       void *object)
{
    const char *text = json_string_value(value);

    (void)object;
    if (text && strcmp(text, "task") == 0)
        return;
    if (text && (strcmp(text, "component") == 0 || strcmp(text, "job") == 0))
        job_reader_problem(r, value, "\"scope: %s\": not supported yet", text);
    else
        job_reader_expected(r, value, f->expected);
}

#define AT(member) offsetof(struct job_component, member)
#define HOUR_MS INT64_C(3600000)

static const struct job_field restart_fields[] = {
    {"policy", read_policy, 0, 0, 0, "never, on-failure or always"},
    {"max_attempts", job_read_int, AT(max_attempts), 0, JOB_MAX_ATTEMPTS, NULL},
    {"backoff", job_read_duration, AT(backoff_ms), 0, 24 * HOUR_MS, NULL},
    {"max_backoff", job_read_duration, AT(max_backoff_ms), 0, 24 * HOUR_MS, NULL},
    {"scope", read_scope, 0, 0, 0, "task, component or job"},
};

void job_read_restart(struct job_reader *r, const struct job_field *f, const json_t *value,
                      void *object)
{
    struct job_component *c = object;

    (void)f;
    job_reader_object(r, restart_fields, ARRAY_SIZE(restart_fields), value, c,
                      "a mapping such as {policy: on-failure}");
    if (json_is_object(value) && json_object_size(value) > 0 && !json_object_get(value, "policy"))
        job_reader_warn(r, "without `policy: on-failure` or `always` nothing is restarted");
    if (c->max_backoff_ms >= c->backoff_ms)
        return;
    if (json_object_get(value, "max_backoff"))
        job_reader_problem(r, json_object_get(value, "max_backoff"),
                           "max_backoff is shorter than backoff");
    c->max_backoff_ms = c->backoff_ms;
}

// --- stop ---

// "SIGTERM", "TERM" or 15; 0 = none of them.
static int signal_number(const char *text)
{
    const char *name = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text;
    char *end;

    for (int i = 1; i < 32; i++) {
        const char *known = sigabbrev_np(i);
        if (known && strcasecmp(known, name) == 0)
            return i;
    }
    long number = strtol(text, &end, 10);
    return *end == '\0' && number >= 1 && number <= SIGRTMAX ? (int)number : 0;
}

static void read_signal(struct job_reader *r, const struct job_field *f, const json_t *value,
                        void *object)
{
    char room[JOB_READER_TEXT_BYTES];
    struct job_component *c = object;
    const char *text = quantity(r, value, room);
    int number = text ? signal_number(text) : 0;

    if (number > 0)
        c->stop_signal = number;
    else
        job_reader_expected(r, value, f->expected);
}

static const struct job_field stop_fields[] = {
    {"signal", read_signal, 0, 0, 0, "a signal such as SIGTERM, TERM or 15"},
    {"grace", job_read_duration, AT(grace_ms), 0, HOUR_MS, NULL},
};

void job_read_stop(struct job_reader *r, const struct job_field *f, const json_t *value,
                   void *object)
{
    (void)f;
    job_reader_object(r, stop_fields, ARRAY_SIZE(stop_fields), value, object,
                      "a mapping such as {signal: SIGTERM, grace: 10s}");
}
