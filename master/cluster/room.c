// SPDX-License-Identifier: Apache-2.0
// Room on nodes' disks, from their reports. A node that is full to the limit gets no new work until
// it is clearly below again; what runs there runs on.
#include "common/json.h"
#include "common/units.h"
#include "master/cluster/cluster_internal.h"

#define BELOW 2 // percent, so that one task's log does not make it come and go

int room_used_percent(int64_t total, int64_t free)
{
    if (total <= 0 || total > INT64_MAX / 100 || free < 0 || free > total)
        return 0;
    return (int)((total - free) * 100 / total);
}

void room_refresh(struct cluster *c, struct node *n)
{
    char left[32];
    int64_t total = json_opt_i64(json_object_get(n->info, "disk"), "total", 0);
    int64_t free = json_opt_i64(n->usage, "disk_free", -1);
    int limit = (int)c->options.disk_full_percent;
    bool was_full = n->disk_full;
    n->disk_percent = room_used_percent(total, free);
    n->disk_full = limit > 0 && n->disk_percent >= (n->disk_full ? limit - BELOW : limit);
    if (was_full && !n->disk_full)
        node_aside_mended(c, n);
    if (!n->disk_full)
        return;
    units_format_memory(free, left);
    (void)snprintf(n->disk_reason, sizeof(n->disk_reason),
                   "its disk is %d %% full (%s left): no new work from %d %% on", n->disk_percent,
                   left, limit);
}
