// SPDX-License-Identifier: Apache-2.0
// Quotas in words: what can never fit, and what is used up.
#include "common/cleanup.h"
#include "master/cluster/cluster_internal.h"
#include "master/cluster/team.h"
#include "master/cluster/user.h"
#include "master/scheduler/scheduler.h"
#include "master/scheduler/scheduler_internal.h"

#include <inttypes.h>
#include <string.h>

// --- never fits ---

static int over(int64_t limit, int64_t need, const char *whose, const char *what, int64_t unit,
                const char *units, struct err *e)
{
    if (limit < 0 || need <= limit)
        return 0;
    return err_set(e, -EINVAL,
                   "never fits %s quota: needs %s %" PRId64 "%s in all, %s quota is %" PRId64
                   "%s; make the job smaller or ask an admin for more",
                   whose, what, (need + unit - 1) / unit, units, whose, limit / unit, units);
}

static int within(const struct plan_quota *q, const struct resources *sum, int tasks,
                  const char *whose, struct err *e)
{
    int r = over(q->cpu, sum->cpu_milli, whose, "cpu", 1, "m", e);
    if (r == 0)
        r = over(q->memory, sum->memory, whose, "memory", INT64_C(1) << 20, "m", e);
    if (r == 0)
        r = over(q->gpu, sum->gpu, whose, "gpu", 1, "", e);
    if (r == 0)
        r = over(q->jobs, 1, whose, "running jobs", 1, "", e);
    if (r == 0)
        r = over(q->tasks, tasks, whose, "running tasks", 1, "", e);
    return r;
}

int scheduler_check_quota(const struct cluster *c, const struct job_spec *spec, const char *user,
                          struct err *e)
{
    const struct user *u = cluster_user_find(c, user);
    struct resources sum = {0};
    if (!u)
        return 0;
    for (size_t i = 0; i < spec->n_components; i++) {
        const struct job_component *k = &spec->components[i];
        struct resources r = component_resources(c, k);
        sum.cpu_milli += k->cpu_all ? 0 : r.cpu_milli * k->num;
        sum.memory += k->memory_all ? 0 : r.memory * k->num;
        sum.gpu += k->gpu_all ? 0 : r.gpu * k->num;
    }
    int tasks = job_spec_total_tasks(spec);
    int r = within(&u->quota, &sum, tasks, "your", e);
    struct team team;
    if (r == 0 && u->team[0] && cluster_team_find(c, u->team, &team))
        r = within(&team.quota, &sum, tasks, "your team's", e);
    return r;
}

// --- used up ---

static bool used_up(int64_t limit, int64_t held, int64_t need)
{
    return limit >= 0 && need > 0 && held + need > limit;
}

void scheduler_quota_text(struct cluster *c, const struct plan_shape *shape, bool of_team,
                          char *out, size_t size)
{
    const struct user *u = cluster_user_find(c, shape->user);
    const char *whose = of_team ? "team" : "user";
    struct team team = {.quota = PLAN_NO_QUOTA};
    if (u && of_team)
        (void)cluster_team_find(c, u->team, &team);
    const struct plan_quota *q = of_team ? &team.quota : u ? &u->quota : &team.quota;
    struct plan_user_state s;
    if (u && of_team)
        plan_queue_team(c->scheduler->queue, u->team, 0, &s);
    else
        plan_queue_user(c->scheduler->queue, shape->user, 0, &s);
    struct resources need = {0};
    bool all = false;
    for (size_t i = 0; i < shape->n_demands; i++) {
        const struct plan_demand *d = &shape->demands[i];
        need.cpu_milli += d->cpu_all ? 0 : d->resources.cpu_milli;
        need.memory += d->memory_all ? 0 : d->resources.memory;
        need.gpu += d->gpu_all ? 0 : d->resources.gpu;
        all |= d->cpu_all || d->memory_all || d->gpu_all;
    }
    const struct {
        const char *what, *units;
        int64_t limit, held, need, unit;
    } kinds[] = {
        {"cpu", "m", q->cpu, s.held.cpu_milli, need.cpu_milli, 1},
        {"memory", "m", q->memory, s.held.memory, need.memory, INT64_C(1) << 20},
        {"gpu", "", q->gpu, s.held.gpu, need.gpu, 1},
        {"running jobs", "", q->jobs, s.jobs, !shape->started, 1},
        {"running tasks", "", q->tasks, s.tasks, (int64_t)shape->n_demands, 1},
    };
    (void)snprintf(
        out, size,
        all ? "`all` of a node that is free is more than the %s's quota leaves; it starts "
              "on a smaller one, or when work of the %s has ended"
            : "the %s's quota is used up; it starts when work of the %s has ended",
        whose, whose);
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        int64_t unit = kinds[i].unit;
        if (!used_up(kinds[i].limit, kinds[i].held, kinds[i].need))
            continue;
        (void)snprintf(
            out, size,
            "the %s's quota of %s is used up: %" PRId64 "%s of %" PRId64
            "%s are in use, it needs %" PRId64 "%s; it starts when work of the %s has ended",
            whose, kinds[i].what, kinds[i].held / unit, kinds[i].units, kinds[i].limit / unit,
            kinds[i].units, (kinds[i].need + unit - 1) / unit, kinds[i].units, whose);
        return;
    }
}
