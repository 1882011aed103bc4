// SPDX-License-Identifier: Apache-2.0
// JSON codec of an attempt's status: what the agent says about an attempt. Only what is set is
// written (a status goes out with every change), and a missing member means "not set".
#include "proto/attempt.h"

#include "common/cleanup.h"
#include "common/json.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

// Texts from programs and engines may be no UTF-8, or cut within a character: such bytes become
// '?'.
static void put_people_text(json_t *j, const char *key, const char *text)
{
    json_t *value = json_string(text);

    if (!value) {
        char plain[sizeof(((struct attempt_status *)0)->reason)];
        (void)snprintf(plain, sizeof(plain), "%s", text);
        for (char *c = plain; *c; c++)
            if ((unsigned char)*c >= 0x80)
                *c = '?';
        value = json_string(plain);
    }
    json_put(j, key, value);
}

json_t *attempt_status_to_json(const struct attempt_status *s)
{
    json_t *j = json_object();

    json_put_str(j, "id", s->id);
    json_put_i64(j, "change", s->change);
    json_put_str(j, "state", attempt_state_to_string(s->state));
    json_put_str(j, "logs", logs_state_to_string(s->logs));
    if (s->cause != CAUSE_NONE)
        json_put_str(j, "cause", attempt_cause_to_string(s->cause));
    if (s->has_exit)
        json_put_i64(j, "exit_code", s->exit_code);
    if (s->signal)
        json_put_i64(j, "signal", s->signal);
    if (s->health != HEALTH_WORD_NONE)
        json_put_str(j, "health", health_word_to_string(s->health));
    if (s->job[0])
        json_put_str(j, "job", s->job);
    if (s->oom)
        json_put_bool(j, "oom", true);
    if (s->pull)
        json_put_bool(j, "pull", true);
    if (s->reason[0])
        put_people_text(j, "reason", s->reason);
    if (s->container_id[0])
        put_people_text(j, "container_id", s->container_id);
    if (s->pid)
        json_put_i64(j, "pid", s->pid);
    if (s->started_ms)
        json_put_i64(j, "started_ms", s->started_ms);
    if (s->ended_ms)
        json_put_i64(j, "ended_ms", s->ended_ms);
    return j;
}

static int read_words(struct attempt_status *s, const json_t *j, struct err *e)
{
    const char *text;
    int r = json_get_str(j, "state", &text, e);
    if (r < 0)
        return r;
    if (attempt_state_from_string(text, &s->state) < 0)
        return err_set(e, -EPROTO, "member \"state\": unknown state");
    if (attempt_cause_from_string(json_opt_str(j, "cause", "none"), &s->cause) < 0)
        s->cause = CAUSE_UNKNOWN; // a newer side's word, which its reason explains
    if (logs_state_from_string(json_opt_str(j, "logs", "open"), &s->logs) < 0)
        return err_set(e, -EPROTO, "member \"logs\": unknown state");
    if (health_word_from_string(json_opt_str(j, "health", "none"), &s->health) < 0)
        s->health = HEALTH_WORD_NONE; // likewise
    return 0;
}

// A member that is missing is 0; one that is there must be an integer in [0, max].
static int opt_number(const json_t *j, const char *key, int64_t max, int64_t *ret, struct err *e)
{
    *ret = 0;
    if (!json_object_get(j, key))
        return 0;
    int r = json_get_i64(j, key, ret, e);
    if (r == 0 && (*ret < 0 || *ret > max))
        return err_set(e, -EPROTO, "member \"%s\": out of range", key);
    return r;
}

static int read_numbers(struct attempt_status *s, const json_t *j, struct err *e)
{
    int64_t code = 0;
    int64_t signal_number = 0;
    int r = json_get_i64(j, "change", &s->change, e);

    if (r == 0)
        r = opt_number(j, "exit_code", INT_MAX, &code, e);
    if (r == 0)
        r = opt_number(j, "signal", 128, &signal_number, e);
    if (r == 0)
        r = opt_number(j, "pid", INT_MAX, &s->pid, e);
    if (r == 0)
        r = opt_number(j, "started_ms", INT64_MAX, &s->started_ms, e);
    if (r == 0)
        r = opt_number(j, "ended_ms", INT64_MAX, &s->ended_ms, e);
    s->exit_code = (int)code;
    s->signal = (int)signal_number;
    s->has_exit = json_object_get(j, "exit_code") != NULL;
    s->oom = json_opt_bool(j, "oom", false);
    s->pull = json_opt_bool(j, "pull", false);
    return r;
}

static int read_id(struct attempt_status *s, const json_t *j, struct err *e)
{
    const char *id;
    int r = json_get_str(j, "id", &id, e);
    if (r < 0)
        return r;
    size_t len = strlen(id);
    if (len == 0 || len >= sizeof(s->id) || strpbrk(id, "/.") != NULL)
        return err_set(e, -EPROTO, "member \"id\": expected an id");
    memcpy(s->id, id, len + 1);
    return 0;
}

int attempt_status_from_json(const json_t *j, struct attempt_status *ret, struct err *e)
{
    struct attempt_status s = {0};
    int r = read_id(&s, j, e);

    if (r == 0)
        r = read_words(&s, j, e);
    if (r == 0)
        r = read_numbers(&s, j, e);
    if (r < 0)
        return err_wrap(e, r, "status");
    (void)snprintf(s.job, sizeof(s.job), "%s", json_opt_str(j, "job", ""));
    (void)snprintf(s.reason, sizeof(s.reason), "%s", json_opt_str(j, "reason", ""));
    (void)snprintf(s.container_id, sizeof(s.container_id), "%s",
                   json_opt_str(j, "container_id", ""));
    *ret = s;
    return 0;
}

// --- what it takes of its node ---

void attempt_holds_of(const struct attempt_spec *s, struct attempt_holds *ret)
{
    *ret = (struct attempt_holds){0};
    if (!s || !s->job || !s->job[0] || s->n_ports > ATTEMPT_MAX_PORTS)
        return;
    struct attempt_holds h = {.known = true, .resources = s->resources, .n_ports = s->n_ports};
    for (size_t i = 0; i < s->n_gpus; i++) {
        if (s->gpus[i] < 0 || s->gpus[i] > 63)
            return;
        h.gpus |= UINT64_C(1) << s->gpus[i];
    }
    for (size_t i = 0; i < s->n_ports; i++)
        h.ports[i] = s->ports[i];
    *ret = h;
}

void attempt_holds_put(json_t *status, const struct attempt_holds *h)
{
    if (!h->known)
        return;
    json_t *j = json_object(), *gpus = json_array(), *ports = json_array();
    json_put_i64(j, "cpu", h->resources.cpu_milli);
    json_put_i64(j, "memory", h->resources.memory);
    json_put_i64(j, "gpu", h->resources.gpu);
    for (int i = 0; i < 64; i++)
        if (h->gpus >> i & 1)
            (void)json_array_append_new(gpus, json_integer(i));
    for (size_t i = 0; i < h->n_ports; i++)
        (void)json_array_append_new(ports, json_integer(h->ports[i]));
    json_put(j, "gpus", gpus);
    json_put(j, "ports", ports);
    json_put(status, "holds", j);
}

// -1 = no integer from 0 to max.
static int64_t within(const json_t *value, int64_t max)
{
    int64_t n = json_is_integer(value) ? json_integer_value(value) : -1;
    return n <= max ? n : -1;
}

void attempt_holds_read(const json_t *status, struct attempt_holds *ret)
{
    const json_t *j = json_object_get(status, "holds"), *one;
    const json_t *gpus = json_object_get(j, "gpus"), *ports = json_object_get(j, "ports");
    size_t i;
    struct attempt_holds h = {
        .known = true,
        .resources = {within(json_object_get(j, "cpu"), RESOURCES_MAX_CPU_MILLI),
                      within(json_object_get(j, "memory"), RESOURCES_MAX_MEMORY),
                      within(json_object_get(j, "gpu"), 64)},
        .n_ports = json_array_size(ports)};
    *ret = (struct attempt_holds){0};
    if (h.resources.cpu_milli < 0 || h.resources.memory < 0 || h.resources.gpu < 0 ||
        !json_is_array(gpus) || !json_is_array(ports) || h.n_ports > ATTEMPT_MAX_PORTS)
        return;
    json_array_foreach (gpus, i, one) {
        if (within(one, 63) < 0)
            return;
        h.gpus |= UINT64_C(1) << json_integer_value(one);
    }
    json_array_foreach (ports, i, one) {
        if (within(one, UINT16_MAX) < 0)
            return;
        h.ports[i] = (uint16_t)json_integer_value(one);
    }
    *ret = h;
}
