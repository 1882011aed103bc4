// SPDX-License-Identifier: Apache-2.0
// best-fit (the default): fills nodes up, so that whole ones stay free for what needs them whole.
// Order of preference:
//  1. nodes without cards: a task that needs none stays off machines with cards while it can;
//  2. the fewest free cards: partly used machines first, whole ones are kept for jobs of many
//     cards;
//  3. the tightest fit in cpu and memory: the least sum of what is free, each as a share of the
//     largest node. What the task takes is the same everywhere, so this is also the least sum of
//     what would remain: the L1 form of the norm-based greedy of Panigrahy, Talwar, Uyeda and
//     Wieder, "Heuristics for Vector Bin Packing" (2011), with bins chosen for the item.
// The key does not depend on the task, which is what lets one ordered tree serve all of them.
//
// Before all of these, a task with cards goes where the cards that it leaves keep half as much cpu
// and memory each as it takes for one (plan_spares), if there is such a node: cards without cpu
// beside them are of use to nobody. And among such nodes, to the kind that has most left (kind.h).
// Both have the aim of fragmentation gradient descent (Weng et al., "Beware of Fragmentation",
// USENIX ATC 2023), asked of the task and of what is free instead of a sample of all tasks, so that
// a tree can answer it; on that paper's trace they leave as few cards unused (docs/replay.md).
//
// A task that needs none of cpu, memory and cards is placed as spread would: see plan_mode_of.
#include "master/scheduler/plan_internal.h"

struct plan_key place_best_fit_key(const struct plan_index *x, size_t node, enum alloc_metric m)
{
    (void)m;
    const struct plan_view *v = &x->views[node];
    uint64_t has_cards = x->nodes[node].total.gpu > 0;
    return (struct plan_key){
        .hi = has_cards << 32 | v->gpus,
        .lo = plan_share(v->cpu, x->most_cpu) + plan_share(v->memory, x->most_memory),
    };
}
