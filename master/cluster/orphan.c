// SPDX-License-Identifier: Apache-2.0
// Orphans: attempts that run on a node and whose job this master does not know (its store is older
// than they are, or empty). Somebody may want what they do, so they are kept running, with their
// leases, and shown; their node gets no new work meanwhile, as what they hold of it is not known.
// An operator ends them, or their time does. An attempt of a job that is known, but not the one
// that it runs now, is no orphan: it was given away and is stopped at once.
#include "common/clock.h"
#include "common/json.h"
#include "master/cluster/cluster_internal.h"

#include <stdlib.h>
#include <string.h>

bool orphan_keep(struct cluster *c, struct node *n, const struct attempt_status *s)
{
    if (c->options.orphans_ms == 0 || s->state != ATTEMPT_RUNNING || !job_id_is(s->job) ||
        cluster_job_by_id(c, s->job))
        return false;
    struct assignment *a = calloc(1, sizeof(*a));
    if (!a)
        return false; // then it is a stranger, and stopped
    (void)snprintf(a->id, sizeof(a->id), "%s", s->id);
    (void)snprintf(a->orphan_of, sizeof(a->orphan_of), "%s", s->job);
    a->orphan_until_boot_ms = clock_boot_ms() + (n->drain.over ? 0 : c->options.orphans_ms);
    a->desired = DESIRED_RUN;
    assignment_adopt(c, n, a, s->state);
    n->orphans++;
    node_emit(c, n, "node.orphan", NULL, s->job);
    return true;
}

void orphan_gone(struct cluster *c, struct node *n, struct assignment *a)
{
    if (!a->orphan_of[0])
        return;
    a->orphan_of[0] = '\0';
    n->orphans--;
    c->options.forget_logs(a->id, c->options.userdata);
}

void orphan_expire(struct cluster *c, struct node *n, int64_t now_boot_ms)
{
    for (struct assignment *a = n->orphans ? n->assignments : NULL; a; a = a->hh.next)
        if (a->orphan_of[0] && now_boot_ms >= a->orphan_until_boot_ms)
            assignment_stop(c, n, a);
}

void cluster_node_stop_orphans(struct cluster *c, struct node *n, const char *user)
{
    if (n->orphans > 0)
        node_emit(c, n, "node.orphans_stopped", user, NULL);
    orphan_expire(c, n, INT64_MAX);
}

json_t *orphans_view(const struct node *n)
{
    json_t *list = json_array();
    int64_t real = clock_real_ms(), boot = clock_boot_ms();
    for (const struct assignment *a = n->orphans ? n->assignments : NULL; a; a = a->hh.next) {
        if (!a->orphan_of[0])
            continue;
        json_t *one = json_object();
        json_put_str(one, "attempt", a->id);
        json_put_str(one, "job", a->orphan_of);
        json_put_bool(one, "stopping", a->desired == DESIRED_STOP);
        json_put_time(one, "until", real + a->orphan_until_boot_ms - boot);
        (void)json_array_append_new(list, one);
    }
    return list;
}
