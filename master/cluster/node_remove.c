// SPDX-License-Identifier: Apache-2.0
// Removing a node: its attempts are stopped through its assignment as any others; when the agent
// has confirmed their end, or can't any more (grace and lease are over), the record goes. What
// stays is a note for its agent, until its certificates are over.
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "master/cluster/cluster_internal.h"
#include "master/scheduler/scheduler.h"

#include <stdlib.h>
#include <string.h>

#define NOTE_MS INT64_C(31536000000) // a year, for nodes whose certificates are not known

// --- notes about nodes that are gone ---

static struct gone_node *gone_add(struct cluster *c, const char *id)
{
    struct gone_node *g = NULL;
    HASH_FIND_STR(c->gone, id, g);
    if (g)
        return g;
    g = calloc(1, sizeof(*g));
    if (!g)
        return NULL;
    (void)snprintf(g->id, sizeof(g->id), "%s", id);
    HASH_ADD_STR(c->gone, id, g);
    return g;
}

int gone_from_record(struct cluster *c, const json_t *j, struct err *e)
{
    const char *id;
    int r = json_get_str(j, "id", &id, e);
    struct gone_node *g = r == 0 ? gone_add(c, id) : NULL;
    if (!g)
        return r < 0 ? r : err_set(e, -ENOMEM, "out of memory");
    (void)snprintf(g->name, sizeof(g->name), "%s", json_opt_str(j, "name", ""));
    (void)snprintf(g->user, sizeof(g->user), "%s", json_opt_str(j, "removed_by", ""));
    g->removed_ms = json_opt_time(j, "removed_at");
    g->until_ms = json_opt_time(j, "until");
    return 0;
}

static void gone_store(struct cluster *c, const struct gone_node *g)
{
    char key[8 + ID_BYTES];
    cleanup_json json_t *j = json_object();
    json_put_str(j, "id", g->id);
    json_put_str(j, "name", g->name);
    json_put_str(j, "removed_by", g->user);
    json_put_time(j, "removed_at", g->removed_ms);
    json_put_time(j, "until", g->until_ms);
    (void)snprintf(key, sizeof(key), "gone:%s", g->id);
    cluster_put(c, key, json_text(j), g->until_ms - clock_real_ms());
}

// Those whose time is over go whenever one comes.
static void gone_expire(struct cluster *c)
{
    struct gone_node *g, *next;
    int64_t now = clock_real_ms();
    HASH_ITER (hh, c->gone, g, next) {
        if (g->until_ms > now)
            continue;
        HASH_DEL(c->gone, g);
        free(g);
    }
}

const struct gone_node *cluster_node_gone(struct cluster *c, const char *ref)
{
    struct gone_node *g = NULL;
    HASH_FIND_STR(c->gone, ref, g);
    for (struct gone_node *x = g ? NULL : c->gone; x; x = x->hh.next)
        if (strcmp(x->name, ref) == 0 && (!g || x->removed_ms > g->removed_ms))
            g = x;
    return g;
}

void gone_free_all(struct cluster *c)
{
    struct gone_node *g, *next;
    HASH_ITER (hh, c->gone, g, next) {
        HASH_DEL(c->gone, g);
        free(g);
    }
    while (c->gone_shells) {
        struct node *n = c->gone_shells;
        c->gone_shells = n->gone_next;
        node_destroy(n);
    }
}

// --- the end of the record ---

static void leave_note(struct cluster *c, const struct node *n)
{
    const struct node_identity *i = &n->identity;
    int64_t until = i->cert_until_ms > i->next_until_ms ? i->cert_until_ms : i->next_until_ms;
    gone_expire(c);
    struct gone_node *g = gone_add(c, n->id);
    if (!g)
        return; // its agent will read that it is unknown
    memcpy(g->name, n->name, sizeof(g->name));
    memcpy(g->user, i->removed_by, sizeof(g->user));
    g->removed_ms = i->removed_ms;
    int64_t now = clock_real_ms();
    g->until_ms = until > now ? until + NOTE_MS / 12 : now + NOTE_MS;
    gone_store(c, g);
}

static void forget_in_tasks(struct cluster *c, const struct node *n)
{
    for (struct job *j = c->jobs; j; j = j->hh.next)
        for (int k = 0; k < j->n_tasks; k++) {
            struct task *t = &j->tasks[k];
            if (t->node != n)
                continue;
            t->node = NULL;
            if (t->attempt > 0)
                task_dirty(c, t);
        }
}

static void finish(struct cluster *c, struct node *n, const char *how)
{
    struct assignment *a, *next;
    char why[REASON_BYTES];
    (void)snprintf(why, sizeof(why), "node %s was removed", n->name);
    HASH_ITER (hh, n->assignments, a, next) {
        if (a->task)
            task_lost(c, n, a->task, why);
        else
            orphan_gone(c, n, a); // its logs have nobody else
    }
    forget_in_tasks(c, n);
    leave_note(c, n);
    HASH_DEL(c->nodes, n);
    HASH_DELETE(hh_name, c->nodes_by_name, n);
    node_set_key(c, n, "");
    c->node_counts[n->state]--;
    n->gone = true;
    n->gone_next = c->gone_shells;
    c->gone_shells = n;
    json_decref(n->info);
    json_decref(n->usage);
    n->info = n->usage = NULL;
    plan_images_drop(&n->holder);
    node_dirty(c, n); // deletes the record
    n->generation++;  // its held sync is answered when that is durable
    node_changed(c, n);
    event_emit(c, &(struct event_fields){.type = "node.removed",
                                         .object = "node",
                                         .node = n,
                                         .user = n->identity.removed_by,
                                         .reason = how});
    log_info("nodes", "node %s (%s) is removed: %s", n->name, n->id, how);
    scheduler_nodes_moved(c);
    want_schedule(c);
}

static bool holds_work(const struct node *n)
{
    for (const struct assignment *a = n->assignments; a; a = a->hh.next)
        if (!a->removed)
            return true;
    return false;
}

#define CONFIRM_MS INT64_C(10000) // for the agent to tell of the end

// Its leases are renewed for as long as its work may take to end; when they are over after that,
// nothing can run there any more, whatever the agent does.
static void set_deadline(const struct cluster *c, struct node *n)
{
    struct node_identity *i = &n->identity;
    int64_t grace = 0, lease = c->options.lease_ms, now = clock_boot_ms(), former = 0;
    for (const struct assignment *a = n->assignments; a; a = a->hh.next) {
        if (!a->task || a->removed)
            continue;
        if (task_component(a->task)->grace_ms > grace)
            grace = task_component(a->task)->grace_ms;
        if (a->task->lease_ms > lease)
            lease = a->task->lease_ms;
        if (a->task->former && former_over_at(n, a->task) > former)
            former = former_over_at(n, a->task);
    }
    i->renew_until_boot_ms = n->connected ? now + grace + CONFIRM_MS : now;
    i->remove_deadline_boot_ms = i->renew_until_boot_ms + lease + lease_margin_ms(lease);
    int64_t granted = n->granted_until_boot_ms + lease_margin_ms(n->granted_until_boot_ms - now);
    if (n->granted_until_boot_ms > now && granted > i->remove_deadline_boot_ms)
        i->remove_deadline_boot_ms = granted;
    if (former > i->remove_deadline_boot_ms)
        i->remove_deadline_boot_ms = former;
}

void node_remove_check(struct cluster *c, struct node *n)
{
    if (!n->identity.removing || n->gone)
        return;
    if (!n->identity.remove_deadline_boot_ms) // loaded
        set_deadline(c, n);
    if (!holds_work(n))
        finish(c, n, "its work is over");
    else if (clock_boot_ms() >= n->identity.remove_deadline_boot_ms)
        finish(c, n, "it did not confirm the end of its work in time; its leases are over");
}

// --- the beginning ---

void cluster_node_remove(struct cluster *c, struct node *n, const char *user)
{
    char reason[REASON_BYTES];
    struct node_identity *i = &n->identity;
    if (i->removing)
        return;
    (void)snprintf(reason, sizeof(reason), "node %s is removed by %s", n->name, user);
    i->removing = true;
    i->removed_ms = clock_real_ms();
    (void)snprintf(i->removed_by, sizeof(i->removed_by), "%s", user);
    i->replace_until_ms = 0;
    node_dirty(c, n);
    orphan_expire(c, n, INT64_MAX);
    node_move_all(c, n, reason);
    set_deadline(c, n);
    node_set_state(c, n, NODE_LEFT, reason);
    node_remove_check(c, n);
}
