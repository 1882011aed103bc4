// SPDX-License-Identifier: Apache-2.0
// JSON codecs of an attempt's spec (what to run) and status (what became of it), and the texts of
// their enums. The decoder trusts nothing: ids end up in paths and container names, so their
// alphabet is checked here, once, for the claim files and the wire alike.
#include "proto/attempt.h"

#include "proto/attempt_secret.h"

#include "common/cleanup.h"
#include "common/json_fields.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX 100000 // elements of one array: far above any real job, far below harm

DEFINE_CLEANUP(attempt_spec, attempt_spec_free)

static const char *const state_names[ATTEMPT_STATE_MAX] = {"assigned", "starting", "running",
                                                           "stopping", "ended"};
static const char *const cause_names[CAUSE_MAX] = {
    "none",         "exit",    "stopped", "timeout",       "oom",
    "start_failed", "image",   "engine",  "never_started", "fenced",
    "node_lost",    "unknown", "policy",  "moved",         "unhealthy"};
static const char *const logs_names[LOGS_MAX] = {"open", "complete", "incomplete"};

static int name_find(const char *const *names, int count, const char *text)
{
    for (int i = 0; text && i < count; i++)
        if (strcmp(names[i], text) == 0)
            return i;
    return -EINVAL;
}

const char *attempt_state_to_string(enum attempt_state s)
{
    return (unsigned)s < ATTEMPT_STATE_MAX ? state_names[s] : "invalid";
}

int attempt_state_from_string(const char *text, enum attempt_state *ret)
{
    int found = name_find(state_names, ATTEMPT_STATE_MAX, text);
    if (found < 0)
        return found;
    *ret = (enum attempt_state)found;
    return 0;
}

const char *attempt_cause_to_string(enum attempt_cause c)
{
    return (unsigned)c < CAUSE_MAX ? cause_names[c] : "invalid";
}

int attempt_cause_from_string(const char *text, enum attempt_cause *ret)
{
    int found = name_find(cause_names, CAUSE_MAX, text);
    if (found < 0)
        return found;
    *ret = (enum attempt_cause)found;
    return 0;
}

const char *logs_state_to_string(enum logs_state s)
{
    return (unsigned)s < LOGS_MAX ? logs_names[s] : "invalid";
}

int logs_state_from_string(const char *text, enum logs_state *ret)
{
    int found = name_find(logs_names, LOGS_MAX, text);
    if (found < 0)
        return found;
    *ret = (enum logs_state)found;
    return 0;
}

// --- the members that are as in the struct ---

#define FIELD(kind, member, least, most) JSON_FIELD(struct attempt_spec, kind, member, least, most)

static const struct json_field head_fields[] = {
    FIELD(TEXT, job, 0, 0),       FIELD(TEXT, job_name, 0, 0),   FIELD(TEXT, user, 0, 0),
    FIELD(TEXT, component, 0, 0), FIELD(INT, index, 0, INT_MAX), FIELD(INT, attempt, 1, INT_MAX),
    FIELD(OPT_TEXT, image, 0, 0),
};
static const struct json_field rule_fields[] = {
    FIELD(INT, stop_signal, 1, 64),       FIELD(I64, grace_ms, 0, INT64_MAX),
    FIELD(I64, timeout_ms, 0, INT64_MAX), FIELD(I64, lease_ms, 0, INT64_MAX),
    FIELD(I64, log_limit, 0, INT64_MAX),
};
static const struct json_field resource_fields[] = {
    {"cpu", JSON_FIELD_I64, offsetof(struct resources, cpu_milli), 0, INT64_MAX},
    JSON_FIELD(struct resources, I64, memory, 0, INT64_MAX),
    JSON_FIELD(struct resources, I64, gpu, 0, INT64_MAX),
};
static const struct json_field mount_fields[] = {
    JSON_FIELD(struct job_mount, OPT_TEXT, source, 0, 0),
    JSON_FIELD(struct job_mount, TEXT, target, 0, 0),
    JSON_FIELD(struct job_mount, FLAG, read_only, 0, 0),
};

// --- freeing -------------------------------------------------------------------------------------

static void free_texts(char **list)
{
    for (char **p = list; p && *p; p++)
        free(*p);
    free(list);
}

void attempt_spec_free(struct attempt_spec *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n_env; i++) {
        free(s->env[i].key);
        free(s->env[i].value);
    }
    for (size_t i = 0; i < s->n_mounts; i++) {
        free(s->mounts[i].source);
        free(s->mounts[i].target);
    }
    free(s->env);
    free(s->mounts);
    attempt_secrets_free(s->secrets, s->n_secrets);
    free(s->gpus);
    free(s->ports);
    free_texts(s->command);
    free(s->job);
    free(s->job_name);
    free(s->user);
    free(s->component);
    free(s->image);
    job_health_free(s->health);
    free(s);
}

// --- spec to JSON --------------------------------------------------------------------------------

static json_t *command_to_json(char *const *command)
{
    json_t *list = command ? json_array() : json_null();
    for (char *const *p = command; p && *p; p++)
        (void)json_array_append_new(list, json_string(*p));
    return list;
}

static json_t *env_to_json(const struct attempt_spec *s)
{
    json_t *env = json_object();
    for (size_t i = 0; i < s->n_env; i++)
        json_put_str(env, s->env[i].key, s->env[i].value);
    return env;
}

static json_t *mounts_to_json(const struct attempt_spec *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->n_mounts; i++) {
        json_t *mount = json_object();
        json_put_fields(mount, mount_fields, ARRAY_SIZE(mount_fields), &s->mounts[i]);
        (void)json_array_append_new(list, mount);
    }
    return list;
}

static void put_granted(json_t *j, const struct attempt_spec *s)
{
    json_t *resources = json_object();
    json_put_fields(resources, resource_fields, ARRAY_SIZE(resource_fields), &s->resources);
    json_put(j, "resources", resources);
    json_t *gpus = json_array();
    for (size_t i = 0; i < s->n_gpus; i++)
        (void)json_array_append_new(gpus, json_integer(s->gpus[i]));
    json_put(j, "gpus", gpus);
    json_t *ports = json_array();
    for (size_t i = 0; i < s->n_ports; i++)
        (void)json_array_append_new(ports, json_integer(s->ports[i]));
    json_put(j, "ports", ports);
}

static json_t *spec_to_json(const struct attempt_spec *s, bool values)
{
    json_t *j = json_object();

    json_put_str(j, "id", s->id);
    json_put_str(j, "issued_to", s->issued_to);
    json_put_fields(j, head_fields, ARRAY_SIZE(head_fields), s);
    if (s->uid >= 0)
        json_put_i64(j, "uid", s->uid);
    if (s->gid >= 0)
        json_put_i64(j, "gid", s->gid);
    json_put(j, "command", command_to_json(s->command));
    put_granted(j, s);
    json_put(j, "env", env_to_json(s));
    json_put(j, "mounts", mounts_to_json(s));
    if (s->n_secrets)
        json_put(j, "secrets", attempt_secrets_to_json(s->secrets, s->n_secrets, values));
    if (s->health)
        json_put(j, "health", job_health_to_json(s->health));
    json_put_str(j, "network", network_mode_to_string(s->network));
    json_put_fields(j, rule_fields, ARRAY_SIZE(rule_fields), s);
    return j;
}

json_t *attempt_spec_to_json(const struct attempt_spec *s)
{
    return spec_to_json(s, false);
}

json_t *attempt_spec_to_assignment(const struct attempt_spec *s)
{
    return spec_to_json(s, true);
}

// --- spec from JSON ------------------------------------------------------------------------------

static bool id_safe(const char *text, size_t capacity)
{
    size_t len = strlen(text);
    if (len == 0 || len >= capacity)
        return false;
    return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == len;
}

static int get_id(const json_t *j, const char *key, char *out, size_t capacity, struct err *e)
{
    const char *text;
    int r = json_get_str(j, key, &text, e);
    if (r < 0)
        return r;
    if (!id_safe(text, capacity))
        return err_set(e, -EPROTO, "member \"%s\": expected an id", key);
    memcpy(out, text, strlen(text) + 1);
    return 0;
}

// An array member's elements; *ret_n is 0 for an empty one.
static int get_list(const json_t *j, const char *key, json_t **ret, size_t *ret_n, struct err *e)
{
    int r = json_get_array(j, key, ret, e);
    if (r < 0)
        return r;
    if (json_array_size(*ret) > LIST_MAX)
        return err_set(e, -EPROTO, "member \"%s\": too many elements", key);
    *ret_n = json_array_size(*ret);
    return 0;
}

static int read_command(struct attempt_spec *s, const json_t *j, struct err *e)
{
    json_t *list;
    size_t n = 0;

    if (json_is_null(json_object_get(j, "command")))
        return 0;
    int r = get_list(j, "command", &list, &n, e);
    if (r < 0)
        return r;
    s->command = calloc(n + 1, sizeof(*s->command));
    if (!s->command)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (!text)
            return err_set(e, -EPROTO, "member \"command\": expected an array of strings");
        s->command[i] = strdup(text);
        if (!s->command[i])
            return -ENOMEM;
    }
    return n ? 0 : err_set(e, -EPROTO, "member \"command\": is empty");
}

// An array of integers in [min, max], widened; the caller narrows.
static int read_numbers(const json_t *j, const char *key, int64_t min, int64_t max, int64_t **ret,
                        size_t *ret_n, struct err *e)
{
    json_t *list;
    size_t n = 0;
    int r = get_list(j, key, &list, &n, e);
    if (r < 0)
        return r;
    cleanup_free int64_t *values = calloc(n + 1, sizeof(*values));
    if (!values)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(list, i);
        values[i] = json_integer_value(item);
        if (!json_is_integer(item) || values[i] < min || values[i] > max)
            return err_set(e, -EPROTO, "member \"%s\": a wrong number", key);
    }
    *ret = TAKE_PTR(values);
    *ret_n = n;
    return 0;
}

static int read_granted(struct attempt_spec *s, const json_t *j, struct err *e)
{
    json_t *resources;
    cleanup_free int64_t *gpus = NULL;
    cleanup_free int64_t *ports = NULL;
    size_t n_gpus = 0;
    size_t n_ports = 0;
    int r = json_get_object(j, "resources", &resources, e);

    if (r == 0)
        r = json_get_fields(resources, resource_fields, ARRAY_SIZE(resource_fields), &s->resources,
                            e);
    if (r == 0)
        r = read_numbers(j, "gpus", 0, INT_MAX, &gpus, &n_gpus, e);
    if (r == 0)
        r = read_numbers(j, "ports", 1, UINT16_MAX, &ports, &n_ports, e);
    if (r < 0)
        return r;
    s->gpus = calloc(n_gpus + 1, sizeof(*s->gpus));
    s->ports = calloc(n_ports + 1, sizeof(*s->ports));
    if (!s->gpus || !s->ports)
        return -ENOMEM;
    for (size_t i = 0; i < n_gpus; i++)
        s->gpus[s->n_gpus++] = (int)gpus[i];
    for (size_t i = 0; i < n_ports; i++)
        s->ports[s->n_ports++] = (uint16_t)ports[i];
    return 0;
}

static int read_env(struct attempt_spec *s, const json_t *j, struct err *e)
{
    json_t *env;
    const char *key;
    json_t *value;
    int r = json_get_object(j, "env", &env, e);
    if (r < 0)
        return r;
    s->env = calloc(json_object_size(env) + 1, sizeof(*s->env));
    if (!s->env)
        return -ENOMEM;
    json_object_foreach (env, key, value) {
        if (!json_is_string(value) || key[0] == '\0' || strchr(key, '='))
            return err_set(e, -EPROTO, "member \"env\": expected names with texts");
        struct job_env *item = &s->env[s->n_env++];
        item->key = strdup(key);
        item->value = strdup(json_string_value(value));
        if (!item->key || !item->value)
            return -ENOMEM;
    }
    return 0;
}

static int read_mounts(struct attempt_spec *s, const json_t *j, struct err *e)
{
    json_t *list;
    size_t n = 0;
    int r = get_list(j, "mounts", &list, &n, e);
    if (r < 0)
        return r;
    s->mounts = calloc(n + 1, sizeof(*s->mounts));
    if (!s->mounts)
        return -ENOMEM;
    for (size_t i = 0; i < n && r == 0; i++)
        r = json_get_fields(json_array_get(list, i), mount_fields, ARRAY_SIZE(mount_fields),
                            &s->mounts[s->n_mounts++], e);
    return r;
}

static int read_identity(struct attempt_spec *s, const json_t *j, struct err *e)
{
    int r = get_id(j, "id", s->id, sizeof(s->id), e);
    if (r == 0)
        r = get_id(j, "issued_to", s->issued_to, sizeof(s->issued_to), e);
    if (r == 0)
        r = json_get_fields(j, head_fields, ARRAY_SIZE(head_fields), s, e);
    s->uid = json_opt_i64(j, "uid", -1);
    s->gid = json_opt_i64(j, "gid", -1);
    if (r == 0 && (s->uid < -1 || s->uid >= UINT32_MAX || s->gid < -1 || s->gid >= UINT32_MAX))
        return err_set(e, -EPROTO, "member \"uid\" or \"gid\": out of range");
    return r;
}

static int read_rules(struct attempt_spec *s, const json_t *j, struct err *e)
{
    const char *network;
    int r = json_get_str(j, "network", &network, e);

    if (r == 0 && network_mode_from_string(network, &s->network) < 0)
        return err_set(e, -EPROTO, "member \"network\": unknown mode");
    return r < 0 ? r : json_get_fields(j, rule_fields, ARRAY_SIZE(rule_fields), s, e);
}

int attempt_spec_from_json(const json_t *j, struct attempt_spec **ret, struct err *e)
{
    cleanup(attempt_spec) struct attempt_spec *s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(e, -ENOMEM, "out of memory");
    int r = read_identity(s, j, e);
    if (r == 0)
        r = read_command(s, j, e);
    if (r == 0)
        r = read_granted(s, j, e);
    if (r == 0)
        r = read_env(s, j, e);
    if (r == 0)
        r = read_mounts(s, j, e);
    if (r == 0)
        r = attempt_secrets_from_json(json_object_get(j, "secrets"), &s->secrets, &s->n_secrets, e);
    if (r == 0)
        r = job_health_from_json(json_object_get(j, "health"), &s->health, e);
    if (r == 0)
        r = read_rules(s, j, e);
    if (r < 0)
        return r == -ENOMEM ? err_set(e, r, "out of memory") : err_wrap(e, r, "attempt");
    *ret = TAKE_PTR(s);
    return 0;
}
