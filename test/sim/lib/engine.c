// SPDX-License-Identifier: Apache-2.0
// The run: jobs come, the queue is run, jobs end, until all are over.
#include "test/sim/lib/engine_internal.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TURN_TASKS 512 // of one job

struct engine *engine_new(const struct trace_node *nodes, size_t n_nodes,
                          const struct trace_job *jobs, size_t n_jobs)
{
    struct engine *e = calloc(1, sizeof(*e));
    if (!e)
        return NULL;
    *e = (struct engine){.from = nodes, .jobs_from = jobs, .n_nodes = n_nodes, .n_jobs = n_jobs};
    e->nodes = calloc(n_nodes + 1, sizeof(*e->nodes));
    e->cards = calloc(n_nodes + 1, sizeof(*e->cards));
    e->model = calloc(n_nodes + 1, sizeof(*e->model));
    e->fragments = calloc(n_nodes + 1, sizeof(*e->fragments));
    e->jobs = calloc(n_jobs + 1, sizeof(*e->jobs));
    e->running = calloc(n_jobs + 1, sizeof(struct engine_job *));
    e->start_order = calloc(n_jobs + 1, sizeof(*e->start_order));
    if (!e->nodes || !e->cards || !e->model || !e->fragments || !e->jobs || !e->running ||
        !e->start_order || engine_fill(e) < 0) {
        engine_free(e);
        return NULL;
    }
    return e;
}

void engine_free(struct engine *e)
{
    if (!e)
        return;
    free(e->nodes);
    free(e->cards);
    free(e->model);
    free(e->fragments);
    free(e->jobs);
    free(e->running);
    free(e->start_order);
    free(e->kinds);
    free(e->mix);
    free(e->tasks);
    free(e->list);
    free(e->turns_s);
    free(e);
}

// --- what runs, by end ---

static int64_t end_of(const struct engine_job *j)
{
    return j->started_ms + j->t->lasts_ms;
}

// What its owner would give as its time limit: how long it lasts, as the next power of two minutes.
static int64_t limit_of(const struct engine_job *j)
{
    int64_t limit = 60000;
    while (limit < j->t->lasts_ms)
        limit *= 2;
    return limit;
}

static void heap_add(struct engine *e, struct engine_job *j)
{
    size_t at = e->n_running++;
    for (; at > 0 && end_of(j) < end_of(e->running[(at - 1) / 2]); at = (at - 1) / 2)
        e->running[at] = e->running[(at - 1) / 2];
    e->running[at] = j;
}

static struct engine_job *heap_take(struct engine *e)
{
    struct engine_job *first = e->running[0], *last = e->running[--e->n_running];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < e->n_running; at = child) {
        if (child + 1 < e->n_running && end_of(e->running[child + 1]) < end_of(e->running[child]))
            child++;
        if (end_of(last) <= end_of(e->running[child]))
            break;
        e->running[at] = e->running[child];
    }
    e->running[at] = last;
    return first;
}

// --- what is measured as it happens ---

static double contention(const struct engine *e)
{
    double most = 1;
    const struct resources *d = &e->demanded, *t = &e->total;
    const double part[3] = {t->cpu_milli ? (double)d->cpu_milli / (double)t->cpu_milli : 0,
                            t->memory ? (double)d->memory / (double)t->memory : 0,
                            t->gpu ? (double)d->gpu / (double)t->gpu : 0};
    for (int i = 0; i < 3; i++)
        most = part[i] > most ? part[i] : most;
    return most;
}

static void advance(struct engine *e, int64_t to_ms)
{
    e->contended += contention(e) * (double)(to_ms - e->now_ms) / 1e3;
    metric_advance(&e->use, to_ms);
    e->now_ms = to_ms;
}

static void demand(struct engine *e, const struct engine_job *j, int sign)
{
    e->demanded.cpu_milli += sign * j->t->need.cpu_milli;
    e->demanded.memory += sign * j->t->need.memory;
    e->demanded.gpu += sign * j->t->need.gpu;
}

// What the task takes from its node, or gives back, is in the node already.
static void count(struct engine *e, const struct plan_task *t, int sign)
{
    size_t i = (size_t)t->node;
    double *now = e->use.now;
    now[USE_CPU] += (double)(sign * t->granted.cpu_milli);
    now[USE_MEMORY] += (double)(sign * t->granted.memory);
    now[USE_GPU] += (double)(sign * t->granted.gpu);
    now[USE_FREE_CARDS] -= (double)(sign * t->granted.gpu);
    now[USE_FRAGMENTS] -= e->fragments[i];
    e->fragments[i] = metric_fragments(&e->nodes[i].free, e->model[i], e->mix, e->n_kinds);
    now[USE_FRAGMENTS] += e->fragments[i];
}

static void hold(struct engine *e, const struct engine_job *j, int sign)
{
    for (size_t i = 0; i < j->n_tasks; i++) {
        if (plan_queue_hold(e->queue, j->t->user, &j->tasks[i].granted, sign, i ? 0 : sign,
                            e->now_ms) < 0)
            abort();
        count(e, &j->tasks[i], sign);
    }
}

// --- what the queue asks and tells ---

static bool more(void *userdata)
{
    (void)userdata;
    return true;
}

static int running(const struct plan_running **ret, size_t *ret_n, void *userdata)
{
    struct engine *e = userdata;
    size_t n = 0;
    for (size_t i = 0; i < e->n_running; i++)
        n += e->running[i]->n_tasks;
    if (n > e->list_room) {
        struct plan_running *list = realloc(e->list, 2 * n * sizeof(*list));
        if (!list)
            return -ENOMEM;
        e->list = list;
        e->list_room = 2 * n;
    }
    n = 0;
    for (size_t i = 0; i < e->n_running; i++)
        for (size_t k = 0; k < e->running[i]->n_tasks; k++) {
            const struct plan_task *t = &e->running[i]->tasks[k];
            const struct engine_job *j = e->running[i];
            int64_t end = e->policy->limits ? j->started_ms + limit_of(j) : PLAN_NEVER;
            e->list[n++] = (struct plan_running){
                .node = (size_t)t->node, .granted = t->granted, .gpus = t->gpus, .end_ms = end};
        }
    *ret = e->list;
    *ret_n = n;
    return 0;
}

static void placed(struct plan_entry *entry, const struct plan_task *tasks, size_t n,
                   void *userdata)
{
    struct engine *e = userdata;
    struct engine_job *j =
        (struct engine_job *)((char *)entry - offsetof(struct engine_job, entry));
    memcpy(j->tasks, tasks, n * sizeof(*tasks));
    j->started_ms = e->now_ms;
    e->start_order[e->starts++] = (uint32_t)(j - e->jobs);
    hold(e, j, 1);
    heap_add(e, j);
}

// --- events ---

static void end_job(struct engine *e, struct engine_job *j)
{
    for (size_t i = 0; i < j->n_tasks; i++) {
        const struct plan_task *t = &j->tasks[i];
        struct plan_node *n = &e->nodes[t->node];
        n->free.cpu_milli += t->granted.cpu_milli;
        n->free.memory += t->granted.memory;
        n->free.gpu += t->granted.gpu;
        n->gpus_free |= t->gpus;
        n->tasks--;
        (void)plan_index_touch(e->index, (size_t)t->node);
    }
    hold(e, j, -1);
    demand(e, j, -1);
    double there = (double)(e->now_ms - j->t->arrives_ms) / 1e3;
    j->rho = metric_rho(there, (double)j->t->lasts_ms / 1e3, (e->contended - j->contended) / there);
    e->over++;
    plan_queue_grew(e->queue);
}

static int submit(struct engine *e, struct engine_job *j)
{
    struct plan_demand demands[TURN_TASKS];
    struct plan_shape shape = {.user = j->t->user,
                               .priority = 50,
                               .alloc = e->policy->mode,
                               .metric = METRIC_GPU,
                               .bound_ms = e->policy->limits ? limit_of(j) : 0,
                               .demands = demands,
                               .n_demands = j->n_tasks};
    for (uint32_t i = 0; i < j->n_tasks; i++) {
        const struct engine_kind *k = &e->kinds[i + 1 < j->n_tasks ? j->kind : j->last_kind];
        demands[i] = (struct plan_demand){.resources = k->m.need,
                                          .runtimes = PLAN_RUNTIME_ANY,
                                          .where = *k->where ? k->where : NULL};
    }
    return plan_queue_add(e->queue, &j->entry, &shape);
}

static void arrive(struct engine *e)
{
    struct engine_job *j = &e->jobs[e->arrived++];
    j->contended = e->contended;
    if (!j->possible || j->n_tasks > TURN_TASKS)
        return;
    demand(e, j, 1);
    if (!e->policy->strict && submit(e, j) < 0)
        abort();
}

static double seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int run_queue(struct engine *e)
{
    double from = seconds();
    int r = plan_queue_run(e->queue, e->index,
                           &(struct plan_queue_run){.more = more,
                                                    .running = running,
                                                    .placed = placed,
                                                    .userdata = e,
                                                    .now_ms = e->now_ms});
    if (r < 0)
        return r;
    if (e->n_turns == e->turns_room) {
        size_t room = e->turns_room ? 2 * e->turns_room : 1024;
        double *turns = realloc(e->turns_s, room * sizeof(*turns));
        if (!turns)
            return -ENOMEM;
        e->turns_s = turns;
        e->turns_room = room;
    }
    e->turns_s[e->n_turns++] = seconds() - from;
    return 0;
}

static void find_oldest(struct engine *e)
{
    while (e->oldest < e->arrived &&
           (e->jobs[e->oldest].started_ms >= 0 || !e->jobs[e->oldest].possible))
        e->oldest++;
}

// Where nobody passes, only the oldest is in the queue.
static int turn_strict(struct engine *e)
{
    for (find_oldest(e); e->oldest < e->arrived; find_oldest(e)) {
        struct engine_job *j = &e->jobs[e->oldest];
        if (plan_queue_length(e->queue) == 0 && submit(e, j) < 0)
            return -ENOMEM;
        int r = run_queue(e);
        if (r < 0 || j->started_ms < 0)
            return r;
    }
    return 0;
}

static int turn(struct engine *e)
{
    size_t first = e->starts;
    int r = e->policy->strict ? turn_strict(e) : run_queue(e);
    find_oldest(e);
    for (size_t i = first; i < e->starts; i++)
        e->backfilled += e->start_order[i] > e->oldest;
    return r;
}

static int begin(struct engine *e, const struct engine_policy *p)
{
    e->policy = p;
    e->n_running = e->oldest = e->arrived = e->over = e->starts = e->backfilled = e->n_turns = 0;
    e->demanded = (struct resources){0};
    e->contended = 0;
    e->now_ms = e->jobs_from[0].arrives_ms;
    e->use =
        (struct metric_use){.at_ms = e->now_ms, .until_ms = e->jobs_from[e->n_jobs - 1].arrives_ms};
    for (size_t i = 0; i < e->n_nodes; i++) {
        const struct trace_node *t = &e->from[i];
        e->nodes[i] = (struct plan_node){.name = t->name,
                                         .runtime = PLAN_RUNTIME_ANY,
                                         .total = t->total,
                                         .free = t->total,
                                         .gpus_free = (UINT64_C(1) << t->total.gpu) - 1,
                                         .cards = e->cards[i],
                                         .n_cards = *t->model ? (size_t)t->total.gpu : 0};
        e->fragments[i] = metric_fragments(&t->total, e->model[i], e->mix, e->n_kinds);
        e->use.now[USE_FRAGMENTS] += e->fragments[i];
        e->use.now[USE_FREE_CARDS] += (double)t->total.gpu;
    }
    for (size_t i = 0; i < e->n_jobs; i++) {
        e->jobs[i].entry = (struct plan_entry){.id = e->jobs[i].id, .order = (int64_t)i + 1};
        e->jobs[i].started_ms = -1;
    }
    e->queue = plan_queue_new();
    int r = plan_index_new(e->nodes, e->n_nodes, &e->index);
    if (!e->queue || r < 0)
        return -ENOMEM;
    plan_queue_set_policy(e->queue, &p->queue);
    return 0;
}

int engine_play(struct engine *e, const struct engine_policy *p,
                void (*progress)(size_t over, size_t all), struct engine_result *ret)
{
    int r = begin(e, p);
    while (r == 0 && (e->arrived < e->n_jobs || e->n_running)) {
        int64_t ends = e->n_running ? end_of(e->running[0]) : INT64_MAX;
        int64_t arrives = e->arrived < e->n_jobs ? e->jobs_from[e->arrived].arrives_ms : INT64_MAX;
        advance(e, arrives < ends ? arrives : ends);
        while (e->n_running && end_of(e->running[0]) <= e->now_ms)
            end_job(e, heap_take(e));
        while (e->arrived < e->n_jobs && e->jobs_from[e->arrived].arrives_ms <= e->now_ms)
            arrive(e);
        r = turn(e);
        if (progress)
            progress(e->over, e->n_jobs);
    }
    if (r == 0)
        r = engine_report(e, ret);
    plan_queue_free(e->queue);
    plan_index_free(e->index);
    e->queue = NULL;
    e->index = NULL;
    return r;
}
