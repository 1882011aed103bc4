// SPDX-License-Identifier: Apache-2.0
// JSON codecs of the messages between agent and master, and the inventory digest. Everything a
// decoder returns is owned by the caller; on failure nothing is left behind.
#include "proto/sync.h"

#include "common/cleanup.h"
#include "common/json_fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX 1000000

// --- small readers -------------------------------------------------------------------------------

#define MAX_PROTOCOL 1000000
#define NUMBER(of, member) JSON_FIELD(struct of, I64, member, 0, INT64_MAX)
#define CHARS(of, member) JSON_FIELD(struct of, CHARS, member, 0, sizeof(((struct of *)0)->member))
#define FLAG(of, member) JSON_FIELD(struct of, FLAG, member, 0, 0)

static int get_number(const json_t *j, const char *key, int64_t *ret, struct err *e)
{
    const struct json_field field = {key, JSON_FIELD_I64, 0, 0, INT64_MAX};
    return json_get_fields(j, &field, 1, ret, e);
}

static const struct json_field position_fields[] = {NUMBER(sync_position, epoch),
                                                    NUMBER(sync_position, generation)};

static int get_position(const json_t *j, const char *key, struct sync_position *ret, struct err *e)
{
    json_t *position;
    int r = json_get_object(j, key, &position, e);
    return r < 0 ? r
                 : json_get_fields(position, position_fields, ARRAY_SIZE(position_fields), ret, e);
}

static void put_position(json_t *j, const char *key, const struct sync_position *position)
{
    json_t *value = json_object();
    json_put_fields(value, position_fields, ARRAY_SIZE(position_fields), position);
    json_put(j, key, value);
}

// A list that may be missing (then empty).
static int opt_list(const json_t *j, const char *key, json_t **ret, struct err *e)
{
    *ret = NULL;
    if (!json_object_get(j, key))
        return 0;
    int r = json_get_array(j, key, ret, e);
    if (r == 0 && json_array_size(*ret) > LIST_MAX)
        return err_set(e, -EPROTO, "member \"%s\": too many elements", key);
    return r;
}

static int opt_object(const json_t *j, const char *key, json_t **ret, struct err *e)
{
    json_t *value;
    if (!json_object_get(j, key))
        return 0;
    int r = json_get_object(j, key, &value, e);
    if (r == 0)
        *ret = json_incref(value);
    return r;
}

// --- request -------------------------------------------------------------------------------------

void sync_request_reset(struct sync_request *r)
{
    free(r->statuses);
    free(r->holds);
    free(r->history);
    json_decref(r->node);
    json_decref(r->usage);
    json_decref(r->images);
    memset(r, 0, sizeof(*r));
}

static const struct json_field request_fields[] = {
    JSON_FIELD(struct sync_request, INT, protocol, 0, MAX_PROTOCOL),
    CHARS(sync_request, agent_version),
    CHARS(sync_request, instance),
    CHARS(sync_request, boot_id),
    NUMBER(sync_request, seq),
    NUMBER(sync_request, seen_epoch),
    NUMBER(sync_request, seen_commit),
    CHARS(sync_request, digest),
    NUMBER(sync_request, clock_ms),
    FLAG(sync_request, has_inventory),
    FLAG(sync_request, inventory_complete),
};

json_t *sync_request_to_json(const struct sync_request *r)
{
    json_t *j = json_object();

    json_put_fields(j, request_fields, ARRAY_SIZE(request_fields), r);
    put_position(j, "applied", &r->applied);
    json_t *statuses = json_array();
    for (size_t i = 0; i < r->n_statuses; i++) {
        json_t *one = attempt_status_to_json(&r->statuses[i]);
        if (r->holds)
            attempt_holds_put(one, &r->holds[i]);
        (void)json_array_append_new(statuses, one);
    }
    json_put(j, "statuses", statuses);
    if (r->node)
        json_put(j, "node", json_incref(r->node));
    if (r->usage)
        json_put(j, "usage", json_incref(r->usage));
    if (r->images)
        json_put(j, "images", json_incref(r->images));
    if (r->n_history) {
        json_t *history = json_array();
        for (size_t i = 0; i < r->n_history; i++)
            (void)json_array_append_new(history, json_string(r->history[i]));
        json_put(j, "history", history);
    }
    return j;
}

#define HISTORY_LIMIT 256

static int read_history(struct sync_request *q, const json_t *j, struct err *e)
{
    json_t *list;
    int r = opt_list(j, "history", &list, e);
    size_t n = json_array_size(list);

    if (r < 0 || n == 0)
        return r;
    if (n > HISTORY_LIMIT)
        return err_set(e, -EPROTO, "member \"history\": too many elements");
    q->history = calloc(n, sizeof(*q->history));
    if (!q->history)
        return err_set(e, -ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (!text || strlen(text) >= INSTANCE_BYTES)
            return err_set(e, -EPROTO, "member \"history\": expected instances");
        memcpy(q->history[i], text, strlen(text) + 1);
    }
    q->n_history = n;
    return 0;
}

static int read_images(struct sync_request *q, const json_t *j, struct err *e)
{
    json_t *list;
    int r = opt_list(j, "images", &list, e);
    q->images = r == 0 ? json_incref(list) : NULL;
    return r;
}

static int read_statuses(struct sync_request *q, const json_t *j, struct err *e)
{
    json_t *list;
    int r = opt_list(j, "statuses", &list, e);
    size_t n = json_array_size(list);

    if (r < 0 || n == 0)
        return r;
    q->statuses = calloc(n, sizeof(*q->statuses));
    q->holds = q->has_inventory ? calloc(n, sizeof(*q->holds)) : NULL;
    if (!q->statuses || (q->has_inventory && !q->holds))
        return err_set(e, -ENOMEM, "out of memory");
    for (size_t i = 0; i < n && r == 0; i++) {
        r = attempt_status_from_json(json_array_get(list, i), &q->statuses[i], e);
        if (q->holds)
            attempt_holds_read(json_array_get(list, i), &q->holds[i]);
        q->n_statuses += r == 0;
    }
    return r;
}

int sync_request_from_json(const json_t *j, struct sync_request *ret, struct err *e)
{
    struct sync_request q = {0};
    int r = json_get_fields(j, request_fields, ARRAY_SIZE(request_fields), &q, e);

    if (r == 0)
        r = get_position(j, "applied", &q.applied, e);
    if (r == 0)
        r = read_statuses(&q, j, e);
    if (r == 0)
        r = opt_object(j, "node", &q.node, e);
    if (r == 0)
        r = opt_object(j, "usage", &q.usage, e);
    if (r == 0)
        r = read_images(&q, j, e);
    if (r == 0)
        r = read_history(&q, j, e);
    if (r < 0) {
        sync_request_reset(&q);
        return r;
    }
    *ret = q;
    return 0;
}

// --- answer --------------------------------------------------------------------------------------

void sync_answer_reset(struct sync_answer *a)
{
    for (size_t i = 0; i < a->n_entries; i++)
        attempt_spec_free(a->entries[i].spec);
    free(a->entries);
    free(a->removed);
    free(a->leases);
    memset(a, 0, sizeof(*a));
}

static void put_assignment(json_t *j, const struct sync_answer *a)
{
    json_t *assignment = json_object();
    json_put_bool(assignment, "full", a->assignment_full);
    put_position(assignment, "base", &a->base);
    put_position(assignment, "position", &a->position);
    json_t *entries = json_array();
    for (size_t i = 0; i < a->n_entries; i++) {
        json_t *entry = json_object();
        json_put_str(entry, "desired", a->entries[i].desired == DESIRED_STOP ? "stop" : "run");
        json_put(entry, "spec", attempt_spec_to_assignment(a->entries[i].spec));
        (void)json_array_append_new(entries, entry);
    }
    json_put(assignment, "entries", entries);
    json_t *removed = json_array();
    for (size_t i = 0; i < a->n_removed; i++)
        (void)json_array_append_new(removed, json_string(a->removed[i]));
    json_put(assignment, "removed", removed);
    json_put(j, "assignment", assignment);
}

static void put_leases(json_t *j, const struct sync_answer *a)
{
    if (a->lease_at_least_ms)
        json_put_i64(j, "lease_at_least_ms", a->lease_at_least_ms);
    if (a->lease_scope == LEASES_ALL)
        return;
    json_t *list = json_array();
    for (size_t i = 0; i < a->n_leases; i++)
        (void)json_array_append_new(list, json_string(a->leases[i]));
    json_put(j, a->lease_scope == LEASES_ONLY ? "leases_only" : "leases_except", list);
}

static const struct json_field answer_fields[] = {
    JSON_FIELD(struct sync_answer, INT, protocol, 0, MAX_PROTOCOL),
    NUMBER(sync_answer, epoch),
    NUMBER(sync_answer, commit),
    NUMBER(sync_answer, acked),
    NUMBER(sync_answer, sync_interval_ms),
    NUMBER(sync_answer, time_ms),
};

json_t *sync_answer_to_json(const struct sync_answer *a)
{
    json_t *j = json_object();

    json_put_fields(j, answer_fields, ARRAY_SIZE(answer_fields), a);
    if (a->want_inventory)
        json_put_bool(j, "want_inventory", true);
    if (a->want_node)
        json_put_bool(j, "want_node", true);
    if (a->ca_sha256[0])
        json_put_str(j, "ca_sha256", a->ca_sha256);
    if (a->refused[0])
        json_put_str(j, "refused", a->refused);
    if (a->has_assignment)
        put_assignment(j, a);
    put_leases(j, a);
    return j;
}

static int read_entry(struct assignment_entry *entry, const json_t *j, struct err *e)
{
    const char *desired;
    int r = json_get_str(j, "desired", &desired, e);

    if (r < 0)
        return r;
    if (strcmp(desired, "run") == 0)
        entry->desired = DESIRED_RUN;
    else if (strcmp(desired, "stop") == 0)
        entry->desired = DESIRED_STOP;
    else
        return err_set(e, -EPROTO, "member \"desired\": neither run nor stop");
    return attempt_spec_from_json(json_object_get(j, "spec"), &entry->spec, e);
}

static int read_entries(struct sync_answer *a, const json_t *j, struct err *e)
{
    json_t *list;
    int r = opt_list(j, "entries", &list, e);
    size_t n = json_array_size(list);

    if (r < 0 || n == 0)
        return r;
    a->entries = calloc(n, sizeof(*a->entries));
    if (!a->entries)
        return err_set(e, -ENOMEM, "out of memory");
    for (size_t i = 0; i < n && r == 0; i++) {
        r = read_entry(&a->entries[i], json_array_get(list, i), e);
        a->n_entries += r == 0;
    }
    return r;
}

static int read_ids(const json_t *j, const char *key, char (**ret)[ATTEMPT_ID_BYTES], size_t *ret_n,
                    struct err *e)
{
    json_t *list;
    int r = opt_list(j, key, &list, e);
    size_t n = json_array_size(list);

    if (r < 0 || n == 0)
        return r;
    *ret = calloc(n, sizeof(**ret));
    if (!*ret)
        return err_set(e, -ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const char *id = json_string_value(json_array_get(list, i));
        if (!id || strlen(id) >= ATTEMPT_ID_BYTES)
            return err_set(e, -EPROTO, "member \"%s\": expected ids", key);
        memcpy((*ret)[(*ret_n)++], id, strlen(id) + 1);
    }
    return 0;
}

static int read_leases(struct sync_answer *a, const json_t *j, struct err *e)
{
    bool only = json_object_get(j, "leases_only"), except = json_object_get(j, "leases_except");

    int r = json_object_get(j, "lease_at_least_ms")
                ? get_number(j, "lease_at_least_ms", &a->lease_at_least_ms, e)
                : 0;
    if (r < 0 || (!only && !except))
        return r;
    a->lease_scope = only ? LEASES_ONLY : LEASES_EXCEPT;
    return read_ids(j, only ? "leases_only" : "leases_except", &a->leases, &a->n_leases, e);
}

static int read_assignment(struct sync_answer *a, const json_t *j, struct err *e)
{
    json_t *assignment;

    if (!json_object_get(j, "assignment"))
        return 0;
    int r = json_get_object(j, "assignment", &assignment, e);
    if (r == 0)
        r = json_get_bool(assignment, "full", &a->assignment_full, e);
    if (r == 0)
        r = get_position(assignment, "base", &a->base, e);
    if (r == 0)
        r = get_position(assignment, "position", &a->position, e);
    if (r == 0)
        r = read_entries(a, assignment, e);
    if (r == 0)
        r = read_ids(assignment, "removed", &a->removed, &a->n_removed, e);
    a->has_assignment = r == 0;
    return r;
}

int sync_answer_from_json(const json_t *j, struct sync_answer *ret, struct err *e)
{
    struct sync_answer a = {0};
    int r = json_get_fields(j, answer_fields, ARRAY_SIZE(answer_fields), &a, e);

    a.want_inventory = json_opt_bool(j, "want_inventory", false);
    a.want_node = json_opt_bool(j, "want_node", false);
    (void)snprintf(a.ca_sha256, sizeof(a.ca_sha256), "%s", json_opt_str(j, "ca_sha256", ""));
    (void)snprintf(a.refused, sizeof(a.refused), "%s", json_opt_str(j, "refused", ""));
    if (r == 0)
        r = read_assignment(&a, j, e);
    if (r == 0)
        r = read_leases(&a, j, e);
    if (r < 0) {
        sync_answer_reset(&a);
        return err_wrap(e, r, "sync answer");
    }
    *ret = a;
    return 0;
}

// --- digest --------------------------------------------------------------------------------------

static uint64_t fnv1a(uint64_t hash, const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        hash = (hash ^ *c) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t inventory_hash(const char *attempt_id, enum attempt_state state)
{
    uint64_t hash = fnv1a(UINT64_C(0xcbf29ce484222325), attempt_id);
    hash = fnv1a(hash, " ");
    return fnv1a(hash, attempt_state_to_string(state));
}

void inventory_digest(uint64_t sum, char out[17])
{
    (void)snprintf(out, 17, "%016" PRIx64, sum);
}
