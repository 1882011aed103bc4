// SPDX-License-Identifier: Apache-2.0
// single-metric-compacted (best fit): the node with the least of the metric free that still fits.
#include "master/scheduler/plan_internal.h"

struct plan_key place_compacted_key(const struct plan_index *x, size_t node, enum alloc_metric m)
{
    return (struct plan_key){.lo = plan_metric_free(&x->views[node], m)};
}
