// SPDX-License-Identifier: Apache-2.0
// Kinds of nodes by their cards, and how much of each is left. On the trace of Weng et al., "Beware
// of Fragmentation" (USENIX ATC 2023), this leaves no more cards unused than their fragmentation
// gradient descent, which needs to know what tasks there will be (docs/replay.md).
#include "master/scheduler/kind.h"

#include <stdlib.h>

// FNV-1a. Two kinds of one number would only be used as one.
static uint64_t cards_of(const struct plan_node *n)
{
    uint64_t h = UINT64_C(14695981039346656037) ^ (uint64_t)n->total.gpu;
    const char *model = n->n_cards && n->cards[0].model ? n->cards[0].model : "";
    do
        h = (h ^ (unsigned char)*model) * UINT64_C(1099511628211);
    while (*model++);
    return h;
}

static uint8_t find(struct plan_index *x, uint64_t cards)
{
    uint8_t unused = PLAN_KINDS_MAX - 1;
    for (uint8_t k = PLAN_KINDS_MAX; k-- > 0;) {
        if (x->kinds[k].nodes == 0)
            unused = k;
        else if (x->kinds[k].cards == cards)
            return k;
    }
    if (x->kinds[unused].nodes == 0)
        x->kinds[unused].cards = cards;
    return unused;
}

int kind_init(struct plan_index *x)
{
    x->kind_of = calloc(x->n + 1, sizeof(*x->kind_of));
    if (!x->kind_of)
        return -ENOMEM;
    for (size_t i = 0; i < x->n; i++) {
        x->kind_of[i] = find(x, cards_of(&x->nodes[i]));
        x->kinds[x->kind_of[i]].nodes++;
    }
    return 0;
}

void kind_relabel(struct plan_index *x, size_t node)
{
    kind_count(x, node, -1);
    x->kinds[x->kind_of[node]].nodes--;
    x->kind_of[node] = find(x, cards_of(&x->nodes[node]));
    x->kinds[x->kind_of[node]].nodes++;
    kind_count(x, node, 1);
}

uint32_t kind_next(const struct plan_index *x, uint32_t *left)
{
    uint64_t open = 0, nodes = 1;
    uint32_t most = 0;
    for (unsigned k = 0; k < PLAN_KINDS_MAX; k++) {
        const struct plan_kind *kind = &x->kinds[k];
        if (!(*left & KIND_FIRST << k) || kind->open == 0)
            continue;
        if (kind->open * nodes > open * kind->nodes) {
            open = kind->open;
            nodes = kind->nodes;
            most = 0;
        }
        if (kind->open * nodes == open * kind->nodes)
            most |= KIND_FIRST << k;
    }
    *left &= ~most;
    return most;
}
