// SPDX-License-Identifier: Apache-2.0
// Which nodes are silent. A node that misses three sync intervals is unreachable: nothing is moved.
// The master judges nobody for time in which it was itself away: a late timer moves the judging on
// by a full term, and judging happens only after the sockets were polled.
#include "common/clock.h"
#include "common/log.h"
#include "master/cluster/cluster_internal.h"

#define MISSED 3

static int64_t term_ms(const struct cluster *c)
{
    return c->options.sync_interval_ms * (MISSED + 1);
}

static void judge(struct cluster *c)
{
    int64_t now = clock_boot_ms();
    char reason[REASON_BYTES];
    for (struct node *n = c->nodes; n; n = n->hh.next) {
        int64_t since = n->seen_boot_ms > c->judge_from_ms ? n->seen_boot_ms : c->judge_from_ms;
        if (n->state == NODE_LEFT || n->state == NODE_LOST || n->state == NODE_UNREACHABLE ||
            now - since < term_ms(c))
            continue;
        if (n->seen_boot_ms == 0)
            (void)snprintf(reason, sizeof(reason), "not heard from since the master started");
        else
            (void)snprintf(reason, sizeof(reason), "not heard from for %lld s",
                           (long long)((now - n->seen_boot_ms) / 1000));
        n->connected = false;
        node_set_state(c, n, NODE_UNREACHABLE, reason);
    }
}

static void on_after_poll(uv_check_t *check)
{
    struct cluster *c = check->data;
    (void)uv_check_stop(check);
    judge(c);
    settle_look(c);
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
        r = uv_check_init(c->options.loop, &c->after_poll);
    if (r < 0)
        return r;
    c->handles = 3;
    c->timer.data = c->liveness.data = c->after_poll.data = c;
    c->started_boot_ms = c->judge_from_ms = clock_boot_ms();
    c->liveness_due_ms = c->started_boot_ms + interval;
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
    uv_close((uv_handle_t *)&c->after_poll, on_closed);
}
