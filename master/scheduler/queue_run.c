// SPDX-License-Identifier: Apache-2.0
// One run over what is due: picks the next job, tries it, hands out what was placed.
#include "master/scheduler/queue_internal.h"
#include "master/scheduler/where.h"

#include <stdlib.h>

static struct plan_lane *next_lane(struct plan_queue *q)
{
    for (int i = q->n_due ? PLAN_PRIORITY_MAX : -1; i >= 0; i--) {
        const struct seat *best = q->levels[i].n_ready ? seat_first(q, &q->levels[i]) : NULL;
        if (best)
            return best->heap[0];
    }
    return NULL;
}

// The head before all of its priority and below.
static struct plan_entry *next_entry(struct plan_queue *q)
{
    const struct plan_lane *lane = next_lane(q);
    struct plan_entry *head = q->head.due ? q->head.entry : NULL;
    if (head && (!lane || lane->shape.priority <= q->head.priority))
        return head;
    return lane ? lane->first : NULL;
}

// Into q->tasks.
static int lane_tasks(struct plan_queue *q, const struct plan_lane *lane)
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

int entry_job(struct plan_queue *q, const struct plan_entry *e, const struct plan_queue_run *run,
              struct plan_job *ret)
{
    struct plan_lane *lane = e->lane;
    lane->most = user_leaves(lane->seat->user, &lane->sum);
    *ret = (struct plan_job){.id = e->id,
                             .priority = lane->shape.priority,
                             .order = e->order,
                             .alloc = lane->shape.alloc,
                             .metric = lane->shape.metric,
                             .n_tasks = lane->n_tasks,
                             .rules = e->rules,
                             .most = lane->all ? &lane->most : NULL};
    int r = lane_tasks(q, lane);
    ret->tasks = q->tasks;
    if (r == 0 && run->images)
        run->images(e, q->tasks, lane->n_tasks, run->userdata);
    if (r == 0 && e->rules && run->peers)
        r = run->peers(e, &ret->peers, &ret->n_peers, run->userdata);
    return r;
}

int lane_nodes(struct plan_index *x, struct plan_lane *lane)
{
    int r = 0;
    for (size_t g = 0; g < lane->n_groups && r == 0; g++)
        if (lane->groups[g].demand.where)
            r = plan_need_on(x, &lane->groups[g].demand, &lane->groups[g].need);
    return r;
}

static bool known_refused(const struct plan_queue *q, const struct plan_lane *lane, bool open_only)
{
    for (size_t g = 0; g < lane->n_groups; g++) {
        struct plan_need need = lane->groups[g].need;
        need.whole |= open_only ? NODE_OPEN : 0u;
        if (plan_was_refused(&q->refusals, &need))
            return true;
    }
    return false;
}

// 1 = has its place, 0 = not, -ENOMEM.
static int try_entry(struct plan_queue *q, struct plan_index *x, const struct plan_queue_run *run,
                     const struct plan_entry *e, enum plan_wait *why)
{
    struct plan_job job;
    struct plan_lane *lane = e->lane;
    const struct plan_user *u = lane->seat->user;
    bool bound = e != q->head.entry && reserve_binds(q, &lane->shape);
    *why = user_quota(q, u, &lane->sum, lane->n_tasks, lane->shape.started);
    if (*why)
        return 0;
    *why = bound ? PLAN_WAIT_RESERVED : PLAN_WAIT_CAPACITY;
    int r = lane_nodes(x, lane);
    if (r < 0 || known_refused(q, lane, bound))
        return r;
    r = entry_job(q, e, run, &job);
    if (r < 0)
        return r;
    job.open_only = bound;
    r = plan_try(x, &q->refusals, &job); // "all" no larger than the quota leaves: room, too
    return r < 0 ? r : job.placed;
}

static int refuse(struct plan_queue *q, struct plan_index *x, const struct plan_queue_run *run,
                  const struct plan_entry *e, enum plan_wait why)
{
    struct plan_lane *lane = e->lane;
    if (q->head.entry == e)
        q->head.due = false;
    if (why != PLAN_WAIT_CAPACITY)
        reserve_left(q, e); // room is not what it waits for
    if (lane->wait == PLAN_WAIT_NEW)
        lane_refuse(q, lane, why);
    return why == PLAN_WAIT_CAPACITY && q->head.entry != e ? reserve_refused(q, x, run, lane) : 0;
}

// 1 = something was looked at, 0 = nothing is left, -ENOMEM.
static int step(struct plan_queue *q, struct plan_index *x, const struct plan_queue_run *run)
{
    enum plan_wait why;
    reserve_check(q, x);
    struct plan_entry *e = next_entry(q);
    if (!e)
        return 0;
    int r = try_entry(q, x, run, e, &why);
    if (r < 0)
        return r;
    if (r == 0) {
        r = refuse(q, x, run, e, why);
        return r < 0 ? r : 1;
    }
    size_t n = e->lane->n_tasks;
    reserve_gone(q, e, true);
    int priority = e->lane->shape.priority;
    const struct plan_user *user = e->lane->seat->user;
    plan_queue_remove(q, e);
    elder_started(q, e, priority);
    run->placed(e, q->tasks, n, run->userdata);
    lanes_follow(q, user, e->name);
    reserve_check(q, x);
    return 1;
}

static void take_totals(struct plan_queue *q, const struct plan_index *x)
{
    struct plan_user *maps[2] = {q->users, q->teams};
    const struct resources *now = &x->total, *was = &q->total;
    if (now->cpu_milli == was->cpu_milli && now->memory == was->memory && now->gpu == was->gpu)
        return;
    bool first = was->cpu_milli == 0 && was->memory == 0 && was->gpu == 0;
    for (int i = first ? 2 : 0; i < 2; i++) // what was held until now was a part of what there was
        for (struct plan_user *u = maps[i]; u; u = u->hh.next)
            user_advance(q, u, q->now_ms);
    q->total = x->total;
    forget_impossible(q);
}

int plan_queue_run(struct plan_queue *q, struct plan_index *x, const struct plan_queue_run *run)
{
    q->now_ms = run->now_ms > q->now_ms ? run->now_ms : q->now_ms;
    take_totals(q, x);
    teams_settle(q);
    if (where_trim(x)) // what was refused points to those that are gone
        q->refusals.n = q->impossible.n = 0;
    int r = reserve_begin(q, x, run);
    while (r >= 0 && (r = elder_check(q, x, run)) >= 0 && plan_queue_due(q)) {
        if (!run->more(run->userdata))
            return 1;
        r = step(q, x, run);
    }
    if (r == 0)
        elder_look(q);
    return r;
}

enum plan_wait plan_queue_judge(struct plan_queue *q, const struct plan_shape *shape,
                                const struct resources *granted, int64_t now_ms,
                                struct resources *ret_most)
{
    struct resources sum = {0};
    const struct plan_user *u = user_of(q, shape->user);
    q->now_ms = now_ms > q->now_ms ? now_ms : q->now_ms;
    for (size_t i = 0; i < shape->n_demands; i++) {
        struct plan_need need = plan_need_of(&shape->demands[i]);
        sum.cpu_milli += need.cpu;
        sum.memory += need.memory;
        sum.gpu += need.gpus;
    }
    if (ret_most)
        *ret_most = user_leaves(u, &sum);
    enum plan_wait why =
        u ? user_quota(q, u, granted ? granted : &sum, shape->n_demands, shape->started)
          : PLAN_WAIT_NEW;
    return why ? why : reserve_binds(q, shape) ? PLAN_WAIT_RESERVED : PLAN_WAIT_NEW;
}
