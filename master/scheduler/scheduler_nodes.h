// SPDX-License-Identifier: Apache-2.0
// The cluster's nodes as the plan sees them, kept from one turn to the next.
#pragma once

#include "master/cluster/model.h"
#include "master/scheduler/plan.h"

struct kept_labels {
    json_t *record, *info; // what they were made of
    json_t *all;           // name -> text; the list points into it
    struct plan_label *list;
    size_t n;
    struct plan_card *cards; // their texts are of `info`
    size_t n_cards;
};

struct kept {
    struct plan_node *nodes; // in the order of the cluster's hash: as they joined
    struct node **node_of;   // same order
    size_t n;
    char (*why)[REASON_BYTES];  // texts of `ineligible`
    struct kept_labels *labels; // same order
    struct plan_index *index;
    int max_tasks;   // of each node; 0 = any number
    uint32_t *stale; // slots
    size_t n_stale;
    bool moved; // nodes came or went: to be made anew
};

void kept_free(struct kept *k);
void kept_stale(struct kept *k, struct node *n);
// It gets no more work in this turn: something placed there has made it ineligible.
void kept_close(struct kept *k, const struct node *n);
// Brings everything up to date. -ENOMEM.
struct kept_change {
    bool grew;   // some node has more free than before
    bool shaken; // some node may get work and could not, or the reverse
};
int kept_refresh(struct kept *k, struct node *nodes, struct kept_change *ret) WARN_UNUSED;
