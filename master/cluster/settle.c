// SPDX-License-Identifier: Apache-2.0
// After a restore from a backup, or when the store is found to have gone back, it may be behind
// what nodes run: a task that waits in it can be running, even on a node that joined after the
// backup. So nothing is placed until every lease that the old master may have given is over, and
// every node that is there has told what it holds and ended what this store does not know.
#include "common/clock.h"
#include "common/log.h"
#include "master/cluster/cluster_internal.h"

static bool is_settled(const struct node *n)
{
    return n->strangers == 0 && (n->inventory_seen || !n->connected);
}

// A component may have asked for more time than the cluster's lease.
void settle_start(struct cluster *c)
{
    for (const struct job *j = c->options.restored ? c->oldest : NULL; j; j = j->next)
        for (size_t i = 0; i < (size_t)j->spec->n_components; i++)
            if (j->spec->components[i].lost_after_ms > c->options.longest_lease_ms)
                c->options.longest_lease_ms = j->spec->components[i].lost_after_ms;
}

static int64_t leases_left_ms(const struct cluster *c)
{
    int64_t longest = c->options.longest_lease_ms;
    return c->started_boot_ms + longest + lease_margin_ms(longest) - clock_boot_ms();
}

int64_t cluster_settle_ms(const struct cluster *c)
{
    int64_t left = leases_left_ms(c);
    return !c->options.restored ? 0 : left > 0 ? left : 1;
}

bool settle_all_told(const struct cluster *c)
{
    if (leases_left_ms(c) > 0)
        return false;
    for (const struct node *n = c->nodes; n; n = n->hh.next)
        if (!is_settled(n))
            return false;
    return true;
}

void settle_look(struct cluster *c)
{
    if (!c->options.restored || !settle_all_told(c))
        return;
    c->options.restored = false;
    log_info("cluster", "the store is settled: work is placed again");
    cluster_event(c, "cluster.settled", "every node told what it holds, or its lease is over",
                  NULL);
    want_schedule(c);
    if (c->options.settled)
        c->options.settled(c->options.userdata);
}
