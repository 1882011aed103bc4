// SPDX-License-Identifier: Apache-2.0
// single-metric-balanced (worst fit): the node with the most of the metric free.
#include "master/scheduler/plan_internal.h"

struct plan_key place_balanced_key(const struct plan_index *x, size_t node, enum alloc_metric m)
{
    return (struct plan_key){.lo = -plan_metric_free(&x->views[node], m)};
}
