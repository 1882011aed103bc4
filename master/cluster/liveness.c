// SPDX-License-Identifier: Apache-2.0
// Which nodes are silent, and when what ran there is lost. A node that misses three sync intervals
// is unreachable: nothing is moved. The attempt there is lost when the lease that its node can have
// at most is over, and a margin: its clock counts from when a sync was sent, ours from when it
// came, so meadow-init has frozen it by then. The master judges nobody for time in which it was
// itself away: a late timer moves the judging on by a full term, and judging happens only after the
// sockets were polled.
#include "common/clock.h"
#include "common/log.h"
#include "common/json.h"
#include "master/cluster/cluster_internal.h"
#include "master/scheduler/scheduler.h"

#include <string.h>

#define MISSED 3
// Freezing: meadow-init tries for two seconds, then kills. Clocks that NTP slews differ by up to
// 2 x 500 ppm (ntp_adjtime(2)); five times that.
#define FREEZE_MARGIN_MS 3000
#define DRIFT_SHARE 200
// on_node_lost.after must leave room for four syncs and a busy moment.
#define LEASE_INTERVALS 4
#define LEASE_ROOM_MS 5000
#define INTERVAL_MIN_MS 200

int64_t cluster_lease_min(const struct cluster *c)
{
    return c->options.sync_interval_ms * LEASE_INTERVALS + LEASE_ROOM_MS;
}

int64_t cluster_node_interval(const struct cluster *c, const struct node *n)
{
    bool capped = n->sync_cap_ms && n->sync_cap_ms < c->options.sync_interval_ms;
    return capped ? n->sync_cap_ms : c->options.sync_interval_ms;
}

void node_bound_interval(const struct cluster *c, struct node *n, int64_t lease_ms)
{
    int64_t cap = (lease_ms - LEASE_ROOM_MS) / LEASE_INTERVALS;
    if (lease_ms >= cluster_lease_min(c))
        return;
    if (cap < INTERVAL_MIN_MS)
        cap = INTERVAL_MIN_MS;
    if (!n->sync_cap_ms || cap < n->sync_cap_ms)
        n->sync_cap_ms = cap;
}

const char *cluster_moves_held(const struct cluster *c)
{
    return c->moves_held;
}

// From when a node's silence counts.
static int64_t silent_since(const struct cluster *c, const struct node *n)
{
    return n->seen_boot_ms > c->judge_from_ms ? n->seen_boot_ms : c->judge_from_ms;
}

int64_t lease_margin_ms(int64_t lease_ms)
{
    return FREEZE_MARGIN_MS + lease_ms / DRIFT_SHARE;
}

int64_t lease_over_at(int64_t heard, int64_t granted, int64_t lease_ms)
{
    int64_t at = heard + lease_ms;
    return (granted > at ? granted : at) + lease_margin_ms(lease_ms);
}

// When nothing with this lease can run there any more.
static int64_t over_at(const struct cluster *c, const struct node *n, int64_t lease_ms)
{
    return lease_over_at(silent_since(c, n), n->granted_until_boot_ms, lease_ms);
}

// --- unreachable ---

static void judge_silence(struct cluster *c, struct node *n, int64_t now)
{
    char reason[REASON_BYTES];
    if ((n->state != NODE_READY && n->state != NODE_NOT_READY && n->state != NODE_PENDING) ||
        now - silent_since(c, n) < cluster_node_interval(c, n) * (MISSED + 1))
        return;
    if (n->seen_boot_ms == 0)
        (void)snprintf(reason, sizeof(reason), "not heard from since the master started");
    else
        (void)snprintf(reason, sizeof(reason), "not heard from for %lld s",
                       (long long)((now - n->seen_boot_ms) / 1000));
    n->connected = false;
    node_set_state(c, n, NODE_UNREACHABLE, reason);
}

// --- more than half at once ---

// Lost ones count on neither side: nodes that go one after the other are each judged among the
// rest.
static void judge_cluster(struct cluster *c)
{
    unsigned missing = 0, all = 0;
    char text[REASON_BYTES] = "";
    for (const struct node *n = c->nodes; n; n = n->hh.next) {
        bool counts = n->approved && n->state != NODE_LOST && n->state != NODE_LEFT;
        all += counts;
        missing += counts && n->state == NODE_UNREACHABLE && !n->off;
    }
    if (missing * 2 > all)
        (void)snprintf(
            text, sizeof(text),
            "%u of %u nodes are silent at once: rather our network than they, so nothing "
            "is moved; `meadow node drain NODE --off` says that one is really off",
            missing, all);
    bool was = c->moves_held[0], is = text[0];
    memcpy(c->moves_held, text, sizeof(text));
    if (was == is)
        return;
    if (was) // it was our network: those that come back last get a new term, too
        c->judge_from_ms = clock_boot_ms();
    event_emit(c,
               &(struct event_fields){.type = is ? "cluster.moves_held" : "cluster.moves_resumed",
                                      .object = "cluster",
                                      .reason = text});
    if (is)
        log_warn("nodes", "%s", text);
    mark(c);
}

// --- lost ---

static bool waits_for_a_word(const struct node *n, const struct task *t)
{
    return task_component(t)->lost_action == NODE_LOST_WAIT && !n->off &&
           t->job->state != JOB_STOPPING;
}

struct left { // what is still on a silent node
    bool leased, waiting;
};

// While moves are held only those are over that shall run nowhere else either. What the machine
// before it was given is former_judge's.
static struct left judge_tasks(struct cluster *c, struct node *n, int64_t now, const char *reason)
{
    struct left left = {0};
    bool held = c->moves_held[0] && !n->off;
    struct assignment *a, *tmp;
    HASH_ITER (hh, n->assignments, a, tmp) {
        struct task *t = a->task;
        if (!t || a->removed || t->state >= TASK_SUCCEEDED || t->logs_late)
            continue;
        if (t->former || (!n->off && now < over_at(c, n, t->lease_ms)) ||
            (held && t->job->state != JOB_STOPPING))
            left.leased = true;
        else if (waits_for_a_word(n, t))
            left.waiting = true;
        else
            task_lost(c, n, t, reason);
    }
    return left;
}

static void judge_loss(struct cluster *c, struct node *n, int64_t now)
{
    char reason[REASON_BYTES];
    if (n->state != NODE_UNREACHABLE)
        return;
    (void)snprintf(reason, sizeof(reason),
                   n->off ? "node %s is off, says an operator"
                          : "node %s was not heard from for too long",
                   n->name);
    struct left left = judge_tasks(c, n, now, reason);
    if (c->moves_held[0] && !n->off)
        return;
    if (left.waiting && !left.leased)
        node_set_state(
            c, n, NODE_UNREACHABLE,
            "on_node_lost: wait: what runs there waits for the node, or for an operator's "
            "word that it is off (meadow node drain NODE --off)");
    else if (!left.leased && (n->off || now >= over_at(c, n, c->options.lease_ms)))
        node_set_state(c, n, NODE_LOST, reason);
}

// --- who may be back soon ---

// It was there before this master, or a moment ago, and could get work then.
static bool may_be_back(const struct cluster *c, const struct node *n, int64_t now)
{
    bool begins = n->state == NODE_NOT_READY && !n->inventory_seen;
    bool silent = n->state == NODE_UNREACHABLE || (begins && (n->engine_ready || !n->info_told));
    return silent && n->approved && !n->draining && !n->off &&
           now < over_at(c, n, c->options.lease_ms);
}

static void tell_scheduler(struct cluster *c, int64_t now)
{
    bool any = false;
    for (const struct node *n = c->nodes; n && !any; n = n->hh.next)
        any = may_be_back(c, n, now);
    scheduler_await(c, any);
}

void liveness_judge(struct cluster *c)
{
    int64_t now = clock_boot_ms();
    struct node *x, *next;
    HASH_ITER (hh, c->nodes, x, next) {
        node_remove_check(c, x);
    }
    for (struct node *n = c->nodes; n; n = n->hh.next) {
        judge_silence(c, n, now);
        former_judge(c, n, now);
    }
    judge_cluster(c);
    for (struct node *n = c->nodes; n; n = n->hh.next)
        judge_loss(c, n, now);
    tell_scheduler(c, now);
}

int cluster_node_off(struct cluster *c, struct node *n, const char *user, struct err *e)
{
    if (n->state != NODE_UNREACHABLE && n->state != NODE_LOST)
        return err_set(e, -EBUSY,
                       "node %s is %s: only one that is unreachable can be said to be off", n->name,
                       node_state_to_string(n->state));
    if (n->off || n->state == NODE_LOST)
        return 0;
    n->off = true;
    node_emit(c, n, "node.off", user, NULL);
    mark(c);
    judge_cluster(c);
    judge_loss(c, n, clock_boot_ms());
    return 0;
}

// --- a planned stop ---

void cluster_grant(struct cluster *c, int64_t ms)
{
    if (ms == 0)
        return;
    json_t *j = json_object();
    json_put_i64(j, "ms", ms);
    c->grant_ms = ms;
    c->ending = true;
    cluster_put(c, "lease_grant", json_text(j), 0);
    json_decref(j);
}

void cluster_grant_durable(struct cluster *c, bool durable)
{
    c->granting = durable && c->grant_ms > 0;
}

int grant_from_record(struct cluster *c, const json_t *j, struct err *e)
{
    (void)e;
    c->grant_ms = json_opt_i64(j, "ms", 0);
    return 0;
}

// What the master before us granted counts from its stop, which was before our start.
static void expect_grants(struct cluster *c)
{
    for (struct node *n = c->nodes; n; n = n->hh.next) {
        n->granted_until_boot_ms = c->grant_ms ? c->started_boot_ms + c->grant_ms : 0;
        n->former_seen_boot_ms = c->started_boot_ms;
        n->former_granted_boot_ms = n->granted_until_boot_ms;
    }
}

static void forget_grant(struct cluster *c, int64_t now)
{
    if (!c->grant_ms || c->ending || now < c->started_boot_ms + c->grant_ms)
        return;
    c->grant_ms = 0;
    cluster_del(c, "lease_grant");
}

// --- the timer ---

static void on_after_poll(uv_check_t *check)
{
    struct cluster *c = check->data;
    (void)uv_check_stop(check);
    liveness_judge(c);
    settle_look(c);
    lost_logs_look(c);
    history_look(c);
    job_drop_look(c);
    forget_grant(c, clock_boot_ms());
    give_back_memory(c);
}

static void on_timer(uv_timer_t *timer)
{
    struct cluster *c = timer->data;
    int64_t now = clock_boot_ms();
    int64_t late = now - c->liveness_due_ms;
    c->liveness_due_ms = now + c->options.sync_interval_ms;
    if (late > c->options.sync_interval_ms) {
        log_warn("nodes", "this process was away for about %lld ms: nodes get a new term",
                 (long long)late);
        c->judge_from_ms = now;
        node_timer_arm(c);
        task_timers(c);
    }
    (void)uv_check_start(&c->after_poll, on_after_poll);
}

int liveness_start(struct cluster *c)
{
    int64_t interval = c->options.sync_interval_ms;
    int r = uv_timer_init(c->options.loop, &c->timer);
    if (r == 0)
        r = uv_timer_init(c->options.loop, &c->liveness);
    if (r == 0)
        r = uv_timer_init(c->options.loop, &c->node_timer);
    if (r == 0)
        r = uv_check_init(c->options.loop, &c->after_poll);
    if (r < 0)
        return r;
    c->handles = 4;
    c->timer.data = c->liveness.data = c->node_timer.data = c->after_poll.data = c;
    c->started_boot_ms = c->judge_from_ms = clock_boot_ms();
    c->liveness_due_ms = c->started_boot_ms + interval;
    expect_grants(c);
    return uv_timer_start(&c->liveness, on_timer, (uint64_t)interval, (uint64_t)interval);
}

static void on_closed(uv_handle_t *handle)
{
    struct cluster *c = handle->data;
    if (--c->handles == 0 && c->closed)
        c->closed(c->closed_userdata);
}

void liveness_stop(struct cluster *c)
{
    if (c->handles == 0) {
        if (c->closed)
            c->closed(c->closed_userdata);
        return;
    }
    uv_close((uv_handle_t *)&c->timer, on_closed);
    uv_close((uv_handle_t *)&c->liveness, on_closed);
    uv_close((uv_handle_t *)&c->node_timer, on_closed);
    uv_close((uv_handle_t *)&c->after_poll, on_closed);
}
