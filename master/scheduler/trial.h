// SPDX-License-Identifier: Apache-2.0
// A copy of the nodes and of one job, to try things on.
#pragma once

#include "master/scheduler/plan_internal.h"
#include "master/scheduler/queue.h"

struct trial {
    struct plan_node *nodes;
    uint64_t *port_words;
    struct plan_job job;
    struct plan_order *order;
    struct plan_index *index;
};

// -ENOMEM; trial_free in either case. The caller's nodes and job are not touched.
int trial_copy(struct trial *t, const struct plan_node *nodes, size_t n,
               const struct plan_job *job) WARN_UNUSED;
void trial_free(struct trial *t);
// As if the work had ended; and as if it had not.
void trial_give(struct trial *t, const struct plan_running *r);
void trial_take(struct trial *t, const struct plan_running *r);
