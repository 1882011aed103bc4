// SPDX-License-Identifier: Apache-2.0
// Which nodes meet a set of conditions on labels and cards: found out once per set and node, kept
// as bits.
#pragma once

#include "master/scheduler/plan_internal.h"

#include <uthash.h>

#define WHERE_MAX 1024 // sets that are kept, whether they were used lately or not
struct plan_where {
    char *text;
    uint64_t *bits;                // by node
    uint32_t kinds;                // those that met them, and perhaps more
    uint64_t *cards;               // by node: those that meet the conditions on cards; NULL = none
    const struct plan_node *nodes; // of the index
    bool used;                     // since the last where_trim
    UT_hash_handle hh;
};

static inline bool where_has(const struct plan_where *w, size_t node)
{
    return !w || (w->bits[node / 64] >> (node % 64) & 1);
}

// The node's cards that a task with these conditions can have.
static inline uint64_t where_cards(const struct plan_where *w, size_t node)
{
    return w && w->cards ? w->cards[node] : UINT64_MAX;
}
// Whether the node meets them, and has, of the cards in `free`, enough that do.
static inline bool where_fits(const struct plan_where *w, size_t node, const struct plan_need *n,
                              uint64_t free)
{
    if (!w || !where_has(w, node) || !w->cards)
        return where_has(w, node);
    int cards = __builtin_popcountll(w->cards[node] & free);
    return cards >= n->gpus && (!(n->whole & WHOLE_GPU) || cards >= w->nodes[node].total.gpu);
}
static inline bool where_fits_now(const struct plan_where *w, size_t node,
                                  const struct plan_need *n)
{
    return where_fits(w, node, n, w->nodes[node].gpus_free);
}

// The set of this text; *ret NULL when text is NULL. -ENOMEM.
int where_of(struct plan_index *x, const char *text, const struct plan_where **ret) WARN_UNUSED;
// The node's labels changed. Whether it meets a set now that it did not.
bool where_relabel(struct plan_index *x, size_t node);
// When there are many, drops those that were not used lately, and says whether it did: needs that
// were made before are not to be compared with later ones.
bool where_trim(struct plan_index *x);
void where_free_all(struct plan_index *x);
// The label and condition (not on cards) that the node does not meet, "" = meets all. Buffers as
// constraint_next.
bool where_unmet(const struct plan_node *n, const char *text, char *label, char *condition);
// The node's cards that meet the conditions on cards; all ones when there are none.
uint64_t where_find_cards(const struct plan_node *n, const char *text);
const char *where_label(const struct plan_node *n, const char *label); // NULL = has none
