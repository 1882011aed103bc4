// SPDX-License-Identifier: Apache-2.0
// spread: the node with the fewest tasks of this job (of those placed in this run), then with the
// fewest tasks at all, then with the most of the metric free (cpu unless the job says otherwise).
#include "master/scheduler/plan_internal.h"

struct plan_key place_spread_key(const struct plan_index *x, size_t node, enum alloc_metric m)
{
    int tasks = x->nodes[node].tasks;
    return (struct plan_key){
        .hi = (uint64_t)x->job_tasks[node] << 32 | (uint32_t)(tasks > 0 ? tasks : 0),
        .lo = -plan_metric_free(&x->views[node], m),
    };
}
