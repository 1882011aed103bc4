// SPDX-License-Identifier: Apache-2.0
// Nobody is overtaken for ever. Of the jobs of the highest priority that wait for room, the oldest
// is watched: how many younger ones start before it. When they are too many it becomes the head,
// and nothing starts any more on a node that could serve it. Whom to watch is found by looking at
// all that wait, so it is done once in so many starts, at the end of a run, when it is known who
// found no room: that keeps the bound, and costs little per start.
#include "master/scheduler/queue_internal.h"

// Lanes found impossible are looked at again at every so many looks, and when the cluster's size
// changes: nodes may have come back meanwhile.
#define FORGET_EVERY 16

void elder_left(struct plan_queue *q, const struct plan_entry *e)
{
    if (q->elder.entry == e)
        q->elder = (struct elder){.started = q->elder.started, .looks = q->elder.looks};
}

void elder_started(struct plan_queue *q, const struct plan_entry *e, int priority)
{
    struct elder *x = &q->elder;
    x->started++;
    if (!x->entry)
        return;
    bool harmless = q->head.entry == x->entry && q->head.start_ms != PLAN_NEVER;
    x->passed += priority <= x->priority && entry_before(x->entry, e) && !harmless;
}

static bool admissible(const struct plan_queue *q, const struct plan_lane *lane)
{
    return !lane->impossible && !lane_quota(q, lane);
}

// The oldest of the highest priority that has any.
static struct plan_entry *oldest(struct plan_queue *q)
{
    struct plan_entry *found = NULL;
    for (int i = PLAN_PRIORITY_MAX; i >= 0 && !found; i--)
        for (const struct seat *s = q->levels[i].seats; s; s = s->next)
            for (const struct plan_lane *lane = s->refused; lane; lane = lane->ref_next)
                if ((!found || entry_before(lane->first, found)) && admissible(q, lane))
                    found = lane->first;
    return found;
}

void forget_impossible(struct plan_queue *q)
{
    for (struct plan_lane *lane = q->lanes; lane; lane = lane->hh.next)
        lane->impossible = false;
}

void elder_look(struct plan_queue *q)
{
    struct elder *x = &q->elder;
    const struct plan_entry *before = x->entry;
    if (x->started < q->policy.overtakes)
        return;
    x->started = 0;
    if (++x->looks % FORGET_EVERY == 0)
        forget_impossible(q);
    x->entry = oldest(q);
    x->priority = x->entry ? x->entry->lane->shape.priority : 0;
    x->passed = x->entry == before ? x->passed : 0;
}

int elder_check(struct plan_queue *q, struct plan_index *x, const struct plan_queue_run *run)
{
    struct elder *e = &q->elder;
    if (!e->entry || e->passed < q->policy.overtakes || !q->policy.backfill ||
        !q->policy.overtakes || !admissible(q, e->entry->lane))
        return 0;
    e->passed = 0;
    return reserve_overdue(q, x, run, e->entry);
}
