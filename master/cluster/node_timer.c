// SPDX-License-Identifier: Apache-2.0
// One timer for what is due on nodes by CLOCK_BOOTTIME: deadlines of drains, pauses of nodes that
// are set aside.
#include "common/clock.h"
#include "master/cluster/cluster_internal.h"

static void on_timer(uv_timer_t *timer)
{
    struct cluster *c = timer->data;
    int64_t now = clock_boot_ms();
    for (struct node *n = c->nodes; n; n = n->hh.next) {
        node_drain_look(c, n, now);
        node_aside_look(c, n, now);
    }
    node_timer_arm(c);
}

// uv_timer does not count a suspend: liveness.c, which sees one, arms again.
void node_timer_arm(struct cluster *c)
{
    int64_t at = INT64_MAX, now = clock_boot_ms();
    for (const struct node *n = c->nodes; n; n = n->hh.next) {
        int64_t drain = node_drain_due(n), aside = node_aside_due(n);
        at = drain < at ? drain : at;
        at = aside < at ? aside : at;
    }
    if (at == INT64_MAX)
        (void)uv_timer_stop(&c->node_timer);
    else
        (void)uv_timer_start(&c->node_timer, on_timer, at > now ? (uint64_t)(at - now) : 0, 0);
}
