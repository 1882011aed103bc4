// SPDX-License-Identifier: Apache-2.0
// Gangs on one node, or on as few as possible: again and again the node that has room for most of
// those that are left, and at the end, of the nodes that have room for all of them, the one that
// the job's mode prefers. For tasks that are alike this is the least number of nodes; for different
// ones it is a good one (first-fit decreasing on the bin with the most room).
#include "master/scheduler/scope.h"

struct fill {
    size_t count;     // tasks of the unit that fit
    uint32_t *chosen; // which; NULL = not wanted
};

// How many of the unit's tasks, in their order, have room on the node together. -ENOMEM.
static int fill_node(struct scope *s, size_t n_unit, size_t node, struct fill *f)
{
    struct room room = room_of(s, node);
    const struct plan_demand *refused = NULL;
    uint16_t with;
    uint64_t here[4] = {0}; // groups of those counted
    f->count = 0;
    for (size_t i = 0; i < n_unit; i++) {
        const struct plan_demand *d = &s->job->tasks[s->unit[i]].demand;
        struct plan_need need;
        bool apart = false;
        if (refused && refused->group == d->group && refused->ports <= d->ports)
            continue;
        if (scope_need(s, d, &need) < 0)
            return -ENOMEM;
        for (uint16_t g = 0; g < s->rules->n_own && !apart; g++)
            apart = (here[g / 64] >> (g % 64) & 1) && scope_apart(s, d->group, g);
        if (apart || scope_rule(s, node, d, &with) || !room_take(&room, node, &need)) {
            refused = d;
            continue;
        }
        here[d->group / 64] |= UINT64_C(1) << (d->group % 64);
        if (f->chosen)
            f->chosen[f->count] = s->unit[i];
        f->count++;
    }
    return 0;
}

static bool has_peer(const struct scope *s, size_t node, const struct plan_demand *d)
{
    return s->rules->gang ? s->own[node] > 0 : scope_has(s, node, d->group);
}

// The node for most of them; -1 = there is room for none, -ENOMEM. *ret_count: for how many.
static int64_t best_node(struct scope *s, size_t n_unit, bool with_peers, size_t *ret_count)
{
    const struct plan_demand *d = &s->job->tasks[s->unit[0]].demand;
    struct plan_but avoided = plan_avoided(s->x, d->avoid);
    struct best best = {.node = -1};
    struct plan_need need;
    *ret_count = 0;
    if (scope_need(s, d, &need) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < s->x->n; i++) {
        struct fill f = {0};
        if (!s->x->views[i].flags || (with_peers && !has_peer(s, i, d)))
            continue;
        if (fill_node(s, n_unit, i, &f) < 0)
            return -ENOMEM;
        if (f.count == 0 || f.count < *ret_count)
            continue;
        if (f.count > *ret_count)
            best.node = -1;
        *ret_count = f.count;
        best_offer(&best, s, i, &need, &avoided);
    }
    return best.node;
}

static size_t collect(struct scope *s, const struct plan_demand *of)
{
    size_t n = 0;
    for (size_t i = 0; i < s->job->n_tasks; i++) {
        const struct plan_demand *d = &s->job->tasks[s->todo[i]].demand;
        if (!s->done[s->todo[i]] && (s->rules->gang || d->group == of->group))
            s->unit[n++] = s->todo[i];
    }
    return n;
}

// Takes what fits on the node. -ENOMEM.
static int take(struct scope *s, size_t n_unit, size_t node)
{
    struct fill f = {.chosen = s->chosen};
    struct plan_need need;
    if (fill_node(s, n_unit, node, &f) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < f.count; i++) {
        if (scope_need(s, &s->job->tasks[s->chosen[i]].demand, &need) < 0)
            return -ENOMEM;
        scope_take(s, s->chosen[i], node, need.where);
    }
    return 0;
}

int scope_place_gang(struct scope *s, uint32_t task)
{
    const struct plan_demand *d = &s->job->tasks[task].demand;
    enum gang_mode gang = scope_gang(s, d);
    bool peers = false;
    for (size_t i = 0; i < s->x->n && !peers; i++)
        peers = has_peer(s, i, d);
    for (size_t left; (left = collect(s, d)) > 0;) {
        size_t count;
        int64_t node = best_node(s, left, peers, &count);
        if (node == -1 && peers && gang == GANG_FEW_NODES) {
            peers = false; // those nodes are full
            continue;
        }
        if (node < -1)
            return (int)node;
        if (node < 0 || (gang == GANG_SAME_NODE && count < left)) {
            s->stuck = &s->job->tasks[s->unit[0]].demand;
            s->stuck_gang = gang;
            s->wanted = left;
            s->most = count;
            return 0;
        }
        int r = take(s, left, (size_t)node);
        if (r < 0)
            return r;
    }
    return 1;
}
