// SPDX-License-Identifier: Apache-2.0
// A spec as canonical JSON: the job file again, with defaults written out and one form for
// everything. What is none (no image, no limit) is left out; the parser reads the result back to
// the same spec.
#include "proto/constraint.h"
#include "proto/job_spec_internal.h"

#include "common/cleanup.h"
#include "common/json.h"
#include "common/units.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

// Sets and remembers a failure, so that a spec cut short by lack of memory is never stored.
struct out {
    bool failed;
};

static void put(struct out *o, json_t *object, const char *key, json_t *stolen)
{
    if (json_object_set_new_nocheck(object, key, stolen) < 0)
        o->failed = true;
}

static void put_text(struct out *o, json_t *object, const char *key, const char *text)
{
    put(o, object, key, json_string_nocheck(text));
}

static void put_duration(struct out *o, json_t *object, const char *key, int64_t ms)
{
    char text[UNITS_TEXT_BYTES];
    units_format_duration(ms, text);
    put_text(o, object, key, text);
}

static json_t *texts_json(struct out *o, char *const *texts)
{
    json_t *list = json_array();
    for (; *texts; texts++)
        if (json_array_append_new(list, json_string_nocheck(*texts)) < 0)
            o->failed = true;
    return list;
}

static json_t *command_json(struct out *o, char *const *command, bool shell)
{
    return shell ? json_string_nocheck(command[2]) : texts_json(o, command);
}

static json_t *resources_json(struct out *o, const struct job_component *c)
{
    char text[UNITS_TEXT_BYTES];
    json_t *j = json_object();

    units_format_cpu(c->resources.cpu_milli, text);
    put_text(o, j, "cpu", c->cpu_all ? "all" : text);
    units_format_memory(c->resources.memory, text);
    put_text(o, j, "memory", c->memory_all ? "all" : text);
    put(o, j, "gpu", c->gpu_all ? json_string("all") : json_integer(c->resources.gpu));
    if (c->gpu_model)
        put_text(o, j, "gpu_model", c->gpu_model);
    units_format_memory(c->gpu_memory, text);
    if (c->gpu_memory)
        put_text(o, j, "gpu_memory", text);
    return j;
}

static json_t *mounts_json(struct out *o, const struct job_component *c)
{
    json_t *list = json_array();

    for (size_t i = 0; i < c->n_mounts; i++) {
        json_t *m = json_object();
        if (c->mounts[i].source)
            put_text(o, m, "source", c->mounts[i].source);
        put_text(o, m, "target", c->mounts[i].target);
        if (c->mounts[i].read_only)
            put(o, m, "read_only", json_true());
        if (json_array_append_new(list, m) < 0)
            o->failed = true;
    }
    return list;
}

static json_t *secrets_json(struct out *o, const struct job_component *c)
{
    json_t *list = json_array();

    for (size_t i = 0; i < c->n_secrets; i++) {
        json_t *s = json_object();
        put_text(o, s, "name", c->secrets[i].name);
        if (c->secrets[i].path)
            put_text(o, s, "path", c->secrets[i].path);
        if (json_array_append_new(list, s) < 0)
            o->failed = true;
    }
    return list;
}

static json_t *env_json(struct out *o, const struct job_component *c)
{
    json_t *j = json_object();
    for (size_t i = 0; i < c->n_env; i++)
        put_text(o, j, c->env[i].key, c->env[i].value);
    return j;
}

static json_t *restart_json(struct out *o, const struct job_component *c)
{
    json_t *j = json_object();
    put_text(o, j, "policy", restart_policy_to_string(c->restart));
    put(o, j, "max_attempts", json_integer(c->max_attempts));
    put_duration(o, j, "backoff", c->backoff_ms);
    put_duration(o, j, "max_backoff", c->max_backoff_ms);
    put_text(o, j, "scope", "task");
    return j;
}

static json_t *stop_json(struct out *o, const struct job_component *c)
{
    char text[32];
    json_t *j = json_object();
    const char *name = c->stop_signal < 32 ? sigabbrev_np(c->stop_signal) : NULL;

    (void)snprintf(text, sizeof(text), "SIG%s", name ? name : "");
    put(o, j, "signal", name ? json_string(text) : json_integer(c->stop_signal));
    put_duration(o, j, "grace", c->grace_ms);
    return j;
}

static json_t *node_lost_json(struct out *o, const struct job_component *c)
{
    json_t *j = json_object();
    if (c->lost_after_ms)
        put_duration(o, j, "after", c->lost_after_ms);
    put_text(o, j, "action", node_lost_action_to_string(c->lost_action));
    return j;
}

static json_t *health_json(struct out *o, const struct job_health *h)
{
    json_t *j = json_object();
    if (h->command) {
        put(o, j, "command", command_json(o, h->command, h->command_shell));
    } else {
        json_t *http = json_object();
        put(o, http, "port", json_integer(h->port));
        put_text(o, http, "path", h->path);
        put(o, j, "http", http);
    }
    put_duration(o, j, "interval", h->interval_ms);
    put_duration(o, j, "timeout", h->timeout_ms);
    put_duration(o, j, "start_period", h->start_period_ms);
    put(o, j, "retries", json_integer(h->retries));
    return j;
}

static json_t *constraints_json(struct out *o, const char *where)
{
    char label[CONSTRAINT_LABEL_BYTES], text[CONSTRAINT_TEXT_BYTES];
    json_t *j = json_object();
    while (constraint_next(&where, label, text))
        if (label[0] != '$')
            put_text(o, j, label, text);
    return j;
}

static void put_beside(struct out *o, json_t *j, const struct job_component *c)
{
    if (c->exclusive)
        put(o, j, "exclusive", json_true());
    if (c->gang)
        put_text(o, j, "gang", gang_mode_to_string(c->gang));
    if (c->near)
        put(o, j, "affinity", texts_json(o, c->near));
    if (c->apart)
        put(o, j, "anti_affinity", texts_json(o, c->apart));
}

static json_t *component_json(struct out *o, const struct job_component *c)
{
    json_t *j = json_object();

    if (c->image)
        put_text(o, j, "image", c->image);
    if (c->command)
        put(o, j, "command", command_json(o, c->command, c->command_shell));
    put(o, j, "num", json_integer(c->num));
    if (c->has_resources)
        put(o, j, "resources", resources_json(o, c));
    if (c->n_mounts)
        put(o, j, "mounts", mounts_json(o, c));
    if (c->n_secrets)
        put(o, j, "secrets", secrets_json(o, c));
    if (c->n_env)
        put(o, j, "env", env_json(o, c));
    put(o, j, "ports", json_integer(c->ports));
    put_text(o, j, "network", network_mode_to_string(c->network));
    put(o, j, "restart", restart_json(o, c));
    put(o, j, "stop", stop_json(o, c));
    if (c->timeout_ms)
        put_duration(o, j, "timeout", c->timeout_ms);
    put(o, j, "on_node_lost", node_lost_json(o, c));
    if (c->health)
        put(o, j, "health", health_json(o, c->health));
    put(o, j, "finishes_job", json_boolean(c->finishes_job));
    if (c->where && c->where[0] != '$') // cards come last
        put(o, j, "constraints", constraints_json(o, c->where));
    put_beside(o, j, c);
    return j;
}

static json_t *allocation_json(struct out *o, const struct job_spec *spec)
{
    json_t *j = json_object();
    put_text(o, j, "mode", alloc_mode_to_string(spec->alloc));
    if (spec->alloc == ALLOC_BALANCED || spec->alloc == ALLOC_COMPACTED)
        put_text(o, j, "metric", alloc_metric_to_string(spec->metric));
    if (spec->gang)
        put_text(o, j, "gang", gang_mode_to_string(spec->gang));
    return j;
}

static json_t *after_json(struct out *o, const struct job_spec *spec)
{
    json_t *list = json_array();
    for (size_t i = 0; i < spec->n_after; i++) {
        json_t *x = json_object();
        put_text(o, x, "job", spec->after[i].job);
        put_text(o, x, "when", after_when_to_string(spec->after[i].when));
        if (json_array_append_new(list, x) < 0)
            o->failed = true;
    }
    return list;
}

static json_t *array_json(const struct job_array *a)
{
    cleanup_free char *text = job_array_text(a);
    return text ? json_string(text) : NULL;
}

json_t *job_spec_to_json(const struct job_spec *spec)
{
    struct out o = {false};
    json_t *j = json_object();
    json_t *components = json_object();

    if (spec->mode != JOB_MODE_DEFAULT)
        put_text(&o, j, "mode", job_mode_to_string(spec->mode));
    put_text(&o, j, "name", spec->name);
    put(&o, j, "priority", json_integer(spec->priority));
    if (spec->preemptible)
        put(&o, j, "preemptible", json_true());
    put(&o, j, "allocation", allocation_json(&o, spec));
    if (spec->exclusive)
        put(&o, j, "exclusive", json_true());
    if (spec->n_after)
        put(&o, j, "after", after_json(&o, spec));
    if (spec->wait_limit_ms)
        put_duration(&o, j, "wait_limit", spec->wait_limit_ms);
    if (spec->deadline_ms && spec->deadline_fixed)
        json_put_time(j, "deadline", spec->deadline_ms);
    else if (spec->deadline_ms)
        put_duration(&o, j, "deadline", spec->deadline_ms);
    if (spec->array.count)
        put(&o, j, "array", array_json(&spec->array));
    for (size_t i = 0; i < spec->n_components; i++)
        put(&o, components, spec->components[i].name, component_json(&o, &spec->components[i]));
    put(&o, j, "components", components);
    if (spec->tags)
        put(&o, j, "tags", json_deep_copy(spec->tags));
    if (o.failed) {
        json_decref(j);
        return NULL;
    }
    return j;
}
