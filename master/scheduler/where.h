// SPDX-License-Identifier: Apache-2.0
// Which nodes meet a set of conditions on labels: found out once per set and node, kept as bits.
#pragma once

#include "master/scheduler/plan_internal.h"

#include <uthash.h>

struct plan_where {
    char *text;
    uint64_t *bits; // by node
    UT_hash_handle hh;
};

static inline bool where_has(const struct plan_where *w, size_t node)
{
    return !w || (w->bits[node / 64] >> (node % 64) & 1);
}

// The set of this text; *ret NULL when text is NULL. -ENOMEM.
int where_of(struct plan_index *x, const char *text, const struct plan_where **ret) WARN_UNUSED;
// The node's labels changed. Whether it meets a set now that it did not.
bool where_relabel(struct plan_index *x, size_t node);
void where_free_all(struct plan_index *x);
// The label and condition that the node does not meet, "" = meets all. Buffers as constraint_next.
bool where_unmet(const struct plan_node *n, const char *text, char *label, char *condition);
const char *where_label(const struct plan_node *n, const char *label); // NULL = has none
