// SPDX-License-Identifier: Apache-2.0
// The workload: kinds of tasks, and in what order they arrive.
#include "test/sim/lib/pack.h"

#include "test/sim/lib/pack_policy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool suits(const char *models, const char *model)
{
    size_t len = strlen(model);
    const char *at = models;
    while (len && (at = strstr(at, model))) {
        if ((at == models || at[-1] == '|') && (at[len] == '|' || !at[len]))
            return true;
        at += len;
    }
    return false;
}

static struct pack_kind kind_as(const struct trace_job *j, bool shared)
{
    bool part = shared && j->need.gpu == 1 && j->milli < WHOLE;
    return (struct pack_kind){.need = j->need, .milli = part ? j->milli : WHOLE, .as = j};
}

static bool same(const struct pack_kind *a, const struct pack_kind *b)
{
    return a->need.cpu_milli == b->need.cpu_milli && a->need.memory == b->need.memory &&
           a->need.gpu == b->need.gpu && a->milli == b->milli &&
           strcmp(a->as->models, b->as->models) == 0;
}

int64_t pack_asks(const struct pack_kind *k)
{
    return k->need.gpu * k->milli;
}

static void fill_nodes(struct pack *p)
{
    const char *models[64];
    unsigned n_models = 0;
    for (size_t i = 0; i < p->n_nodes; i++) {
        unsigned m = 0;
        while (m < n_models && strcmp(models[m], p->from[i].model) != 0)
            m++;
        if (m == n_models && n_models < 63)
            models[n_models++] = p->from[i].model;
        p->nodes[i].model = m;
        p->all_milli += p->from[i].total.gpu * WHOLE;
    }
    for (size_t k = 0; k < p->n_kinds; k++) {
        struct pack_kind *kind = &p->kinds[k];
        bool any = !*kind->as->models || kind->need.gpu == 0;
        kind->models = any ? UINT64_MAX : 0;
        for (unsigned m = 0; m < n_models; m++)
            kind->models |= (uint64_t)suits(kind->as->models, models[m]) << m;
    }
}

static void fill_kinds(struct pack *p, const struct trace_job *jobs)
{
    for (size_t i = 0; i < p->n_tasks; i++) {
        struct pack_kind kind = kind_as(&jobs[i], p->shared);
        uint32_t k = 0;
        while (k < p->n_kinds && !same(&p->kinds[k], &kind))
            k++;
        if (k == p->n_kinds)
            p->kinds[p->n_kinds++] = kind;
        p->kinds[k].part += 1.0 / (double)p->n_tasks;
        p->tasks[i] = k;
    }
}

struct pack *pack_new(const struct trace_node *nodes, size_t n_nodes, const struct trace_job *jobs,
                      size_t n_jobs, bool shared)
{
    struct pack *p = calloc(1, sizeof(*p));
    if (!p)
        return NULL;
    *p = (struct pack){.from = nodes, .n_nodes = n_nodes, .n_tasks = n_jobs, .shared = shared};
    p->nodes = calloc(n_nodes + 1, sizeof(*p->nodes));
    p->kinds = calloc(n_jobs + 1, sizeof(*p->kinds));
    p->tasks = calloc(n_jobs + 1, sizeof(*p->tasks));
    if (p->nodes && p->kinds && p->tasks) {
        fill_kinds(p, jobs);
        fill_nodes(p);
        p->seen = calloc(p->n_kinds * n_nodes + 1, sizeof(*p->seen));
    }
    if (!p->seen) {
        pack_free(p);
        return NULL;
    }
    return p;
}

void pack_free(struct pack *p)
{
    if (!p)
        return;
    free(p->nodes);
    free(p->kinds);
    free(p->tasks);
    free(p->order);
    free(p->seen);
    free(p);
}

static uint64_t state;
static size_t pick(size_t n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return n ? (size_t)(state >> 33) % n : 0;
}

static void empty(struct pack *p)
{
    for (size_t i = 0; i < p->n_nodes; i++) {
        const struct resources *total = &p->from[i].total;
        struct pack_node *n = &p->nodes[i];
        n->cpu = total->cpu_milli;
        n->memory = total->memory;
        n->n_cards = (int)total->gpu;
        for (int c = 0; c < n->n_cards; c++)
            n->milli[c] = WHOLE;
        n->version = 1;
        n->fragments = pack_fragments(n, p);
    }
    memset(p->seen, 0, p->n_kinds * p->n_nodes * sizeof(*p->seen));
}

// Tasks at random from the whole trace until the sum is `target`.
static int draw_more(struct pack *p, double asked, double target, size_t room)
{
    while (asked < target) {
        if (p->n_order == room) {
            uint32_t *more = realloc(p->order, 2 * room * sizeof(*more));
            if (!more)
                return -ENOMEM;
            p->order = more;
            room *= 2;
        }
        uint32_t kind = p->tasks[pick(p->n_tasks)];
        p->order[p->n_order++] = kind;
        asked += (double)pack_asks(&p->kinds[kind]);
    }
    return 0;
}

int pack_draw(struct pack *p, uint64_t seed)
{
    double asked = 0, target = PACK_OVERFILL * (double)p->all_milli;
    free(p->order);
    p->order = calloc(p->n_tasks + 1, sizeof(*p->order));
    if (!p->order)
        return -ENOMEM;
    state = seed;
    (void)pick(1);
    memcpy(p->order, p->tasks, p->n_tasks * sizeof(*p->order));
    p->n_order = p->n_tasks;
    for (size_t i = p->n_order; i > 1; i--) { // Fisher and Yates
        size_t k = pick(i);
        uint32_t kind = p->order[k];
        p->order[k] = p->order[i - 1];
        p->order[i - 1] = kind;
    }
    for (size_t i = 0; i < p->n_order; i++)
        asked += (double)pack_asks(&p->kinds[p->order[i]]);
    if (asked <= 0 || target <= 0)
        return -EINVAL;    // more of the same would never be enough
    while (asked > target) // a trace of more: without some of them
        asked -= (double)pack_asks(&p->kinds[p->order[--p->n_order]]);
    empty(p);
    return draw_more(p, asked, target, p->n_tasks + 1);
}
