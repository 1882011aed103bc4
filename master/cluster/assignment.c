// SPDX-License-Identifier: Apache-2.0
// What each node should hold: one entry per attempt, with the generation at which it last changed,
// so that an agent gets only what is new to it. An entry that is over becomes a tombstone until the
// agent has applied the generation that removed it.
#include "common/cleanup.h"
#include "common/clock.h"
#include "master/cluster/cluster_internal.h"

#include <stdlib.h>
#include <string.h>

struct assignment *assignment_find(struct node *n, const char *attempt_id)
{
    struct assignment *a = NULL;
    HASH_FIND_STR(n->assignments, attempt_id, a);
    return a;
}

bool cluster_node_holds(struct node *n, const char *attempt_id)
{
    const struct assignment *a = assignment_find(n, attempt_id);
    return a && !a->removed;
}

static void touch(struct cluster *c, struct node *n, struct assignment *a)
{
    a->generation = ++n->generation;
    node_changed(c, n);
}

struct assignment *assignment_add(struct cluster *c, struct node *n, struct task *t)
{
    struct assignment *a = calloc(1, sizeof(*a));
    if (!a)
        return NULL;
    (void)snprintf(a->id, sizeof(a->id), "%s", t->attempt_id);
    a->task = t;
    a->desired = DESIRED_RUN;
    HASH_ADD_STR(n->assignments, id, a);
    t->entry = a;
    touch(c, n, a);
    return a;
}

void assignment_adopt(struct cluster *c, struct node *n, struct assignment *a, enum attempt_state s)
{
    HASH_ADD_STR(n->assignments, id, a);
    assignment_reported(n, a, s);
    touch(c, n, a);
}

void assignment_stop(struct cluster *c, struct node *n, struct assignment *a)
{
    if (a->desired == DESIRED_STOP || a->removed)
        return;
    a->desired = DESIRED_STOP;
    touch(c, n, a);
}

static void no_longer_given_away(struct node *n, struct assignment *a)
{
    n->given_away -= a->given_away;
    a->given_away = false;
}

void assignment_give_away(struct cluster *c, struct node *n, struct assignment *a)
{
    if (a->removed)
        return;
    if (a->reported && a->reported_state == ATTEMPT_ENDED) { // nothing of it is there
        assignment_remove(c, n, a);
        return;
    }
    if (a->task && a->task->entry == a)
        a->task->entry = NULL;
    a->task = NULL;
    a->desired = DESIRED_STOP;
    n->given_away += !a->given_away;
    a->given_away = true;
    touch(c, n, a);
}

void assignment_remove(struct cluster *c, struct node *n, struct assignment *a)
{
    if (a->removed)
        return;
    no_longer_given_away(n, a);
    orphan_gone(c, n, a);
    a->removed = true;
    if (a->task && a->task->entry == a) {
        a->task->entry = NULL;
        task_dirty(c, a->task); // a record that still waits for its logs would bring it back
    }
    a->task = NULL;
    touch(c, n, a);
}

void assignment_reported(struct node *n, struct assignment *a, enum attempt_state s)
{
    if (a->reported)
        n->reported_sum -= inventory_hash(a->id, a->reported_state);
    a->reported = true;
    a->reported_state = s;
    if (s == ATTEMPT_ENDED)
        no_longer_given_away(n, a);
    n->reported_sum += inventory_hash(a->id, s);
}

static void entry_free(struct node *n, struct assignment *a)
{
    if (a->reported)
        n->reported_sum -= inventory_hash(a->id, a->reported_state);
    no_longer_given_away(n, a);
    HASH_DEL(n->assignments, a);
    free(a->holds);
    free(a);
}

void assignment_drop_applied(struct node *n)
{
    struct assignment *a, *tmp;
    HASH_ITER (hh, n->assignments, a, tmp) {
        if (a->removed && a->generation <= n->applied_generation)
            entry_free(n, a);
    }
}

void assignment_free_all(struct node *n)
{
    struct assignment *a, *tmp;
    HASH_ITER (hh, n->assignments, a, tmp) {
        entry_free(n, a);
    }
}

bool cluster_node_settled(const struct node *n)
{
    return n->published_generation == n->generation;
}

static int answer_entries(struct cluster *c, struct node *n, int64_t since, struct sync_answer *a)
{
    size_t count = HASH_CNT(hh, n->assignments);
    a->entries = calloc(count + 1, sizeof(*a->entries));
    a->removed = calloc(count + 1, sizeof(*a->removed));
    if (!a->entries || !a->removed)
        return -ENOMEM;
    for (struct assignment *x = n->assignments; x; x = x->hh.next) {
        if (x->generation <= since)
            continue;
        if (x->removed) {
            if (!a->assignment_full)
                memcpy(a->removed[a->n_removed++], x->id, sizeof(x->id));
            continue;
        }
        // An attempt that its task has left behind is over; only its logs are still coming.
        struct assignment_entry *entry = &a->entries[a->n_entries];
        entry->desired = x->task || x->orphan_of[0] ? x->desired : DESIRED_STOP;
        entry->spec = x->task ? attempt_build(c, x->task) : attempt_build_bare(x->id);
        if (!entry->spec)
            return -ENOMEM;
        a->n_entries++;
    }
    return 0;
}

// What the agent does not know to be given away must not run on by this answer. An agent that this
// master has not told anything yet may hold what was given away before: then only what is known to
// be its own is renewed.
static int answer_leases(const struct node *n, bool known, struct sync_answer *a)
{
    // One that is removed has had its time: what runs there ends with the lease it has.
    bool ends = n->identity.removing && clock_boot_ms() > n->identity.renew_until_boot_ms;
    bool only = (!known && !a->has_assignment) || ends;
    size_t count = ends ? 0 : only ? HASH_CNT(hh, n->assignments) : 0;
    for (struct assignment *x = n->assignments; x && !only; x = x->hh.next)
        count += x->given_away || x->removed;
    a->lease_scope = only ? LEASES_ONLY : count ? LEASES_EXCEPT : LEASES_ALL;
    a->leases = count ? calloc(count, sizeof(*a->leases)) : NULL;
    if (count && !a->leases)
        return -ENOMEM;
    for (struct assignment *x = n->assignments; x && count; x = x->hh.next) {
        bool away = x->given_away || x->removed;
        if (only ? (x->task || x->orphan_of[0]) && !away : away)
            memcpy(a->leases[a->n_leases++], x->id, sizeof(x->id));
    }
    return 0;
}

int cluster_node_answer(struct cluster *c, struct node *n, const struct sync_position *applied,
                        struct sync_answer *ret)
{
    struct sync_answer a = {.protocol = 0,
                            .epoch = c->epoch,
                            .want_inventory = n->wants_inventory,
                            .want_node = !n->info_told,
                            .position = {c->epoch, n->published_generation},
                            .sync_interval_ms = cluster_node_interval(c, n),
                            .lease_at_least_ms = c->granting ? c->grant_ms : 0,
                            .time_ms = clock_real_ms()};
    // Without an inventory of this instance the agent's own records rule: it gets its set once it
    // has said what it holds.
    bool known = applied->epoch == c->epoch && applied->generation <= n->published_generation;
    if (cluster_node_settled(n) && !n->wants_inventory &&
        (!known || applied->generation < n->published_generation)) {
        a.has_assignment = true;
        a.assignment_full = !known;
        a.base = *applied;
        int r = answer_entries(c, n, known ? applied->generation : -1, &a);
        if (r < 0) {
            sync_answer_reset(&a);
            return r;
        }
    } else {
        a.position = *applied;
    }
    if (answer_leases(n, known, &a) < 0) {
        sync_answer_reset(&a);
        return -ENOMEM;
    }
    *ret = a;
    return 0;
}
