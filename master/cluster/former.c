// SPDX-License-Identifier: Apache-2.0
// The machine that a node was before `meadow node replace`. It may be cut off and run on, while the
// new one, which has its name, knows nothing of its attempts, or has a copy of its claims and sees
// no process: neither is an end. The former can renew nothing, as its key or instance is refused,
// so its leases end by themselves; then its attempts are lost. Where the new machine is the old one
// (only its key was lost), it finds them running, and that settles it.
#include "master/cluster/cluster_internal.h"

void former_begin(struct cluster *c, struct node *n)
{
    char reason[REASON_BYTES];
    (void)snprintf(reason, sizeof(reason),
                   "node %s was replaced: what the machine before it runs is over with its lease",
                   n->name);
    n->former_seen_boot_ms =
        n->seen_boot_ms > c->started_boot_ms ? n->seen_boot_ms : c->started_boot_ms;
    // Where one replaces the next, the first may have had the longest.
    if (!n->has_former || n->granted_until_boot_ms > n->former_granted_boot_ms)
        n->former_granted_boot_ms = n->granted_until_boot_ms;
    for (struct assignment *a = n->assignments; a; a = a->hh.next) {
        struct task *t = a->task;
        if (!t || a->removed || t->state >= TASK_SUCCEEDED || t->logs_late)
            continue;
        t->former = n->has_former = true;
        task_set_state(c, t, t->state, reason);
    }
}

bool former_ignores(struct task *t, const struct attempt_status *s)
{
    bool here = s->state == ATTEMPT_RUNNING || s->state == ATTEMPT_STOPPING || s->has_exit;
    t->former = t->former && !here;
    return t->former;
}

int64_t former_over_at(const struct node *n, const struct task *t)
{
    return lease_over_at(n->former_seen_boot_ms, n->former_granted_boot_ms, t->lease_ms);
}

void former_judge(struct cluster *c, struct node *n, int64_t now_boot_ms)
{
    char reason[REASON_BYTES];
    struct assignment *a, *tmp;
    if (!n->has_former)
        return;
    n->has_former = false;
    (void)snprintf(reason, sizeof(reason), "node %s was replaced", n->name);
    HASH_ITER (hh, n->assignments, a, tmp) {
        struct task *t = a->task;
        if (!t || !t->former || a->removed)
            continue;
        if (now_boot_ms < former_over_at(n, t)) {
            n->has_former = true;
            continue;
        }
        t->former = false;
        task_lost(c, n, t, reason);
    }
}
