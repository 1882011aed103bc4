// SPDX-License-Identifier: Apache-2.0
// Which nodes' policies refused a task. Kept in memory alone: after a restart of the master they
// are asked again.
#include "master/cluster/refusal.h"

#define REFUSALS_MAX 10 // a task that nobody takes must not go round for ever

static uint32_t hash_of(const struct node *n)
{
    uint32_t h = 2166136261u; // FNV-1a
    for (const char *p = n->id; *p; p++)
        h = (h ^ (unsigned char)*p) * 16777619u;
    return h;
}

static bool has_refused(const struct task *t, const struct node *n)
{
    uint32_t h = hash_of(n);
    for (int i = 0; i < t->n_refused; i++)
        if (t->refused[i] == h)
            return true;
    return false;
}

bool refusal_note(const struct node *nodes, struct task *t, const struct node *n)
{
    t->refusals++;
    if (!has_refused(t, n) && t->n_refused < TASK_REFUSED_MAX)
        t->refused[t->n_refused++] = hash_of(n);
    if (t->refusals >= REFUSALS_MAX)
        return false;
    for (const struct node *other = nodes; other; other = other->hh.next)
        if (other->state != NODE_LOST && other->state != NODE_LEFT && !has_refused(t, other))
            return true;
    return false;
}
