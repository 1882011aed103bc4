// SPDX-License-Identifier: Apache-2.0
// In which order the tasks of a job look for a place: the largest first, since small ones find
// gaps. Largest by the metric in the single-metric modes; else by cards (the scarcest), then by the
// largest share of any node that the task takes. "all" is larger than any number.
#include "master/scheduler/plan_internal.h"

#include <stdlib.h>

#define SHARE_BITS 40
#define SHARE_MAX ((INT64_C(1) << SHARE_BITS) - 1)
#define ALL_CARDS (PLAN_MAX_GPUS + 2)

int64_t plan_share(int64_t amount, int64_t most)
{
    return amount <= 0 ? 0 : (int64_t)((__int128)amount * PLAN_SHARE_ONE / most);
}

static int64_t size_by_metric(const struct plan_demand *d, enum alloc_metric m)
{
    switch (m) {
    case METRIC_MEMORY:
        return d->memory_all ? INT64_MAX : d->resources.memory;
    case METRIC_GPU:
        return d->gpu_all ? INT64_MAX : d->resources.gpu;
    default:
        return d->cpu_all ? INT64_MAX : d->resources.cpu_milli;
    }
}

static int64_t size_by_share(const struct plan_index *x, const struct plan_demand *d)
{
    struct plan_need n = plan_need_of(d);
    int64_t cpu = d->cpu_all ? SHARE_MAX : plan_share(n.cpu, x->most_cpu);
    int64_t memory = d->memory_all ? SHARE_MAX : plan_share(n.memory, x->most_memory);
    int64_t share = cpu > memory ? cpu : memory;
    int64_t cards = d->gpu_all ? ALL_CARDS : n.gpus;
    return cards << SHARE_BITS | (share < SHARE_MAX ? share : SHARE_MAX);
}

static int compare(const void *a, const void *b)
{
    const struct plan_order *x = a, *y = b;
    if (x->size != y->size)
        return x->size > y->size ? -1 : 1;
    return x->task < y->task ? -1 : x->task > y->task;
}

void plan_order_tasks(const struct plan_index *x, const struct plan_job *job,
                      struct plan_order *ret)
{
    bool by_metric = job->alloc == ALLOC_BALANCED || job->alloc == ALLOC_COMPACTED;
    bool sorted = true;
    for (size_t i = 0; i < job->n_tasks; i++) {
        const struct plan_demand *d = &job->tasks[i].demand;
        ret[i].task = (uint32_t)i;
        ret[i].size = by_metric ? size_by_metric(d, job->metric) : size_by_share(x, d);
        sorted = sorted && (i == 0 || ret[i - 1].size >= ret[i].size);
    }
    if (!sorted)
        qsort(ret, job->n_tasks, sizeof(*ret), compare);
}
