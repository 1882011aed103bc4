// SPDX-License-Identifier: Apache-2.0
// Quotas as JSON.
#include "master/cluster/quota.h"

#include "common/json.h"
#include "common/units.h"

#include <inttypes.h>
#include <string.h>

#define TEXT_BYTES 64

static json_t *formatted(int64_t v, void (*format)(int64_t v, char *out))
{
    char text[TEXT_BYTES];
    if (v < 0)
        return json_null();
    format(v, text);
    return json_string(text);
}

static json_t *number(int64_t v)
{
    return v < 0 ? json_null() : json_integer(v);
}

json_t *quota_to_json(const struct plan_quota *q)
{
    json_t *j = json_object();
    json_put(j, "cpu", formatted(q->cpu, units_format_cpu));
    json_put(j, "memory", formatted(q->memory, units_format_memory));
    json_put(j, "gpu", number(q->gpu));
    json_put(j, "jobs", number(q->jobs));
    json_put(j, "tasks", number(q->tasks));
    return j;
}

// A text with a unit, or a plain number as job files have it.
static int read_amount(const json_t *v, const char *key,
                       int (*parse)(const char *text, int64_t *ret, struct err *e), int64_t *ret,
                       struct err *e)
{
    char text[TEXT_BYTES] = "";
    if (json_is_string(v))
        (void)snprintf(text, sizeof(text), "%.60s", json_string_value(v));
    else if (json_is_number(v) && json_number_value(v) >= 0)
        (void)snprintf(text, sizeof(text), "%.15g", json_number_value(v));
    int r = text[0] ? parse(text, ret, e) : err_set(e, -EINVAL, "expected an amount or null");
    return r < 0 ? err_wrap(e, r, "quota.%s", key) : 0;
}

static int read_count(const json_t *v, const char *key, int64_t *ret, struct err *e)
{
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > INT32_MAX)
        return err_set(e, -EINVAL, "quota.%s: expected a whole number of 0 or more, or null", key);
    *ret = json_integer_value(v);
    return 0;
}

static int read_member(const char *key, const json_t *v, struct plan_quota *q, struct err *e)
{
    if (json_is_null(v))
        return 0;
    if (strcmp(key, "cpu") == 0)
        return read_amount(v, key, units_parse_cpu, &q->cpu, e);
    if (strcmp(key, "memory") == 0)
        return read_amount(v, key, units_parse_memory, &q->memory, e);
    if (strcmp(key, "gpu") == 0)
        return read_count(v, key, &q->gpu, e);
    if (strcmp(key, "jobs") == 0)
        return read_count(v, key, &q->jobs, e);
    if (strcmp(key, "tasks") == 0)
        return read_count(v, key, &q->tasks, e);
    return err_set(e, -EINVAL, "quota.%.40s: unknown; expected cpu, memory, gpu, jobs or tasks",
                   key);
}

int quota_from_json(const json_t *j, struct plan_quota *ret, struct err *e)
{
    const char *key;
    json_t *v;
    int r = 0;
    struct plan_quota q = PLAN_NO_QUOTA;
    if (j && !json_is_null(j) && !json_is_object(j))
        return err_set(e, -EINVAL,
                       "quota: expected a mapping of cpu, memory, gpu, jobs, tasks, or null");
    json_object_foreach ((json_t *)(uintptr_t)j, key, v) {
        if (r == 0)
            r = read_member(key, v, &q, e);
    }
    if (r == 0)
        *ret = q;
    return r;
}
