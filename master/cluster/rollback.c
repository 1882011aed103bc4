// SPDX-License-Identifier: Apache-2.0
// A store that went back (the tail of its file was lost, an older copy was put in its place) knows
// less than the nodes: it is treated as one that was restored from a backup (settle.c). Attempts
// that it forgot were numbered, and users see the numbers: the next one of every task leaves out as
// many as there are lost commits, because each attempt took one.
#include "common/log.h"
#include "master/cluster/cluster_internal.h"

#define LOST_MAX 1000000 // of numbers left out

static int more(int have, int64_t n)
{
    return have + n < LOST_MAX ? (int)(have + n) : LOST_MAX;
}

static void leave_out(struct cluster *c, struct job *j, int64_t n)
{
    if (j->elements) {
        j->attempts_lost = more(j->attempts_lost, n);
        job_dirty(c, j);
    }
    for (int i = 0; i < j->n_tasks; i++) {
        j->tasks[i].attempts_lost = more(j->tasks[i].attempts_lost, n);
        task_dirty(c, &j->tasks[i]);
    }
}

void cluster_rolled_back(struct cluster *c, const struct node *n, int64_t lost, const char *reason)
{
    if (lost <= c->lost_commits)
        return; // another node told that much
    log_error("store", "%s", reason);
    event_emit(
        c, &(struct event_fields){
               .type = "cluster.rolled_back", .object = "cluster", .node = n, .reason = reason});
    for (struct job *j = c->jobs; j; j = j->hh.next) // elements of arrays, too
        if (j->state < JOB_SUCCEEDED)
            leave_out(c, j, lost - c->lost_commits);
    c->lost_commits = lost;
    c->options.restored = true;
    settle_start(c);
}

int64_t cluster_lost_commits(const struct cluster *c)
{
    return c->lost_commits;
}

void cluster_set_epoch(struct cluster *c, int64_t epoch)
{
    c->epoch = epoch;
    for (struct node *n = c->nodes; n; n = n->hh.next) {
        n->applied_generation = 0;
        n->inventory_seen = false;
        n->wants_inventory = true;
    }
}
