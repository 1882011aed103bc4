// SPDX-License-Identifier: Apache-2.0
// Takes a snapshot of nodes and waiting jobs, lets the plan decide, and applies the placements as
// cluster verbs.
#include "master/scheduler/scheduler.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "master/cluster/cluster_internal.h"
#include "master/scheduler/plan.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct snapshot {
    struct plan_node *nodes;
    struct node **node_of; // same order
    size_t n_nodes;
    char (*why)[REASON_BYTES]; // texts of `ineligible`
};

static void snapshot_free(struct snapshot *s)
{
    free(s->nodes);
    free(s->node_of);
    free(s->why);
}
#define cleanup_snapshot __attribute__((__cleanup__(snapshot_free)))

// NULL = it may get work.
static const char *ineligible(const struct node *n, char *text)
{
    if (!n->approved)
        return "not approved";
    if (n->state != NODE_READY) {
        (void)snprintf(text, REASON_BYTES, "%s%s%.200s", node_state_to_string(n->state),
                       n->reason[0] ? ": " : "", n->reason);
        return text;
    }
    return n->draining ? "draining" : NULL;
}

static uint64_t gpus_free(const struct node *n)
{
    uint64_t all = n->n_gpus >= 64 ? UINT64_MAX : (UINT64_C(1) << n->n_gpus) - 1;
    return all & ~n->gpus_taken;
}

static int snapshot_take(struct cluster *c, struct snapshot *s)
{
    size_t n = HASH_CNT(hh, c->nodes);
    s->nodes = calloc(n + 1, sizeof(*s->nodes));
    s->node_of = calloc(n + 1, sizeof(*s->node_of));
    s->why = calloc(n + 1, sizeof(*s->why));
    if (!s->nodes || !s->node_of || !s->why)
        return -ENOMEM;
    for (struct node *x = c->nodes; x; x = x->hh.next) {
        size_t i = s->n_nodes++;
        s->node_of[i] = x;
        s->nodes[i] = (struct plan_node){
            .name = x->name,
            .ineligible = ineligible(x, s->why[i]),
            .runtime = x->docker ? PLAN_RUNTIME_DOCKER : PLAN_RUNTIME_PROCESS,
            .total = x->total,
            .free = {x->total.cpu_milli - x->reserved.cpu_milli,
                     x->total.memory - x->reserved.memory, x->total.gpu - x->reserved.gpu},
            .gpus_free = gpus_free(x),
            .ports = {x->port_first, x->port_count, x->port_cursor, x->ports_taken},
            .tasks = x->tasks,
        };
    }
    return 0;
}

static void fill_demand(const struct cluster *c, const struct task *t, struct plan_demand *d)
{
    const struct job_component *k = task_component(t);
    d->resources = component_resources(c, k);
    d->cpu_all = k->cpu_all;
    d->memory_all = k->memory_all;
    d->gpu_all = k->gpu_all;
    d->runtimes = t->job->spec->mode == JOB_MODE_PROCESS || !k->image ? PLAN_RUNTIME_PROCESS
                                                                      : PLAN_RUNTIME_ANY;
    d->ports = k->ports + (t->index == 0 ? 1 : 0);
    d->avoid = t->avoid_node[0] ? t->avoid_node : NULL;
}

struct waiting {
    struct plan_job job;
    struct job *of;
    struct task **tasks; // same order as job.tasks
};

static void waiting_free(struct waiting *w)
{
    free(w->job.tasks);
    free(w->tasks);
}

// The tasks of a job that wait for a place now (not in backoff).
static int waiting_take(const struct cluster *c, struct job *j, struct waiting *w)
{
    size_t n = (size_t)j->totals[TASK_PENDING];
    *w = (struct waiting){.of = j};
    w->job = (struct plan_job){.id = j->id,
                               .priority = j->spec->priority,
                               .order = j->order,
                               .alloc = j->spec->alloc,
                               .metric = j->spec->metric};
    w->job.tasks = calloc(n + 1, sizeof(*w->job.tasks));
    w->tasks = calloc(n + 1, sizeof(*w->tasks));
    if (!w->job.tasks || !w->tasks) {
        waiting_free(w);
        return -ENOMEM;
    }
    for (int i = 0; i < j->n_tasks; i++) {
        struct task *t = &j->tasks[i];
        if (t->state != TASK_PENDING || t->in_backoff)
            continue;
        fill_demand(c, t, &w->job.tasks[w->job.n_tasks].demand);
        w->tasks[w->job.n_tasks++] = t;
    }
    return 0;
}

static void apply(struct cluster *c, const struct snapshot *s, struct waiting *w)
{
    w->of->tried = true;
    if (!w->job.placed)
        return;
    for (size_t i = 0; i < w->job.n_tasks; i++) {
        const struct plan_task *p = &w->job.tasks[i];
        task_place(c, w->tasks[i], s->node_of[p->node], &p->granted, p->gpus, p->port,
                   p->demand.ports);
    }
    job_refresh(c, w->of);
}

static void run(struct cluster *c, struct waiting *all, struct plan_job **jobs, size_t n)
{
    cleanup_snapshot struct snapshot s = {0};
    if (snapshot_take(c, &s) < 0 || plan_run(s.nodes, s.n_nodes, jobs, n) < 0) {
        log_error("scheduler", "out of memory: this turn places nothing");
        return;
    }
    for (size_t i = 0; i < s.n_nodes; i++)
        s.node_of[i]->port_cursor = s.nodes[i].ports.cursor;
    for (size_t i = 0; i < n; i++)
        apply(c, &s, &all[i]);
}

void scheduler_run(struct cluster *c, bool capacity_grew)
{
    size_t n = 0, count = 0;
    struct job *j, *next;
    for (j = c->queue; j; j = j->queue_next)
        count++;
    cleanup_free struct waiting *all = calloc(count + 1, sizeof(*all));
    cleanup_free struct plan_job **jobs = calloc(count + 1, sizeof(*jobs));
    if (!all || !jobs)
        return;
    for (j = c->queue; j; j = next) {
        next = j->queue_next;
        if (j->tried && !capacity_grew)
            continue;
        if (waiting_take(c, j, &all[n]) < 0)
            break;
        if (all[n].job.n_tasks == 0) {
            waiting_free(&all[n]);
            continue;
        }
        jobs[n] = &all[n].job;
        n++;
    }
    if (n > 0)
        run(c, all, jobs, n);
    for (size_t i = 0; i < n; i++)
        waiting_free(&all[i]);
}

int cluster_job_explain(struct cluster *c, struct job *j, struct plan_explanation *ret)
{
    cleanup_snapshot struct snapshot s = {0};
    struct waiting w;
    if (!j->queued)
        return -EALREADY;
    if (snapshot_take(c, &s) < 0 || waiting_take(c, j, &w) < 0)
        return -ENOMEM;
    int r = w.job.n_tasks ? plan_explain(s.nodes, s.n_nodes, &w.job, ret) : -EALREADY;
    waiting_free(&w);
    return r;
}
