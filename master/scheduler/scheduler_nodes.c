// SPDX-License-Identifier: Apache-2.0
// The kept nodes: slot by slot brought up to date, or made anew when one came, went, or became
// larger than the index knows.
#include "master/scheduler/scheduler_nodes.h"

#include <stdlib.h>

static void clear(struct kept *k)
{
    plan_index_free(k->index);
    free(k->nodes);
    free(k->node_of);
    free(k->why);
    free(k->stale);
    *k = (struct kept){.moved = true};
}

void kept_free(struct kept *k)
{
    clear(k);
}

// NULL = it may get work.
static const char *ineligible(const struct node *n, char *text)
{
    if (!n->approved)
        return "not approved";
    if (n->state != NODE_READY) {
        (void)snprintf(text, REASON_BYTES, "%s%s%.200s", node_state_to_string(n->state),
                       n->reason[0] ? ": " : "", n->reason);
        return text;
    }
    return n->draining ? "draining" : NULL;
}

static uint64_t gpus_free(const struct node *n)
{
    uint64_t all = n->n_gpus >= 64 ? UINT64_MAX : (UINT64_C(1) << n->n_gpus) - 1;
    return all & ~n->gpus_taken;
}

static void fill(struct kept *k, size_t i)
{
    const struct node *x = k->node_of[i];
    k->nodes[i] = (struct plan_node){
        .name = x->name,
        .ineligible = ineligible(x, k->why[i]),
        .runtime = x->docker ? PLAN_RUNTIME_DOCKER : PLAN_RUNTIME_PROCESS,
        .total = x->total,
        .free = {x->total.cpu_milli - x->reserved.cpu_milli, x->total.memory - x->reserved.memory,
                 x->total.gpu - x->reserved.gpu},
        .gpus_free = gpus_free(x),
        .ports = {x->port_first, x->port_count, x->port_cursor, x->ports_taken},
        .tasks = x->tasks,
    };
}

void kept_stale(struct kept *k, struct node *n)
{
    if (k->moved || n->plan_stale || n->plan_slot >= k->n || k->node_of[n->plan_slot] != n)
        return;
    n->plan_stale = true;
    k->stale[k->n_stale++] = n->plan_slot;
}

static int build(struct kept *k, struct node *nodes)
{
    size_t n = HASH_CNT(hh, nodes);
    clear(k);
    k->nodes = calloc(n + 1, sizeof(*k->nodes));
    k->node_of = calloc(n + 1, sizeof(*k->node_of));
    k->why = calloc(n + 1, sizeof(*k->why));
    k->stale = calloc(n + 1, sizeof(*k->stale));
    if (!k->nodes || !k->node_of || !k->why || !k->stale)
        return -ENOMEM;
    for (struct node *x = nodes; x; x = x->hh.next) {
        k->node_of[k->n] = x;
        x->plan_slot = (uint32_t)k->n;
        x->plan_stale = false;
        fill(k, k->n++);
    }
    int r = plan_index_new(k->nodes, n, &k->index);
    k->moved = r < 0;
    return r;
}

// The index measures sizes by the largest node there was when it was made.
static bool resized(const struct kept *k)
{
    for (size_t i = 0; i < k->n_stale; i++) {
        const struct resources *old = &k->nodes[k->stale[i]].total;
        const struct resources *now = &k->node_of[k->stale[i]]->total;
        if (old->cpu_milli != now->cpu_milli || old->memory != now->memory)
            return true;
    }
    return false;
}

int kept_refresh(struct kept *k, struct node *nodes, bool *ret_grew)
{
    *ret_grew = false;
    if (k->moved || k->n != HASH_CNT(hh, nodes) || resized(k)) {
        *ret_grew = true;
        return build(k, nodes);
    }
    for (size_t i = 0; i < k->n_stale; i++) {
        size_t slot = k->stale[i];
        fill(k, slot);
        k->node_of[slot]->plan_stale = false;
        *ret_grew |= plan_index_touch(k->index, slot);
    }
    k->n_stale = 0;
    return 0;
}
