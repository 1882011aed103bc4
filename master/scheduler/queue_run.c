// SPDX-License-Identifier: Apache-2.0
// One run over what is due: picks the next lane, tries its oldest job, hands out what was placed.
#include "master/scheduler/queue_internal.h"

#include <stdlib.h>

static bool seat_before(const struct seat *a, const struct seat *b)
{
    return entry_before(a->heap[0]->first, b->heap[0]->first);
}

static struct plan_lane *next_lane(struct plan_queue *q)
{
    for (int i = q->n_due ? PLAN_PRIORITY_MAX : -1; i >= 0; i--) {
        const struct level *l = &q->levels[i];
        const struct seat *best = NULL;
        for (size_t k = 0; k < l->n_ready; k++)
            if (!best || seat_before(l->ready[k], best))
                best = l->ready[k];
        if (best)
            return best->heap[0];
    }
    return NULL;
}

static bool within(int64_t limit, int64_t held, int64_t more)
{
    return limit < 0 || more == 0 || (held <= limit && more <= limit - held);
}

static bool within_quota(const struct plan_user *u, const struct resources *r, bool started)
{
    return within(u->quota.cpu, u->held.cpu_milli, r->cpu_milli) &&
           within(u->quota.memory, u->held.memory, r->memory) &&
           within(u->quota.gpu, u->held.gpu, r->gpu) && within(u->quota.jobs, u->jobs, !started);
}

// The lane's tasks, written out.
static int fill_tasks(struct plan_queue *q, const struct plan_lane *lane)
{
    if (lane->n_tasks > q->tasks_capacity) {
        struct plan_task *tasks = realloc(q->tasks, lane->n_tasks * sizeof(*tasks));
        if (!tasks)
            return -ENOMEM;
        q->tasks = tasks;
        q->tasks_capacity = lane->n_tasks;
    }
    size_t at = 0;
    for (size_t g = 0; g < lane->n_groups; g++)
        for (size_t i = 0; i < lane->groups[g].count; i++)
            q->tasks[at++] = (struct plan_task){.demand = lane->groups[g].demand, .node = -1};
    return 0;
}

static bool known_refused(const struct plan_queue *q, const struct plan_lane *lane)
{
    for (size_t g = 0; g < lane->n_groups; g++)
        if (plan_was_refused(&q->refusals, &lane->groups[g].need))
            return true;
    return false;
}

// 1 = has its place, 0 = not, -ENOMEM.
static int try_lane(struct plan_queue *q, struct plan_index *x, struct plan_lane *lane,
                    enum plan_wait *why)
{
    const struct plan_user *u = lane->seat->user;
    *why = PLAN_WAIT_QUOTA;
    if (!within_quota(u, &lane->sum, lane->shape.started))
        return 0;
    *why = PLAN_WAIT_CAPACITY;
    if (known_refused(q, lane))
        return 0;
    int r = fill_tasks(q, lane);
    if (r < 0)
        return r;
    struct plan_job job = {.id = lane->first->id,
                           .priority = lane->shape.priority,
                           .order = lane->first->order,
                           .alloc = lane->shape.alloc,
                           .metric = lane->shape.metric,
                           .tasks = q->tasks,
                           .n_tasks = lane->n_tasks};
    r = plan_try(x, &q->refusals, &job);
    if (r < 0 || !job.placed)
        return r;
    struct resources granted = {0};
    for (size_t i = 0; i < job.n_tasks; i++) { // "all" is known only now
        granted.cpu_milli += job.tasks[i].granted.cpu_milli;
        granted.memory += job.tasks[i].granted.memory;
        granted.gpu += job.tasks[i].granted.gpu;
    }
    if (within_quota(u, &granted, lane->shape.started))
        return 1;
    *why = PLAN_WAIT_QUOTA;
    plan_untry(x, &job);
    return 0;
}

int plan_queue_run(struct plan_queue *q, struct plan_index *x, const struct plan_queue_run *run)
{
    struct plan_lane *lane;
    while ((lane = next_lane(q))) {
        enum plan_wait why;
        if (!run->more(run->userdata))
            return 1;
        int r = try_lane(q, x, lane, &why);
        if (r < 0)
            return r;
        if (r == 0) {
            lane_refuse(q, lane, why);
            continue;
        }
        struct plan_entry *e = lane->first;
        size_t n = lane->n_tasks;
        plan_queue_remove(q, e);
        run->placed(e, q->tasks, n, run->userdata);
    }
    return 0;
}
