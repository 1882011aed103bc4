// SPDX-License-Identifier: Apache-2.0
// Whether a task fits on a node, and taking what it needs there. "all" of a resource means the
// node's total, wholly free; a node that has none of it does not qualify, so that `gpu: all` never
// lands where there is no card.
#include "master/scheduler/plan_internal.h"

#include <string.h>

static int64_t at_least_0(int64_t v)
{
    return v > 0 ? v : 0;
}

struct plan_need plan_need_of(const struct plan_demand *d)
{
    struct plan_need n = {
        .cpu = d->cpu_all ? 0 : at_least_0(d->resources.cpu_milli),
        .memory = d->memory_all ? 0 : at_least_0(d->resources.memory),
        .ports = d->ports > 0 ? d->ports : 0,
        .whole = (d->cpu_all ? WHOLE_CPU : 0u) | (d->memory_all ? WHOLE_MEMORY : 0u) |
                 (d->gpu_all ? WHOLE_GPU : 0u) | (d->ruled ? 0u : NODE_SHARED) | NODE_ROOM,
        .runtimes = (unsigned)d->runtimes & PLAN_RUNTIME_ANY,
        .most = {INT64_MAX, INT64_MAX, INT64_MAX},
    };
    int64_t gpus = d->gpu_all ? 0 : at_least_0(d->resources.gpu);
    n.gpus = gpus > PLAN_MAX_GPUS ? PLAN_MAX_GPUS + 1 : (int)gpus;
    if (n.gpus > PLAN_MAX_GPUS || n.ports > PLAN_MAX_PORTS)
        n.runtimes = 0;
    return n;
}

// Cards that can be given: counted by number and by index.
static int gpus_free(const struct plan_node *n)
{
    if (n->free.gpu <= 0 || !n->gpus_free)
        return 0;
    int by_index = __builtin_popcountll(n->gpus_free);
    return n->free.gpu < by_index ? (int)n->free.gpu : by_index;
}

struct plan_view plan_view_of(const struct plan_node *n)
{
    if (n->ineligible)
        return (struct plan_view){0};
    struct plan_view v = {
        .cpu = n->free.cpu_milli,
        .memory = n->free.memory,
        .gpus = (uint16_t)gpus_free(n),
        .ports = (uint16_t)plan_ports_free(&n->ports, PLAN_MAX_PORTS),
        .flags = n->runtime & PLAN_RUNTIME_ANY,
    };
    if (n->max_tasks == 0 || n->tasks < n->max_tasks)
        v.flags |= NODE_ROOM;
    if (n->exclusive == 0)
        v.flags |= NODE_SHARED;
    if (n->total.cpu_milli > 0 && v.cpu >= n->total.cpu_milli)
        v.flags |= WHOLE_CPU;
    if (n->total.memory > 0 && v.memory >= n->total.memory)
        v.flags |= WHOLE_MEMORY;
    if (n->total.gpu > 0 && v.gpus >= n->total.gpu)
        v.flags |= WHOLE_GPU;
    return v;
}

bool plan_need_within(const struct plan_need *easier, const struct plan_need *harder)
{
    return easier->cpu <= harder->cpu && easier->memory <= harder->memory &&
           easier->gpus <= harder->gpus && easier->ports <= harder->ports &&
           (!easier->where || easier->where == harder->where) &&
           !(easier->whole & ~harder->whole) && !(harder->runtimes & ~easier->runtimes) &&
           easier->most.cpu_milli >= harder->most.cpu_milli &&
           easier->most.memory >= harder->most.memory && easier->most.gpu >= harder->most.gpu;
}

void plan_most_take(struct resources *most, const struct plan_task *t)
{
    most->cpu_milli -= t->demand.cpu_all ? t->granted.cpu_milli : 0;
    most->memory -= t->demand.memory_all ? t->granted.memory : 0;
    most->gpu -= t->demand.gpu_all ? t->granted.gpu : 0;
}

static uint64_t lowest(uint64_t bits, int64_t n)
{
    uint64_t taken = 0;
    for (; n > 0 && bits; n--) {
        taken |= bits & -bits;
        bits &= bits - 1;
    }
    return taken;
}

void plan_grant(struct plan_node *n, struct plan_task *t, uint64_t cards)
{
    const struct plan_demand *d = &t->demand;
    struct plan_need need = plan_need_of(d);
    t->granted = (struct resources){
        .cpu_milli = d->cpu_all ? n->total.cpu_milli : need.cpu,
        .memory = d->memory_all ? n->total.memory : need.memory,
        .gpu = d->gpu_all ? n->total.gpu : need.gpus,
    };
    n->free.cpu_milli -= t->granted.cpu_milli;
    n->free.memory -= t->granted.memory;
    n->free.gpu -= t->granted.gpu;
    t->gpus = lowest(n->gpus_free & cards, t->granted.gpu);
    n->gpus_free &= ~t->gpus;
    memset(t->port, 0, sizeof(t->port));
    plan_ports_take(&n->ports, need.ports, t->port);
    n->tasks++;
    n->exclusive += d->exclusive;
}

void plan_revoke(struct plan_node *n, const struct plan_task *t, uint16_t cursor)
{
    n->free.cpu_milli += t->granted.cpu_milli;
    n->free.memory += t->granted.memory;
    n->free.gpu += t->granted.gpu;
    n->gpus_free |= t->gpus;
    plan_ports_give(&n->ports, plan_need_of(&t->demand).ports, t->port);
    n->ports.cursor = cursor;
    n->tasks--;
    n->exclusive -= t->demand.exclusive;
}
