// SPDX-License-Identifier: Apache-2.0
// The run itself: jobs by priority and age, each placed whole or not at all. A job that does not
// fit leaves no trace: what its tasks took is given back in reverse order.
#include "master/scheduler/plan_internal.h"

#include "common/cleanup.h"

#include <stdlib.h>
#include <string.h>

// Needs that found no node while nothing of their job was placed. Free room only shrinks during a
// run, so whatever needs as much or more need not look again; this keeps a long queue of jobs that
// wait for the same thing cheap. A few are enough.
#define REFUSED_MAX 16

struct run {
    struct plan_index *index;
    struct plan_order *order; // of the job under way
    uint16_t *cursors;        // the port cursors from before each grant, in the same order
    struct plan_need refused[REFUSED_MAX];
    size_t n_refused;
};

static bool was_refused(const struct run *r, const struct plan_need *need)
{
    for (size_t i = 0; i < r->n_refused && i < REFUSED_MAX; i++)
        if (plan_need_within(&r->refused[i], need))
            return true;
    return false;
}

static bool place_task(struct run *r, const struct plan_job *job, size_t k)
{
    struct plan_index *x = r->index;
    struct plan_task *t = &job->tasks[r->order[k].task];
    struct plan_need need = plan_need_of(&t->demand);
    if (was_refused(r, &need))
        return false;
    t->node = plan_index_pick(x, plan_mode_of(job, &need), job->metric, &need, t->demand.avoid);
    if (t->node < 0) {
        if (k == 0)
            r->refused[r->n_refused++ % REFUSED_MAX] = need;
        return false;
    }
    r->cursors[k] = x->nodes[t->node].ports.cursor;
    plan_grant(&x->nodes[t->node], t);
    if (job->alloc == ALLOC_SPREAD)
        x->job_tasks[t->node]++;
    plan_index_touch(x, (size_t)t->node);
    return true;
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

static void forget_job(struct run *r, const struct plan_job *job, size_t placed)
{
    if (job->alloc != ALLOC_SPREAD)
        return;
    for (size_t k = 0; k < placed; k++) {
        size_t node = (size_t)job->tasks[r->order[k].task].node;
        if (r->index->job_tasks[node]) {
            r->index->job_tasks[node] = 0;
            plan_index_touch(r->index, node);
        }
    }
}

static void place_job(struct run *r, struct plan_job *job)
{
    size_t k = 0;
    job->placed = may_fit(r->index, job);
    if (!job->placed)
        return;
    plan_order_tasks(r->index, job, r->order);
    while (k < job->n_tasks && place_task(r, job, k))
        k++;
    job->placed = k == job->n_tasks;
    for (size_t i = job->placed ? 0 : k; i-- > 0;) {
        const struct plan_task *t = &job->tasks[r->order[i].task];
        plan_revoke(&r->index->nodes[t->node], t, r->cursors[i]);
        plan_index_touch(r->index, (size_t)t->node);
    }
    forget_job(r, job, k);
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

// A tree costs about as much as looking at every node for this many tasks. Counted over the life of
// the index.
#define TREE_PAYS_FROM 32

static int prepare(struct plan_index *x, struct plan_job **jobs, size_t n_jobs)
{
    for (size_t i = 0; i < n_jobs; i++) {
        const struct plan_job *j = jobs[i];
        for (size_t k = 0; k < j->n_tasks; k++) {
            struct plan_need need = plan_need_of(&j->tasks[k].demand);
            enum alloc_mode mode = plan_mode_of(j, &need);
            if (++x->asked[mode][j->metric] != TREE_PAYS_FROM)
                continue;
            int r = plan_index_prepare(x, mode, j->metric);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

int plan_index_run(struct plan_index *x, struct plan_job **jobs, size_t n_jobs)
{
    size_t most = 1;
    for (size_t i = 0; i < n_jobs; i++)
        most = jobs[i]->n_tasks > most ? jobs[i]->n_tasks : most;
    cleanup_free struct plan_order *order = calloc(most, sizeof(*order));
    cleanup_free uint16_t *cursors = calloc(most, sizeof(*cursors));
    struct run r = {.index = x, .order = order, .cursors = cursors};
    if (!order || !cursors || prepare(x, jobs, n_jobs) < 0)
        return -ENOMEM;
    if (n_jobs > 1)
        qsort(jobs, n_jobs, sizeof(struct plan_job *), compare_jobs);
    for (size_t i = 0; i < n_jobs; i++)
        place_job(&r, jobs[i]);
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
