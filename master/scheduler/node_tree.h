// SPDX-License-Identifier: Apache-2.0
// Nodes in the order in which one way of placing prefers them, with the most that is free below
// each branch: finds the first node that fits without looking at those that cannot.
#pragma once

#include "master/scheduler/plan_internal.h"

struct node_tree;

// Empty, for `n` nodes numbered by name order. NULL = out of memory.
struct node_tree *node_tree_new(size_t n);
void node_tree_free(struct node_tree *t);

// Fills it at once: keys and views of all nodes, by number. -ENOMEM.
int node_tree_build(struct node_tree *t, const struct plan_key *keys,
                    const struct plan_view *views) WARN_UNUSED;
// Notes that the node's key or view changed; node_tree_next_dirty hands it back, once, or -1.
void node_tree_mark(struct node_tree *t, uint32_t node);
int64_t node_tree_next_dirty(struct node_tree *t);
void node_tree_set(struct node_tree *t, uint32_t node, struct plan_key key, struct plan_view view);
// The first node in order that fits, is none of `but` and meets the need's conditions; -1 = none.
// No node may be marked. `node_at`: which bit of the conditions is whose (by number here); may be
// NULL when the need has none.
int64_t node_tree_first(const struct node_tree *t, const struct plan_need *need,
                        const uint32_t *node_at, const struct plan_but *but);

struct plan_like {
    const struct plan_index *x;
    const struct plan_need *need;
    const struct plan_but *but; // by number
    const struct plan_key *key;
};
// As node_tree_first, of those with this key alone: the first that has the need's image. Looks at
// `most` of them; -1 = it found none.
int64_t node_tree_first_with(const struct node_tree *t, const struct plan_like *like, int most);
