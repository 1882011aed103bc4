// SPDX-License-Identifier: Apache-2.0
// An agent's message, applied: who speaks, what it holds, what changed. Absence from a message is
// not death: an attempt counts as gone only when a complete inventory that includes its generation
// does not list it (proto/AGENT.md).
#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "master/cluster/cluster_internal.h"
#include "proto/version.h"

#include <stdlib.h>
#include <string.h>

#define LATE_LOGS_KEEP_MS                                                                          \
    INT64_C(600000) // an ended attempt whose logs don't arrive is kept on its node this long

static int check_instance(struct cluster *c, struct node *n, const struct sync_request *msg,
                          struct err *e)
{
    if (strcmp(n->instance, msg->instance) == 0)
        return 0;
    // A live agent has a sync outstanding, but for the moment between an answer and its next one.
    // The end of a connection with an outstanding sync is seen (cluster_node_disconnected); one
    // that ends in that moment is not, so that moment is bounded.
    int64_t now = clock_boot_ms();
    int64_t last = n->answered_boot_ms > n->seen_boot_ms ? n->answered_boot_ms : n->seen_boot_ms;
    if (n->instance[0] && n->connected && (n->held || now - last < cluster_node_interval(c, n) / 2))
        return err_set(
            e, -EBUSY,
            "another instance of node %s is alive (heard %lld ms ago, at %s): two agents share one "
            "identity, and this one gets no work. Stop one of them; if this machine is a copy, "
            "remove the folder identity in its state_dir and join it with a name of its own",
            n->name, (long long)(now - n->seen_boot_ms), json_opt_str(n->info, "address", "?"));
    int r = node_identity_instance(c, n, msg, e);
    if (r < 0)
        return r;
    if (n->instance[0])
        node_emit(c, n, "node.agent_restarted", NULL, NULL);
    log_info("nodes", "node %s: instance %s begins", n->name, msg->instance);
    (void)snprintf(n->instance, sizeof(n->instance), "%s", msg->instance);
    n->last_seq = 0;
    n->info_seq = 0;
    n->images_seq = 0;
    n->acked = 0;
    n->applied_generation = 0;
    n->inventory_seen = false;
    n->strangers = 0;
    n->wants_inventory = true;
    for (struct assignment *a = n->assignments; a; a = a->hh.next)
        a->reported = false;
    n->reported_sum = 0;
    return 0;
}

static void apply_status(struct cluster *c, struct node *n, const struct attempt_status *s)
{
    struct assignment *a = assignment_find(n, s->id);
    if (!a)
        return; // not ours (any more): it goes when the agent applies the assignment
    assignment_reported(n, a, s->state);
    struct task *t = a->task;
    if (a->removed)
        return;
    if (s->state == ATTEMPT_ENDED && s->logs == LOGS_COMPLETE && !(t && t->former))
        c->options.logs_complete(s->id, c->options.userdata);
    if (!t) {
        if (s->state == ATTEMPT_ENDED)
            orphan_ended(c, n, a);
        if (s->state == ATTEMPT_ENDED && s->logs == LOGS_COMPLETE)
            assignment_remove(c, n, a);
        return;
    }
    if ((strcmp(t->change_of, n->instance) == 0 && s->change <= t->change) || former_ignores(t, s))
        return;
    (void)snprintf(t->change_of, sizeof(t->change_of), "%s", n->instance);
    t->change = s->change;
    task_apply_status(c, n, t, s);
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void find_gone(struct cluster *c, struct node *n, const struct sync_request *msg)
{
    char(*ids)[ATTEMPT_ID_BYTES] = malloc((msg->n_statuses + 1) * sizeof(*ids));
    if (!ids)
        return; // the next inventory finds them
    for (size_t i = 0; i < msg->n_statuses; i++)
        memcpy(ids[i], msg->statuses[i].id, sizeof(*ids));
    qsort(ids, msg->n_statuses, sizeof(*ids), compare_ids);
    struct assignment *a, *tmp;
    HASH_ITER (hh, n->assignments, a, tmp) {
        if (bsearch(a->id, ids, msg->n_statuses, sizeof(*ids), compare_ids))
            continue;
        if (a->reported) {
            n->reported_sum -= inventory_hash(a->id, a->reported_state);
            a->reported = false;
        }
        if (a->removed || a->generation > n->applied_generation || (a->task && a->task->former))
            continue;
        if (a->task)
            task_gone(c, n, a->task, "the node no longer has it, and nobody saw how it ended");
        else
            assignment_remove(c, n, a);
    }
    free(ids);
}

static void apply_inventory(struct cluster *c, struct node *n, const struct sync_request *msg)
{
    if (!msg->has_inventory || !msg->inventory_complete)
        return;
    n->wants_inventory = false;
    n->inventory_seen = true;
    n->strangers = 0;
    for (size_t i = 0; i < msg->n_statuses; i++)
        n->strangers += msg->statuses[i].state != ATTEMPT_ENDED &&
                        !assignment_find(n, msg->statuses[i].id) &&
                        !orphan_keep(c, n, &msg->statuses[i], msg->holds ? &msg->holds[i] : NULL);
    json_decref(n->orphan_times); // what was not in it is gone
    n->orphan_times = NULL;
    find_gone(c, n, msg);
}

static void check_digest(struct cluster *c, struct node *n, const struct sync_request *msg)
{
    char digest[17];
    if (msg->applied.epoch != c->epoch || msg->applied.generation != n->generation ||
        !n->inventory_seen)
        return;
    inventory_digest(n->reported_sum, digest);
    if (strcmp(digest, msg->digest) == 0)
        n->strangers = 0;
    if (strcmp(digest, msg->digest) != 0 && !msg->has_inventory) {
        log_debug("nodes", "node %s: digest %s, expected %s: asking for its inventory", n->name,
                  msg->digest, digest);
        n->wants_inventory = true;
    }
}

// Ended attempts whose logs never came in full are let go after a while.
static void drop_late(struct cluster *c, struct node *n, int64_t now)
{
    orphan_expire(c, n, now);
    struct assignment *a, *tmp;
    HASH_ITER (hh, n->assignments, a, tmp) {
        if (a->removed || !a->reported || a->reported_state != ATTEMPT_ENDED ||
            (a->task && a->task->former))
            continue;
        if (!a->keep_until_boot_ms)
            a->keep_until_boot_ms = now + LATE_LOGS_KEEP_MS;
        else if (now > a->keep_until_boot_ms)
            assignment_remove(c, n, a);
    }
}

bool clock_agreed(const struct cluster *c, int64_t step_ms)
{
    unsigned ready = 0, agree = 0;
    for (const struct node *n = c->nodes; n; n = n->hh.next) {
        bool counts = n->state == NODE_READY && n->identity.skew_known;
        int64_t apart = n->identity.skew_ms - step_ms;
        ready += counts;
        agree += counts && apart > -CLOCK_STEP_MS && apart < CLOCK_STEP_MS;
    }
    return agree * 2 > ready;
}

// Whether the clock that somebody set is right the nodes can tell.
static void look_at_clock(struct cluster *c)
{
    int64_t step = clock_step_ms();
    if (step == 0 || !clock_agreed(c, step))
        return;
    clock_believe();
    log_info("clock", "this machine's clock was set by %lld s, and the nodes' clocks agree",
             (long long)(step / 1000));
}

// What a node tells of itself is kept, stored and shown to everybody: some KiB, with 64 cards.
#define TOLD_BYTES 65536

static int check_size(const char *what, const json_t *part, struct err *e)
{
    size_t len = part ? json_dumpb(part, NULL, 0, JSON_COMPACT) : 0;
    return len <= TOLD_BYTES
               ? 0
               : err_set(e, -EPROTO, "%s: %zu bytes, expected at most %d", what, len, TOLD_BYTES);
}

int cluster_node_protocol(struct cluster *c, struct node *n, int64_t protocol, struct err *e)
{
    int r = protocol_check(protocol, "agent", e);
    if (r < 0 && n->state != NODE_LOST && !n->identity.removing)
        node_set_state(c, n, NODE_UNREACHABLE, e->text);
    return r;
}

int cluster_node_message(struct cluster *c, struct node *n, struct sync_request *msg, struct err *e)
{
    int r = check_size("node", msg->node, e);
    if (r == 0)
        r = check_size("usage", msg->usage, e);
    if (r == 0)
        r = check_size("images", msg->images, e);
    if (r == 0)
        r = check_instance(c, n, msg, e);
    if (r < 0)
        return r;
    bool newest = msg->seq > n->last_seq;
    cluster_node_heard(n, msg->instance);
    // It has an assignment of this master, and so wrote the leases of that answer.
    if (msg->applied.epoch == c->epoch)
        n->granted_until_boot_ms = 0;
    if (newest) {
        n->last_seq = msg->seq;
        n->identity.skew_known = true;
        n->identity.skew_ms = msg->clock_ms - clock_real_ms();
        look_at_clock(c);
    }
    // A report may be overtaken by the next sync on the other connection: each part has its own
    // order.
    if (msg->node && msg->seq > n->info_seq) {
        n->info_seq = msg->seq;
        r = node_take_info(c, n, msg->node, e);
        if (r < 0)
            return r;
    }
    if (msg->images && msg->seq > n->images_seq) {
        n->images_seq = msg->seq;
        r = node_take_images(c, n, msg->images, e);
        if (r < 0)
            return r;
    }
    if (msg->usage && newest) {
        json_decref(n->usage);
        n->usage = json_incref(msg->usage);
        room_refresh(c, n);
    }
    if (newest && msg->applied.epoch == c->epoch &&
        msg->applied.generation > n->applied_generation &&
        msg->applied.generation <= n->published_generation)
        n->applied_generation = msg->applied.generation;
    for (size_t i = 0; i < msg->n_statuses; i++)
        apply_status(c, n, &msg->statuses[i]);
    if (newest) {
        apply_inventory(c, n, msg);
        assignment_drop_applied(n);
        check_digest(c, n, msg);
        drop_late(c, n, n->seen_boot_ms);
    }
    node_refresh_state(c, n);
    settle_look(c);
    node_drain_emptied(c, n);
    node_remove_check(c, n);
    return 0;
}

void cluster_node_heard(struct node *n, const char *instance)
{
    n->connected |= strcmp(n->instance, instance) == 0;
    n->off = false;
    n->seen_boot_ms = clock_boot_ms();
}

void cluster_node_disconnected(struct cluster *c, struct node *n)
{
    (void)c;
    n->connected = false;
}
