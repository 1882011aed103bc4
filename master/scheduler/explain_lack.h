// SPDX-License-Identifier: Apache-2.0
// What one task lacks on one node.
#pragma once

#include "master/scheduler/explain_text.h"

struct tally { // by lack, over nodes
    int nodes[LACK_MAX];
    int64_t short_by[LACK_MAX]; // the smallest above 0
};

// Amounts of cpu, memory, gpu, ports (lacks before LACK_AMOUNTS). A demand for "all" has amount 0.
int64_t demand_amount(const struct plan_demand *d, enum lack l);
bool demand_is_all(const struct plan_demand *d, enum lack l);
// Of cards, those that suit the demand.
int64_t node_free(const struct plan_node *n, const struct plan_demand *d, enum lack l);
int64_t node_total(const struct plan_node *n, const struct plan_demand *d, enum lack l);
// " of model A100*, of 40 GiB": what is asked of the cards, or "".
void demand_cards(const struct plan_demand *d, struct text *t);
bool node_meets(const struct plan_node *n, const struct plan_demand *d); // its labels
bool node_runs(const struct plan_node *n, const struct plan_demand *d);
const char *runtime_to_string(unsigned runtimes);
// *ret_short: how much more must be free; 0 when no amount would help.
bool node_lacks(const struct plan_node *n, const struct plan_demand *d, enum lack l,
                int64_t *ret_short);
void tally_add(struct tally *t, enum lack l, int64_t short_by);
// Whether the node is another job's alone (a job with rules is told by its scope).
// As many tasks as it may have are there.
static inline bool node_full(const struct plan_node *n)
{
    return n->max_tasks > 0 && n->tasks >= n->max_tasks;
}
static inline bool node_kept(const struct plan_node *n, const struct plan_demand *d)
{
    return n->exclusive > 0 && !d->ruled;
}
// Where the reason of a node is written; of those behind the first ones none is.
struct text reason_text(struct plan_explanation *x, size_t node);
// Writes why the task cannot run there (nothing when it can) behind what is there, and counts it.
void node_reason(const struct plan_node *n, const struct plan_demand *d, struct tally *tally,
                 struct text *t);
