// SPDX-License-Identifier: Apache-2.0
// Kinds of nodes by their cards: as many of them, the first of the same model. A task with cards
// that best-fit places goes to the kind of which the greatest part of the nodes has cards left, so
// that all kinds are used up alike: who names a model, or needs more cards than small nodes have,
// finds some for as long as anybody does. Kinds with equally much left are as one; so where all
// nodes are alike, or none is full yet, this changes nothing.
#pragma once

#include "master/scheduler/plan_internal.h"

// All nodes, of a new index. -ENOMEM.
int kind_init(struct plan_index *x) WARN_UNUSED;
// The node's cards may be others. Its view is brought up to date after this.
void kind_relabel(struct plan_index *x, size_t node);
// In the node's flags. Of all kinds beyond PLAN_KINDS_MAX, the last bit.
static inline uint32_t kind_bit(const struct plan_index *x, size_t node)
{
    return KIND_FIRST << x->kind_of[node];
}
// The node's view changes: after what it was is taken off (sign -1), what it is is added.
static inline void kind_count(struct plan_index *x, size_t node, int sign)
{
    if (x->views[node].gpus)
        x->kinds[x->kind_of[node]].open += (uint32_t)sign;
}
// Of the kinds in *left, those of which the greatest part of the nodes has cards left; they are
// taken out of *left. 0 = none of them has any.
uint32_t kind_next(const struct plan_index *x, uint32_t *left);
