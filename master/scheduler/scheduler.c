// SPDX-License-Identifier: Apache-2.0
// Keeps the plan's nodes and queue in step with the cluster, lets the plan decide, and applies the
// placements as cluster verbs.
#include "master/scheduler/scheduler.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "master/cluster/array.h"
#include "master/cluster/cluster_internal.h"
#include "master/scheduler/scheduler_internal.h"
#include "master/scheduler/scheduler_keepers.h"
#include "master/scheduler/scheduler_rules.h"
#include "proto/image_name.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define BUDGET_MS 10

struct scheduler *scheduler_new(const struct cluster_options *o)
{
    struct scheduler *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->kept.moved = true;
    s->kept.max_tasks = (int)o->scheduling.node_tasks;
    s->queue = plan_queue_new();
    if (!s->queue) {
        free(s);
        return NULL;
    }
    plan_queue_set_policy(
        s->queue, &(struct plan_policy){o->scheduling.half_life_ms, o->scheduling.hold_after_ms > 0,
                                        o->scheduling.hold_after_ms, PLAN_OVERTAKES,
                                        o->scheduling.parallel_level});
    return s;
}

void scheduler_free(struct scheduler *s)
{
    if (!s)
        return;
    keepers_free(s->kept_off);
    kept_free(&s->kept);
    plan_queue_free(s->queue);
    free(s->running);
    free(s->peers);
    free(s->victims);
    free(s->victim_tasks);
    free(s);
}

void scheduler_nodes_moved(struct cluster *c)
{
    c->scheduler->kept.moved = true;
}

void scheduler_node_stale(struct cluster *c, struct node *n)
{
    kept_stale(&c->scheduler->kept, n);
}

void scheduler_await(struct cluster *c, bool awaited)
{
    if (plan_queue_await(c->scheduler->queue, awaited))
        want_schedule(c);
}

void scheduler_job_stale(struct cluster *c, struct job *j)
{
    if (j->plan_stale || j->deleted)
        return;
    j->plan_stale = true;
    DL_APPEND2(c->scheduler->stale, j, stale_prev, stale_next);
}

static void stale_remove(struct scheduler *s, struct job *j)
{
    if (j->plan_stale)
        DL_DELETE2(s->stale, j, stale_prev, stale_next);
    j->plan_stale = false;
}

void scheduler_job_gone(struct cluster *c, struct job *j)
{
    stale_remove(c->scheduler, j);
    keepers_withdraw(c, j);
    plan_queue_remove(c->scheduler->queue, &j->entry);
}

void scheduler_task_held(struct cluster *c, struct task *t, int sign)
{
    struct job *j = t->job;
    bool was = j->n_held > 0;
    j->n_held += sign;
    bool is = j->n_held > 0;
    if (plan_queue_hold(c->scheduler->queue, j->user, &t->granted, sign, is - was,
                        c->commit ? clock_real_ms() : 0) < 0)
        log_error("scheduler", "out of memory: what %s holds is counted wrongly", j->user);
    if (is == was)
        return;
    scheduler_preempt_held(c, j);
    scheduler_job_stale(c, j);
}

// --- what waits ---

static void fill_demand(const struct cluster *c, const struct task *t, struct plan_demand *d)
{
    const struct job_component *k = task_component(t);
    *d = (struct plan_demand){.resources = component_resources(c, k)};
    d->cpu_all = k->cpu_all;
    d->memory_all = k->memory_all;
    d->gpu_all = k->gpu_all;
    d->runtimes = t->job->spec->mode == JOB_MODE_PROCESS || !k->image ? PLAN_RUNTIME_PROCESS
                                                                      : PLAN_RUNTIME_ANY;
    d->ports = k->ports + (t->index == 0 ? 1 : 0);
    d->where = k->where;
    d->avoid = t->attempt > 0 ? t->job->avoid : NULL;
    d->ruled = t->job->rules != NULL;
    d->exclusive = task_exclusive(t);
    d->group = (uint16_t)t->component;
    d->gang = k->gang;
}

// Waits for a place now (not in backoff).
static bool task_waits(const struct task *t)
{
    return t->state == TASK_PENDING && !t->in_backoff;
}

// *ret: one demand per waiting task, malloc'd.
static int demands_of(const struct cluster *c, const struct job *j, struct plan_demand **ret,
                      size_t *ret_n)
{
    struct plan_demand *d = calloc((size_t)j->totals[TASK_PENDING] + 1, sizeof(*d));
    size_t n = 0;
    if (!d)
        return -ENOMEM;
    for (int i = 0; i < j->n_tasks; i++)
        if (task_waits(&j->tasks[i]))
            fill_demand(c, &j->tasks[i], &d[n++]);
    *ret = d;
    *ret_n = n;
    return 0;
}

// Within which time after its start the job's waiting tasks have ended; 0 = not known.
static int64_t bound_of(const struct cluster *c, const struct job *j)
{
    int64_t most = 0;
    for (size_t k = 0; k < j->spec->n_components; k++) {
        int64_t bound = scheduler_bound(c, &j->spec->components[k]);
        if (j->counts[k][TASK_PENDING] == 0)
            continue;
        if (bound == 0)
            return 0;
        most = bound > most ? bound : most;
    }
    return most;
}

int scheduler_shape(const struct cluster *c, const struct job *j, struct plan_shape *ret,
                    struct plan_demand **ret_demands)
{
    *ret = (struct plan_shape){.user = j->user,
                               .priority = j->spec->priority,
                               .alloc = j->spec->alloc,
                               .metric = j->spec->metric,
                               .started = j->n_held > 0,
                               .bound_ms = bound_of(c, j)};
    int r = demands_of(c, j, ret_demands, &ret->n_demands);
    ret->demands = *ret_demands;
    return r;
}

static int requeue(struct cluster *c, struct job *j)
{
    struct plan_queue *q = c->scheduler->queue;
    cleanup_free struct plan_demand *demands = NULL;
    struct plan_shape shape = {0};
    struct plan_standing standing = plan_queue_standing(q, &j->entry);
    plan_queue_remove(q, &j->entry);
    int r = keepers_announce(c, j);
    if (r < 0 || !job_admissible(j))
        return r;
    r = rules_make(c, j);
    if (r == 0)
        r = scheduler_shape(c, j, &shape, &demands);
    if (r < 0 || shape.n_demands == 0)
        return r;
    j->entry.id = j->id;
    j->entry.name = j->array ? j->array->name : j->name;
    j->entry.order = j->order;
    j->entry.rules = rules_of(j);
    r = plan_queue_add(q, &j->entry, &shape);
    if (r == 0)
        plan_queue_stand(q, &j->entry, &standing);
    return r;
}

// Brings nodes and queue up to date.
int scheduler_sync(struct cluster *c)
{
    struct scheduler *s = c->scheduler;
    struct kept_change change;
    int r = kept_refresh(&s->kept, c->nodes, &change);
    if (r < 0)
        return r;
    if (change.grew)
        plan_queue_grew(s->queue);
    if (change.shaken)
        plan_queue_shaken(s->queue, s->preempting > 0);
    while (s->stale) {
        struct job *j = s->stale;
        r = requeue(c, j);
        if (r < 0)
            return r;
        stale_remove(s, j);
    }
    return 0;
}

// --- the run ---

static bool more(void *userdata)
{
    const struct turn *t = userdata;
    return clock_boot_ms() < t->until_boot_ms;
}

// An array's next element waits from now on, in this run already.
static void next_element(struct cluster *c, const struct job *placed_one)
{
    struct job *next = placed_one->array ? placed_one->array->elements->next : NULL;
    if (!next || !next->plan_stale)
        return;
    stale_remove(c->scheduler, next);
    if (requeue(c, next) < 0)
        scheduler_job_stale(c, next);
}

void scheduler_images(const struct cluster *c, const struct job *j, struct plan_task *tasks,
                      size_t n)
{
    char name[IMAGE_NAME_BYTES];
    const struct plan_image *image = NULL;
    size_t at = 0;
    int component = -1;
    for (int i = 0; c->images.by_name && i < j->n_tasks && at < n; i++) {
        const struct task *t = &j->tasks[i];
        if (!task_waits(t))
            continue;
        if (t->component != component) {
            const char *wanted = task_component(t)->image;
            component = t->component;
            image_name(wanted ? wanted : "", name, sizeof(name));
            image = wanted ? plan_images_find(&c->images, name) : NULL;
        }
        tasks[at++].demand.image = image;
    }
}

static void images(const struct plan_entry *e, struct plan_task *tasks, size_t n, void *userdata)
{
    const struct turn *t = userdata;
    scheduler_images(t->c, container_of(e, struct job, entry), tasks, n);
}

static int peers(const struct plan_entry *e, const struct plan_peer **ret, size_t *ret_n,
                 void *userdata)
{
    const struct turn *t = userdata;
    return rules_peers(t->c, container_of(e, struct job, entry), ret, ret_n);
}

static void placed(struct plan_entry *e, const struct plan_task *tasks, size_t n, void *userdata)
{
    struct cluster *c = ((struct turn *)userdata)->c;
    struct kept *k = &c->scheduler->kept;
    struct job *j = container_of(e, struct job, entry);
    size_t at = 0;
    for (int i = 0; i < j->n_tasks && at < n; i++) {
        if (!task_waits(&j->tasks[i]))
            continue;
        const struct plan_task *p = &tasks[at++];
        struct node *node = k->node_of[p->node];
        bool probe = node_aside_probe(node);
        node->port_cursor = k->nodes[p->node].ports.cursor;
        task_place(c, &j->tasks[i], node, &p->granted, p->gpus, p->port, p->demand.ports);
        kept_stale(k, node);
        if (probe)
            kept_close(k, node);
    }
    scheduler_preempt_over(c, j);
    job_refresh(c, j);
    next_element(c, j);
}

bool scheduler_run(struct cluster *c)
{
    struct scheduler *s = c->scheduler;
    struct turn turn = {c, clock_boot_ms() + BUDGET_MS};
    if (!s->stale && plan_queue_length(s->queue) == 0)
        return false; // nothing waits: the nodes are brought up to date when something does
    int r = scheduler_sync(c);
    if (r == 0 && plan_queue_due(s->queue))
        r = plan_queue_run(s->queue, s->kept.index,
                           &(struct plan_queue_run){.more = more,
                                                    .running = scheduler_running,
                                                    .peers = peers,
                                                    .images = images,
                                                    .victims = scheduler_victims,
                                                    .preempt = scheduler_preempt,
                                                    .placed = placed,
                                                    .userdata = &turn,
                                                    .now_ms = clock_real_ms()});
    if (r < 0)
        log_error("scheduler", "out of memory: this turn places nothing more");
    return r > 0;
}

bool job_tried(const struct job *j)
{
    return j->entry.lane && plan_queue_wait(&j->entry) != PLAN_WAIT_NEW;
}
