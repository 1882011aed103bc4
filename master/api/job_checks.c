// SPDX-License-Identifier: Apache-2.0
// Leases, priorities and sizes of jobs against the master's settings. Each refusal names its own.
#include "master/api/job_checks.h"

#include "common/clock.h"
#include "common/json.h"

#include <stdarg.h>
#include <string.h>

#define PROBLEMS_MAX 8

json_t *job_problems_json(const struct job_problems *p)
{
    json_t *a = json_array();
    for (size_t i = 0; i < p->count; i++) {
        json_t *x = json_object();
        json_put_str(x, "path", p->items[i].path);
        if (p->items[i].line)
            json_put_i64(x, "line", p->items[i].line);
        if (p->items[i].column)
            json_put_i64(x, "column", p->items[i].column);
        json_put_str(x, "message", p->items[i].message);
        (void)json_array_append_new(a, x);
    }
    return a;
}

static void add(struct job_problems *p, const char *path, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void add(struct job_problems *p, const char *path, const char *fmt, ...)
{
    va_list args;
    if (p->count == PROBLEMS_MAX) {
        p->more++;
        return;
    }
    struct job_problem *x = &p->items[p->count++];
    (void)snprintf(x->path, sizeof(x->path), "%s", path);
    va_start(args, fmt);
    (void)vsnprintf(x->message, sizeof(x->message), fmt, args);
    va_end(args);
}

static void check_leases(const struct call *call, const struct job_spec *spec,
                         struct job_problems *p)
{
    char path[192];
    int64_t min = cluster_lease_min(call->api->cluster);
    for (size_t i = 0; i < spec->n_components; i++) {
        const struct job_component *k = &spec->components[i];
        if (!k->lost_after_ms || k->lost_after_ms >= min)
            continue;
        (void)snprintf(path, sizeof(path), "components.%.100s.on_node_lost.after", k->name);
        add(p, path, "expected at least %lld ms: four times the cluster's sync interval and 5 s",
            (long long)min);
    }
}

static void check_queue(const struct call *call, const struct job_spec *spec,
                        struct job_problems *p)
{
    const struct cluster_options *o = cluster_settings(call->api->cluster);
    const char *role = role_to_string(call->who.role);
    int64_t most = o->scheduling.max_priority[call->who.role];
    int tasks = job_spec_total_tasks(spec);
    if (spec->priority > most)
        add(p, "priority",
            "found %d, expected at most %lld for the role %s (scheduling.max_priority.%s of "
            "master.yml)",
            spec->priority, (long long)most, role, role);
    if (spec->deadline_fixed && spec->deadline_ms <= clock_real_ms())
        add(p, "deadline", "has passed already");
    if (tasks > o->scheduling.job_tasks)
        add(p, "components",
            "%d tasks together, expected at most %lld (scheduling.job_tasks of "
            "master.yml)",
            tasks, (long long)o->scheduling.job_tasks);
}

int job_checks(struct call *call, const struct job_spec *spec)
{
    struct job_problem items[PROBLEMS_MAX] = {0};
    struct job_problems problems = {.items = items};
    check_leases(call, spec, &problems);
    check_queue(call, spec, &problems);
    if (!problems.count)
        return 0;
    json_t *extra = json_object();
    json_put(extra, "errors", job_problems_json(&problems));
    api_problem_with(call, 422, extra, "the job file has %zu mistake%s",
                     problems.count + problems.more,
                     problems.count + problems.more == 1 ? "" : "s");
    return -EINVAL;
}
