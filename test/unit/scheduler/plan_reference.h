// SPDX-License-Identifier: Apache-2.0
// The plan again, as plainly as it can be said: every task looks at every node, and a job that does
// not fit is undone by going back to a copy of everything. What the real one must agree with.
#pragma once

#include "master/scheduler/images.h"
#include "master/scheduler/plan.h"

#include <stdlib.h>
#include <string.h>

#define REF_NODES 40
#define REF_TASKS 64
#define REF_WORDS 2

struct ref {
    struct plan_node nodes[REF_NODES];
    uint64_t ports[REF_NODES][REF_WORDS];
    int of_job[REF_NODES];
    size_t n;
};

static int ref_ports_free(const struct plan_ports *p)
{
    int n = 0;
    for (int i = 0; i < p->count; i++)
        n += !(p->taken[i / 64] >> (i % 64) & 1);
    return n;
}

static int64_t ref_cards(const struct plan_node *n)
{
    int64_t bits = 0;
    for (int i = 0; i < 64; i++)
        bits += n->gpus_free >> i & 1;
    return bits < n->free.gpu ? bits : n->free.gpu;
}

static bool ref_amount_fits(bool all, int64_t need, int64_t free, int64_t total)
{
    return all ? total > 0 && free >= total : need <= 0 || need <= free;
}

static bool ref_fits(const struct plan_node *n, const struct plan_demand *d)
{
    return !n->ineligible && (n->runtime & d->runtimes) && d->ports <= PLAN_MAX_PORTS &&
           ref_amount_fits(d->cpu_all, d->resources.cpu_milli, n->free.cpu_milli,
                           n->total.cpu_milli) &&
           ref_amount_fits(d->memory_all, d->resources.memory, n->free.memory, n->total.memory) &&
           ref_amount_fits(d->gpu_all, d->resources.gpu, ref_cards(n), n->total.gpu) &&
           ref_ports_free(&n->ports) >= d->ports;
}

static int64_t ref_metric(const struct plan_node *n, enum alloc_metric m)
{
    return m == METRIC_CPU ? n->free.cpu_milli : m == METRIC_MEMORY ? n->free.memory : ref_cards(n);
}

static int64_t ref_share(int64_t amount, int64_t most)
{
    return amount <= 0 ? 0 : (int64_t)((__int128)amount * (1 << 20) / (most > 1 ? most : 1));
}

static int64_t ref_most(const struct ref *r, bool memory)
{
    int64_t most = 1;
    for (size_t i = 0; i < r->n; i++) {
        int64_t v = memory ? r->nodes[i].total.memory : r->nodes[i].total.cpu_milli;
        most = v > most ? v : most;
    }
    return most;
}

// Of the nodes with as many cards of the same model: which part has some left.
static double ref_left(const struct ref *r, size_t node)
{
    double all = 0, open = 0;
    for (size_t i = 0; i < r->n; i++) {
        const struct plan_node *n = &r->nodes[i], *as = &r->nodes[node];
        if (n->total.gpu != as->total.gpu || (n->n_cards > 0) != (as->n_cards > 0) ||
            (n->n_cards && strcmp(n->cards[0].model, as->cards[0].model) != 0))
            continue;
        all++;
        open += !n->ineligible && ref_cards(n) > 0;
    }
    return open / all;
}

#define REF_PREFER(x, y)                                                                           \
    do {                                                                                           \
        if ((x) != (y))                                                                            \
            return (x) < (y);                                                                      \
    } while (0)

// Whether node a is preferred to node b.
static bool ref_prefers(const struct ref *r, const struct plan_job *j, const struct plan_demand *d,
                        size_t a, size_t b)
{
    bool nothing = d->resources.cpu_milli == 0 && d->resources.memory == 0 &&
                   d->resources.gpu == 0 && !d->cpu_all && !d->memory_all && !d->gpu_all;
    const struct plan_node *x = &r->nodes[a], *y = &r->nodes[b];
    int64_t cpu = ref_most(r, false), memory = ref_most(r, true);
    switch (j->alloc == ALLOC_BEST_FIT && nothing ? ALLOC_SPREAD : j->alloc) {
    case ALLOC_BALANCED:
        REF_PREFER(ref_metric(y, j->metric), ref_metric(x, j->metric));
        break;
    case ALLOC_COMPACTED:
        REF_PREFER(ref_metric(x, j->metric), ref_metric(y, j->metric));
        break;
    case ALLOC_SPREAD:
        if (j->alloc == ALLOC_SPREAD)
            REF_PREFER(r->of_job[a], r->of_job[b]);
        REF_PREFER(x->tasks, y->tasks);
        REF_PREFER(ref_metric(y, j->metric), ref_metric(x, j->metric));
        break;
    default:
        if (d->resources.gpu > 0 && !d->gpu_all)
            REF_PREFER(ref_left(r, b), ref_left(r, a));
        REF_PREFER(x->total.gpu > 0, y->total.gpu > 0);
        REF_PREFER(ref_cards(x), ref_cards(y));
        REF_PREFER(ref_share(x->free.cpu_milli, cpu) + ref_share(x->free.memory, memory),
                   ref_share(y->free.cpu_milli, cpu) + ref_share(y->free.memory, memory));
    }
    REF_PREFER(!plan_image_on(d->image, x->holder), !plan_image_on(d->image, y->holder));
    return strcmp(x->name, y->name) < 0;
}

static bool ref_names(const char *list, const char *name)
{
    size_t len = strlen(name);
    for (int i = 0; list && *list && i < PLAN_AVOID_MAX; i++) {
        if (strncmp(list, name, len) == 0 && (list[len] == '\n' || !list[len]))
            return true;
        const char *end = strchr(list, '\n');
        list = end ? end + 1 : NULL;
    }
    return false;
}

// Whether enough cpu and memory stays for the cards that stay.
static bool ref_spares(const struct plan_node *n, const struct plan_demand *d)
{
    int64_t take = d->gpu_all ? 0 : d->resources.gpu, left = ref_cards(n) - take;
    int64_t cpu = d->cpu_all ? 0 : d->resources.cpu_milli;
    int64_t memory = d->memory_all ? 0 : d->resources.memory;
    return take <= 0 || left <= 0 ||
           ((double)(n->free.cpu_milli - cpu) / (double)left * 2 >= (double)cpu / (double)take &&
            (double)(n->free.memory - memory) / (double)left * 2 >= (double)memory / (double)take);
}

static int ref_pick(const struct ref *r, const struct plan_job *j, const struct plan_demand *d,
                    bool may_avoid, bool spares)
{
    int best = -1;
    for (size_t i = 0; i < r->n; i++) {
        if (!ref_fits(&r->nodes[i], d) || (may_avoid && ref_names(d->avoid, r->nodes[i].name)) ||
            (spares && j->alloc == ALLOC_BEST_FIT && !ref_spares(&r->nodes[i], d)))
            continue;
        if (best < 0 || ref_prefers(r, j, d, i, (size_t)best))
            best = (int)i;
    }
    return best;
}

static void ref_take(struct ref *r, int node, struct plan_task *t)
{
    struct plan_node *n = &r->nodes[node];
    const struct plan_demand *d = &t->demand;
    t->node = node;
    t->granted.cpu_milli = d->cpu_all ? n->total.cpu_milli : d->resources.cpu_milli;
    t->granted.memory = d->memory_all ? n->total.memory : d->resources.memory;
    t->granted.gpu = d->gpu_all ? n->total.gpu : d->resources.gpu;
    n->free.cpu_milli -= t->granted.cpu_milli;
    n->free.memory -= t->granted.memory;
    n->free.gpu -= t->granted.gpu;
    n->tasks++;
    r->of_job[node]++;
    t->gpus = 0;
    for (int64_t i = 0, left = t->granted.gpu; i < 64 && left > 0; i++)
        if (n->gpus_free >> i & 1) {
            t->gpus |= UINT64_C(1) << i;
            left--;
        }
    n->gpus_free &= ~t->gpus;
    memset(t->port, 0, sizeof(t->port));
    for (int k = 0; k < d->ports; k++) {
        int i = n->ports.cursor % n->ports.count;
        while (n->ports.taken[i / 64] >> (i % 64) & 1)
            i = (i + 1) % n->ports.count;
        n->ports.taken[i / 64] |= UINT64_C(1) << (i % 64);
        t->port[k] = (uint16_t)(n->ports.first + i);
        n->ports.cursor = (uint16_t)((i + 1) % n->ports.count);
    }
}

static int64_t ref_size(const struct ref *r, const struct plan_job *j, const struct plan_demand *d)
{
    bool all = j->metric == METRIC_CPU      ? d->cpu_all
               : j->metric == METRIC_MEMORY ? d->memory_all
                                            : d->gpu_all;
    if (j->alloc == ALLOC_BALANCED || j->alloc == ALLOC_COMPACTED)
        return all                          ? INT64_MAX
               : j->metric == METRIC_CPU    ? d->resources.cpu_milli
               : j->metric == METRIC_MEMORY ? d->resources.memory
                                            : d->resources.gpu;
    int64_t huge = INT64_C(1) << 39;
    int64_t cpu = d->cpu_all ? huge : ref_share(d->resources.cpu_milli, ref_most(r, false));
    int64_t memory = d->memory_all ? huge : ref_share(d->resources.memory, ref_most(r, true));
    return (d->gpu_all ? 1000 : d->resources.gpu) * (INT64_C(1) << 40) +
           (cpu > memory ? cpu : memory);
}

static void ref_place(struct ref *r, struct plan_job *j)
{
    static struct ref before;
    bool done[REF_TASKS] = {false};
    memset(r->of_job, 0, sizeof(r->of_job));
    before = *r;
    j->placed = true;
    for (size_t k = 0; k < j->n_tasks; k++) {
        size_t next = SIZE_MAX;
        for (size_t i = 0; i < j->n_tasks; i++)
            if (!done[i] && (next == SIZE_MAX || ref_size(r, j, &j->tasks[i].demand) >
                                                     ref_size(r, j, &j->tasks[next].demand)))
                next = i;
        done[next] = true;
        int node = -1;
        for (int pass = 3; pass >= 0 && node < 0; pass--)
            node = ref_pick(r, j, &j->tasks[next].demand, pass & 2, pass & 1);
        if (node < 0) {
            *r = before;
            j->placed = false;
            return;
        }
        ref_take(r, node, &j->tasks[next]);
    }
}

static bool ref_before(const struct plan_job *a, const struct plan_job *b)
{
    REF_PREFER(b->priority, a->priority);
    REF_PREFER(a->order, b->order);
    return strcmp(a->id, b->id) < 0;
}

static void ref_run(struct ref *r, struct plan_job *jobs, size_t n)
{
    bool done[REF_TASKS] = {false};
    for (size_t k = 0; k < n; k++) {
        size_t next = SIZE_MAX;
        for (size_t i = 0; i < n; i++)
            if (!done[i] && (next == SIZE_MAX || ref_before(&jobs[i], &jobs[next])))
                next = i;
        done[next] = true;
        ref_place(r, &jobs[next]);
    }
}
