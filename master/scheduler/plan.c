// SPDX-License-Identifier: Apache-2.0
// The run itself: jobs by priority and age, each placed whole or not at all. A job that does not
// fit leaves no trace: what its tasks took is given back in reverse order.
#include "master/scheduler/where.h"

#include <stdlib.h>
#include <string.h>

bool plan_was_refused(const struct plan_refusals *r, const struct plan_need *need)
{
    for (size_t i = 0; i < r->n && i < PLAN_REFUSALS_MAX; i++)
        if (plan_need_within(&r->needs[i], need))
            return true;
    return false;
}

// 1 = has its place, 0 = there is none, -ENOMEM.
static int place_task(struct plan_index *x, struct plan_refusals *r, const struct plan_job *job,
                      size_t k, struct resources *most)
{
    struct plan_task *t = &job->tasks[x->order[k].task];
    struct plan_need need;
    if (plan_need_on(x, &t->demand, &need) < 0)
        return -ENOMEM;
    need.whole |= job->open_only ? NODE_OPEN : 0u;
    plan_need_limit(&need, most);
    if (plan_was_refused(r, &need))
        return 0;
    t->node = plan_index_pick(x, plan_mode_of(job, &need), job->metric, &need, t->demand.avoid);
    if (t->node < 0) {
        if (k == 0)
            r->needs[r->n++ % PLAN_REFUSALS_MAX] = need;
        return 0;
    }
    x->cursors[k] = x->nodes[t->node].ports.cursor;
    plan_grant(&x->nodes[t->node], t, where_cards(need.where, (size_t)t->node));
    plan_most_take(most, t);
    if (job->alloc == ALLOC_SPREAD)
        x->job_tasks[t->node]++;
    plan_index_touch(x, (size_t)t->node);
    return 1;
}

// Whether all of the job's needs together are within all that is free: cheap, and spares the long
// way to the same answer.
static bool may_fit(const struct plan_index *x, const struct plan_job *job)
{
    __int128 cpu = 0, memory = 0, gpus = 0;
    for (size_t i = 0; i < job->n_tasks; i++) {
        struct plan_need n = plan_need_of(&job->tasks[i].demand);
        cpu += n.cpu;
        memory += n.memory;
        gpus += n.gpus;
    }
    return cpu <= x->sum_cpu && memory <= x->sum_memory && gpus <= x->sum_gpus;
}

static void forget_job(struct plan_index *x, const struct plan_job *job, size_t placed)
{
    if (job->alloc != ALLOC_SPREAD)
        return;
    for (size_t k = 0; k < placed; k++) {
        size_t node = (size_t)job->tasks[x->order[k].task].node;
        if (x->job_tasks[node]) {
            x->job_tasks[node] = 0;
            plan_index_touch(x, node);
        }
    }
}

// Gives back what the first `placed` tasks took, in reverse order.
static void undo(struct plan_index *x, const struct plan_job *job, size_t placed)
{
    for (size_t i = placed; i-- > 0;) {
        const struct plan_task *t = &job->tasks[x->order[i].task];
        plan_revoke(&x->nodes[t->node], t, x->cursors[i]);
        plan_index_touch(x, (size_t)t->node);
    }
}

int plan_index_room(struct plan_index *x, size_t n)
{
    if (n <= x->scratch)
        return 0;
    struct plan_order *order = realloc(x->order, n * sizeof(*order));
    if (order)
        x->order = order;
    uint16_t *cursors = realloc(x->cursors, n * sizeof(*cursors));
    if (cursors)
        x->cursors = cursors;
    if (!order || !cursors)
        return -ENOMEM;
    x->scratch = n;
    return 0;
}

// A tree costs about as much as looking at every node for this many tasks. Counted over the life of
// the index.
#define TREE_PAYS_FROM 32

static int prepare(struct plan_index *x, const struct plan_job *j)
{
    for (size_t k = 0; k < j->n_tasks; k++) {
        struct plan_need need = plan_need_of(&j->tasks[k].demand);
        enum alloc_mode mode = plan_mode_of(j, &need);
        if (++x->asked[mode][j->metric] < TREE_PAYS_FROM)
            continue;
        int r = plan_index_prepare(x, mode, j->metric);
        if (r < 0)
            return r;
    }
    return 0;
}

struct resources plan_most(const struct plan_job *job)
{
    return job->most ? *job->most : (struct resources){INT64_MAX, INT64_MAX, INT64_MAX};
}

static int try_once(struct plan_index *x, struct plan_refusals *r, struct plan_job *job)
{
    size_t k = 0;
    int placed = 1;
    struct resources most = plan_most(job);
    job->placed = may_fit(x, job);
    if (!job->placed)
        return 0;
    if (plan_index_room(x, job->n_tasks) < 0 || prepare(x, job) < 0)
        return -ENOMEM;
    plan_order_tasks(x, job, x->order);
    if (job->rules)
        placed = plan_place_ruled(x, job, &k);
    while (!job->rules && k < job->n_tasks && (placed = place_task(x, r, job, k, &most)) > 0)
        k++;
    job->placed = k == job->n_tasks;
    if (!job->placed)
        undo(x, job, k);
    forget_job(x, job, k);
    return placed < 0 ? placed : 0;
}

// By what its tasks want all of, the smallest nodes first.
static enum alloc_metric metric_of_all(const struct plan_job *job)
{
    for (size_t i = 0; i < job->n_tasks; i++) {
        const struct plan_demand *d = &job->tasks[i].demand;
        if (d->cpu_all || d->memory_all || d->gpu_all)
            return d->cpu_all ? METRIC_CPU : d->memory_all ? METRIC_MEMORY : METRIC_GPU;
    }
    return job->metric;
}

// Where "all" of the nodes that its mode prefers is too much, that of the smallest may not be.
int plan_try(struct plan_index *x, struct plan_refusals *r, struct plan_job *job)
{
    int ret = try_once(x, r, job);
    if (ret < 0 || job->placed || !job->most || job->n_tasks < 2)
        return ret;
    enum alloc_mode mode = job->alloc;
    enum alloc_metric metric = job->metric;
    job->alloc = ALLOC_COMPACTED;
    job->metric = metric_of_all(job);
    ret = try_once(x, r, job);
    job->alloc = mode;
    job->metric = metric;
    return ret;
}

int plan_try_most(struct plan_index *x, struct plan_refusals *r, struct plan_job *job,
                  bool *ret_over)
{
    int ret = plan_try(x, r, job);
    const struct resources *most = job->most;
    *ret_over = false;
    if (ret < 0 || job->placed || !most)
        return ret;
    job->most = NULL;
    ret = plan_try(x, r, job);
    job->most = most;
    *ret_over = ret == 0 && job->placed;
    if (*ret_over)
        plan_untry(x, job);
    return ret;
}

struct resources plan_granted(const struct plan_job *job)
{
    struct resources r = {0};
    for (size_t i = 0; i < job->n_tasks; i++) {
        r.cpu_milli += job->tasks[i].granted.cpu_milli;
        r.memory += job->tasks[i].granted.memory;
        r.gpu += job->tasks[i].granted.gpu;
    }
    return r;
}

void plan_untry(struct plan_index *x, struct plan_job *job)
{
    undo(x, job, job->n_tasks);
    job->placed = false;
}

static int compare_jobs(const void *a, const void *b)
{
    const struct plan_job *x = *(struct plan_job *const *)a, *y = *(struct plan_job *const *)b;
    if (x->priority != y->priority)
        return x->priority > y->priority ? -1 : 1;
    if (x->order != y->order)
        return x->order < y->order ? -1 : 1;
    return strcmp(x->id, y->id);
}

int plan_index_run(struct plan_index *x, struct plan_job **jobs, size_t n_jobs)
{
    struct plan_refusals refusals = {0};
    if (n_jobs > 1)
        qsort(jobs, n_jobs, sizeof(struct plan_job *), compare_jobs);
    for (size_t i = 0; i < n_jobs; i++) {
        int r = plan_try(x, &refusals, jobs[i]);
        if (r < 0)
            return r;
    }
    return 0;
}

int plan_run(struct plan_node *nodes, size_t n_nodes, struct plan_job **jobs, size_t n_jobs)
{
    struct plan_index *x = NULL;
    int r = plan_index_new(nodes, n_nodes, &x);
    if (r == 0)
        r = plan_index_run(x, jobs, n_jobs);
    plan_index_free(x);
    return r;
}
