// SPDX-License-Identifier: Apache-2.0
// What is looked at before a waiting job. Whole seats come before or after it, so only lanes of its
// own seat, or of seats with an equal share, are compared job by job, and each only as far as it is
// older.
#include "master/scheduler/queue_internal.h"

#include <stdlib.h>

struct ahead {
    struct plan_queue *q;
    const struct plan_entry *of;
    const struct plan_entry **ret;
    size_t n, max;
};

static void take_lane(struct ahead *a, const struct plan_lane *lane, bool all)
{
    for (const struct plan_entry *x = lane->first; x && a->n < a->max; x = x->next) {
        if (x == a->q->head.entry || x == a->of)
            continue; // told already
        if (!all && !entry_before(x, a->of))
            return;
        a->ret[a->n++] = x;
    }
}

static void take_seat(struct ahead *a, const struct seat *s, bool higher)
{
    const struct plan_lane *mine = a->of->lane;
    int c = higher || s == mine->seat ? 0 : user_compare(a->q, s->user, mine->seat->user);
    if (c > 0)
        return;
    for (size_t i = 0; i < s->n_heap && a->n < a->max; i++)
        take_lane(a, s->heap[i], higher || c < 0);
    for (const struct plan_lane *l = s->refused; l && a->n < a->max; l = l->ref_next)
        take_lane(a, l, higher || c < 0);
}

static int compare(const void *x, const void *y, void *userdata)
{
    const struct plan_entry *a = *(const struct plan_entry *const *)x;
    const struct plan_entry *b = *(const struct plan_entry *const *)y;
    return plan_queue_before(userdata, a, b) ? -1 : plan_queue_before(userdata, b, a);
}

size_t plan_queue_ahead(struct plan_queue *q, const struct plan_entry *of,
                        const struct plan_entry **ret, size_t max)
{
    struct ahead a = {q, of, ret, 0, max};
    const struct plan_entry *head = q->head.entry;
    if (!of->lane || max == 0)
        return 0;
    int priority = of->lane->shape.priority;
    if (head && head != of && head->lane->shape.priority >= priority)
        ret[a.n++] = head;
    for (int p = PLAN_PRIORITY_MAX; p >= priority; p--)
        for (const struct seat *s = q->levels[p].seats; s && a.n < max; s = s->next)
            if (p > priority || head != of)
                take_seat(&a, s, p > priority);
    qsort_r(ret, a.n, sizeof(*ret), compare, q);
    return a.n;
}
