// SPDX-License-Identifier: Apache-2.0
// Nodes where starts keep failing. After some failed starts in a row, of at least two jobs, that
// were the infrastructure's fault (cause engine; not images that could not be had), a node is set
// aside: not_ready, no new work. After a pause it gets one job's tasks as a probe: one that starts
// brings it back, one that fails makes the next pause longer. The idea is that of a circuit breaker
// (M. Nygard, Release It!, 2007: closed, open, half open). At most half of the nodes are set aside:
// more would be something that they share. It is stored with the node; a row that has not set it
// aside yet is not, and begins anew with the master.
#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "master/cluster/cluster_internal.h"
#include "master/scheduler/scheduler.h"

#include <string.h>

// --- the record ---

json_t *node_aside_to_record(const struct node *n)
{
    const struct node_aside *a = &n->aside;
    json_t *j = json_object();
    json_put_str(j, "reason", a->reason);
    json_put_str(j, "job", a->job);
    json_put_i64(j, "failures", a->failures);
    json_put_i64(j, "pauses", a->pause.failures);
    if (a->phase != ASIDE_PAUSE)
        return j;
    json_put_time(j, "until", clock_real_ms() + a->until_boot_ms - clock_boot_ms());
    json_put_boot(j, "until_boot_ms", a->until_boot_ms);
    return j;
}

// A probe that was under way is one still to be made: what it was given may not have got there.
void node_aside_from_record(struct cluster *c, struct node *n, const json_t *j)
{
    struct node_aside *a = &n->aside;
    int64_t until = json_opt_time(j, "until");
    if (!json_is_object(j) || c->options.aside.failures == 0)
        return;
    *a = (struct node_aside){.phase = until ? ASIDE_PAUSE : ASIDE_PROBE,
                             .failures = (int)json_opt_i64(j, "failures", 0),
                             .jobs_differ = true};
    backoff_init(&a->pause, (uint64_t)c->options.aside.pause_ms,
                 (uint64_t)c->options.aside.max_pause_ms);
    a->pause.failures = (unsigned)json_opt_i64(j, "pauses", 1);
    if (until)
        a->until_boot_ms = json_opt_boot(j, "until_boot_ms", until);
    (void)snprintf(a->reason, sizeof(a->reason), "%s", json_opt_str(j, "reason", ""));
    (void)snprintf(a->job, sizeof(a->job), "%s", json_opt_str(j, "job", ""));
}

// --- what follows from it ---

bool node_aside_probe(const struct node *n)
{
    return n->aside.phase == ASIDE_PROBE && n->state == NODE_NOT_READY &&
           strcmp(n->reason, n->aside.reason) == 0;
}

int64_t node_aside_due(const struct node *n)
{
    return n->aside.phase == ASIDE_PAUSE ? n->aside.until_boot_ms : INT64_MAX;
}

// What people see; an unreachable or lost node is judged when it speaks again.
static void show(struct cluster *c, struct node *n)
{
    if (n->state == NODE_READY || n->state == NODE_NOT_READY)
        node_refresh_state(c, n);
    scheduler_node_stale(c, n);
    want_schedule(c);
}

static void open_probe(struct cluster *c, struct node *n)
{
    n->aside.phase = ASIDE_PROBE;
    node_dirty(c, n);
    show(c, n);
}

void node_aside_look(struct cluster *c, struct node *n, int64_t now_boot_ms)
{
    if (node_aside_due(n) <= now_boot_ms)
        open_probe(c, n);
}

void node_aside_mended(struct cluster *c, struct node *n)
{
    n->aside.failures = 0;
    if (n->aside.phase != ASIDE_NO)
        open_probe(c, n);
}

void node_aside_placed(struct node *n)
{
    if (n->aside.phase == ASIDE_PROBE)
        n->aside.phase = ASIDE_TRYING;
}

void node_aside_clear(struct cluster *c, struct node *n)
{
    bool was = n->aside.phase != ASIDE_NO;
    if (!was && n->aside.failures == 0)
        return;
    n->aside = (struct node_aside){0};
    if (!was)
        return;
    node_dirty(c, n);
    node_timer_arm(c);
    show(c, n);
}

static bool too_many(const struct cluster *c)
{
    unsigned all = 0, aside = 1;
    for (const struct node *n = c->nodes; n; n = n->hh.next) {
        bool counts = n->approved && n->state != NODE_LOST && n->state != NODE_LEFT;
        all += counts;
        aside += counts && n->aside.phase != ASIDE_NO;
    }
    return aside * 2 > all;
}

static void set_aside(struct cluster *c, struct node *n, const struct task *t)
{
    struct node_aside *a = &n->aside;
    char at[CLOCK_TEXT_BYTES], name[256];
    if (a->pause.failures == 0)
        backoff_init(&a->pause, (uint64_t)c->options.aside.pause_ms,
                     (uint64_t)c->options.aside.max_pause_ms);
    int64_t pause = (int64_t)backoff_fail(&a->pause);
    a->phase = ASIDE_PAUSE;
    a->until_boot_ms = clock_boot_ms() + pause;
    clock_format_ms(clock_real_ms() + pause, at);
    task_name(t, name, sizeof(name));
    (void)snprintf(a->reason, sizeof(a->reason),
                   "set aside: %d starts in a row failed there, the last one of %.50s: %.100s; a "
                   "start is tried again at %s",
                   a->failures, name, t->status->reason, at);
    log_warn("nodes", "node %s is %s", n->name, a->reason);
    node_dirty(c, n);
    node_timer_arm(c);
    show(c, n);
}

static void start_failed(struct cluster *c, struct node *n, const struct task *t)
{
    struct node_aside *a = &n->aside;
    if (a->failures++ == 0) {
        (void)snprintf(a->job, sizeof(a->job), "%s", t->job->id);
        a->jobs_differ = false;
    }
    a->jobs_differ |= strcmp(a->job, t->job->id) != 0;
    bool again = a->phase == ASIDE_PROBE || a->phase == ASIDE_TRYING;
    bool first = a->phase == ASIDE_NO && c->options.aside.failures > 0 && a->jobs_differ &&
                 a->failures >= c->options.aside.failures && !too_many(c);
    if (first || again)
        set_aside(c, n, t);
}

void node_aside_ended(struct cluster *c, struct node *n, const struct task *t)
{
    const struct attempt_status *s = t->status;
    if (s->started_ms)
        return; // the end of a start that worked, maybe long ago
    if (s->cause == CAUSE_ENGINE && !s->pull)
        start_failed(c, n, t);
    else if (n->aside.phase == ASIDE_TRYING) // the probe told nothing
        open_probe(c, n);
}
