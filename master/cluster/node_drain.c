// SPDX-License-Identifier: Apache-2.0
// Draining: a node gets no new work; what runs there may finish, or is stopped at a deadline and
// started elsewhere. The deadline is a moment of CLOCK_BOOTTIME, so that setting the wall clock
// moves nothing and a suspend of the machine counts. It is stored with the boot's id: a master that
// starts again in the same boot goes on with it; after a reboot only the wall clock is left to
// tell.
#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "master/cluster/cluster_internal.h"

#include <string.h>

// The deadline as a moment of the wall clock as it is now. Without a step of it that is what was
// said when the order was given, to the millisecond.
static int64_t deadline_real_ms(const struct node_drain *d)
{
    int64_t now = clock_real_ms() + d->deadline_boot_ms - clock_boot_ms();
    int64_t step = now - d->deadline_ms;
    return step > -1000 && step < 1000 ? d->deadline_ms : now;
}

void node_drain_text(const struct node *n, char *out, size_t size)
{
    const struct node_drain *d = &n->drain;
    char at[CLOCK_TEXT_BYTES] = "";
    if (d->deadline_boot_ms)
        clock_format_ms(deadline_real_ms(d), at);
    (void)snprintf(out, size, "draining%s%.160s%s%s", d->reason[0] ? ": " : "", d->reason,
                   !at[0]    ? ""
                   : d->over ? "; its deadline is over: "
                             : "; what is left is stopped at ",
                   at);
}

json_t *node_drain_view(const struct node *n)
{
    const struct node_drain *d = &n->drain;
    if (!n->draining)
        return json_null();
    json_t *j = json_object();
    json_put_str(j, "reason", d->reason[0] ? d->reason : NULL);
    json_put_str(j, "by", d->by[0] ? d->by : NULL);
    json_put_time(j, "since", d->since_ms);
    json_put_time(j, "deadline", d->deadline_boot_ms ? deadline_real_ms(d) : 0);
    json_put_bool(j, "over", d->over);
    return j;
}

// --- the record ---

json_t *node_drain_to_record(const struct node *n)
{
    const struct node_drain *d = &n->drain;
    json_t *j = json_object();
    json_put_str(j, "reason", d->reason);
    json_put_str(j, "by", d->by);
    json_put_time(j, "since", d->since_ms);
    if (!d->deadline_boot_ms)
        return j;
    json_put_time(j, "deadline", deadline_real_ms(d));
    json_put_boot(j, "deadline_boot_ms", d->deadline_boot_ms);
    return j;
}

void node_drain_from_record(struct node *n, const json_t *j)
{
    struct node_drain *d = &n->drain;
    (void)snprintf(d->reason, sizeof(d->reason), "%s", json_opt_str(j, "reason", ""));
    (void)snprintf(d->by, sizeof(d->by), "%s", json_opt_str(j, "by", ""));
    d->since_ms = json_opt_time(j, "since");
    d->deadline_ms = json_opt_time(j, "deadline");
    if (d->deadline_ms)
        d->deadline_boot_ms = json_opt_boot(j, "deadline_boot_ms", d->deadline_ms);
}

// --- the deadline ---

void node_move_all(struct cluster *c, struct node *n, const char *reason)
{
    for (struct assignment *a = n->assignments; a; a = a->hh.next)
        if (a->task && !a->removed)
            task_move(c, a->task, reason);
}

static void deadline_over(struct cluster *c, struct node *n)
{
    char reason[REASON_BYTES];
    n->drain.over = true;
    orphan_expire(c, n, INT64_MAX);
    (void)snprintf(reason, sizeof(reason), "node %s is drained%s%s: its deadline is over", n->name,
                   n->drain.by[0] ? " by " : "", n->drain.by);
    if (n->tasks == 0)
        return;
    log_info("nodes", "%s", reason);
    node_emit(c, n, "node.drain_deadline", NULL, n->drain.reason);
    node_move_all(c, n, reason);
}

int64_t node_drain_due(const struct node *n)
{
    const struct node_drain *d = &n->drain;
    return n->draining && d->deadline_boot_ms && !d->over ? d->deadline_boot_ms : INT64_MAX;
}

void node_drain_look(struct cluster *c, struct node *n, int64_t now_boot_ms)
{
    if (node_drain_due(n) <= now_boot_ms)
        deadline_over(c, n);
}

void node_drain_emptied(struct cluster *c, struct node *n)
{
    if (!n->draining || n->drain.empty_told || n->tasks > 0 || n->orphans > 0 ||
        n->given_away > 0 || n->strangers > 0)
        return;
    n->drain.empty_told = true;
    node_emit(c, n, "node.drained", NULL, n->drain.reason);
}

// --- the verbs ---

static bool apply(struct node_drain *d, const struct drain_order *o)
{
    bool changed = false;
    if (o->reason && strcmp(d->reason, o->reason) != 0) {
        (void)snprintf(d->reason, sizeof(d->reason), "%s", o->reason);
        changed = true;
    }
    if (o->deadline_ms == DRAIN_KEEP || (o->deadline_ms == DRAIN_NONE && !d->deadline_boot_ms))
        return changed;
    bool none = o->deadline_ms == DRAIN_NONE;
    d->deadline_boot_ms = none ? 0 : clock_boot_ms() + o->deadline_ms;
    d->deadline_ms = none ? 0 : clock_real_ms() + o->deadline_ms;
    d->over = false;
    return true;
}

int cluster_node_drain(struct cluster *c, struct node *n, const struct drain_order *o,
                       struct err *e)
{
    int r = node_refuse_leaving(n, e);
    if (r < 0)
        return r;
    struct node_drain *d = &n->drain;
    bool begins = !n->draining;
    if (begins)
        *d = (struct node_drain){.since_ms = clock_real_ms()};
    if (!apply(d, o) && !begins)
        return 0;
    char text[REASON_BYTES];
    n->draining = true;
    (void)snprintf(d->by, sizeof(d->by), "%s", o->user);
    node_drain_text(n, text, sizeof(text));
    node_dirty(c, n);
    node_emit(c, n, "node.draining", o->user, text);
    node_timer_arm(c);
    node_drain_emptied(c, n);
    want_schedule(c);
    return 0;
}

int cluster_node_resume(struct cluster *c, struct node *n, const char *user, struct err *e)
{
    int r = node_refuse_leaving(n, e);
    if (r < 0)
        return r;
    if (n->aside.phase != ASIDE_NO)
        log_info("nodes", "node %s is no longer set aside, says %s", n->name, user);
    node_aside_clear(c, n);
    if (!n->draining)
        return 0;
    n->draining = false;
    n->drain = (struct node_drain){0};
    node_dirty(c, n);
    node_emit(c, n, "node.resumed", user, NULL);
    node_timer_arm(c);
    want_schedule(c);
    return 0;
}
