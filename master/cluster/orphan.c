// SPDX-License-Identifier: Apache-2.0
// Orphans: attempts that run on a node and whose job this master does not know (its store is older
// than they are, or empty). Somebody may want what they do, so they are kept running, with their
// leases, and shown. What they take of their node is not free for others, as their agent says; one
// that does not (an older agent) gets no new work meanwhile. An operator ends them, or their time
// does, which is stored with the node. An attempt of a job that is known, but not the one that it
// runs now, is no orphan: it was given away and is stopped at once.
#include "common/clock.h"
#include "common/json.h"
#include "master/cluster/cluster_internal.h"

#include <stdlib.h>
#include <string.h>

// When it is stopped: as an earlier master said, unless it would be stopped sooner now.
static int64_t until(const struct cluster *c, const struct node *n, const char *id)
{
    int64_t at = clock_boot_ms() + (n->drain.over ? 0 : c->options.orphans_ms);
    const json_t *said = json_object_get(n->orphan_times, id);
    int64_t real = json_opt_time(said, "until");
    int64_t then = real ? json_opt_boot(said, "until_boot_ms", real) : at;
    return then < at ? then : at;
}

static int take(struct cluster *c, struct node *n, struct assignment *a,
                const struct attempt_holds *holds)
{
    a->holds = calloc(1, sizeof(*a->holds));
    if (!a->holds)
        return -ENOMEM;
    if (holds)
        *a->holds = *holds;
    n->orphans_unknown += !a->holds->known;
    node_orphan_holds(c, n, a->holds, 1);
    return 0;
}

bool orphan_keep(struct cluster *c, struct node *n, const struct attempt_status *s,
                 const struct attempt_holds *holds)
{
    if (c->options.orphans_ms == 0 || s->state != ATTEMPT_RUNNING || !job_id_is(s->job) ||
        cluster_job_by_id(c, s->job))
        return false;
    struct assignment *a = calloc(1, sizeof(*a));
    if (!a)
        return false; // then it is a stranger, and stopped
    (void)snprintf(a->id, sizeof(a->id), "%s", s->id);
    (void)snprintf(a->orphan_of, sizeof(a->orphan_of), "%s", s->job);
    a->orphan_until_boot_ms = until(c, n, a->id);
    a->desired = DESIRED_RUN;
    assignment_adopt(c, n, a, s->state);
    n->orphans++;
    if (take(c, n, a, holds) < 0)
        assignment_stop(c, n, a);
    node_dirty(c, n);
    node_emit(c, n, "node.orphan", NULL, s->job);
    return true;
}

void orphan_ended(struct cluster *c, struct node *n, struct assignment *a)
{
    struct attempt_holds *h = a->holds;
    if (!h)
        return;
    a->holds = NULL;
    n->orphans_unknown -= !h->known;
    node_orphan_holds(c, n, h, -1);
    free(h);
}

void orphan_gone(struct cluster *c, struct node *n, struct assignment *a)
{
    if (!a->orphan_of[0])
        return;
    orphan_ended(c, n, a);
    a->orphan_of[0] = '\0';
    n->orphans--;
    if (n->orphans == 0)
        node_emit(c, n, "node.orphans_gone", NULL, NULL);
    node_dirty(c, n);
    c->options.forget_logs(a->id, c->options.userdata);
}

// Those that are not heard of again yet keep the time they have.
json_t *orphans_to_record(const struct node *n)
{
    int64_t real = clock_real_ms() - clock_boot_ms();
    json_t *all = n->orphan_times ? json_copy(n->orphan_times) : json_object();
    for (const struct assignment *a = n->orphans ? n->assignments : NULL; a; a = a->hh.next) {
        if (!a->orphan_of[0])
            continue;
        json_t *one = json_object();
        json_put_time(one, "until", real + a->orphan_until_boot_ms);
        json_put_boot(one, "until_boot_ms", a->orphan_until_boot_ms);
        json_put(all, a->id, one);
    }
    return all;
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
        json_put(one, "holds", json_null());
        if (a->holds)
            attempt_holds_put(one, a->holds);
        (void)json_array_append_new(list, one);
    }
    return list;
}
