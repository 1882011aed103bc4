// SPDX-License-Identifier: Apache-2.0
// Jobs that are over are kept up to a number and an age; then they go with their records and logs,
// the one that ended first goes first. A few at a time: the next ones only when the deletion of
// these is durable, so that other work of the store comes between.
#include "common/clock.h"
#include "master/cluster/cluster_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <utlist.h>

#define STEP_JOBS 50

void history_add(struct cluster *c, struct job *j)
{
    if (j->array || !c->jobs_listed) // an element goes with its array
        return;
    j->in_history = true;
    DL_APPEND2(c->history, j, history_prev, history_next);
    c->n_history++;
}

void history_remove(struct cluster *c, struct job *j)
{
    if (!j->in_history)
        return;
    j->in_history = false;
    DL_DELETE2(c->history, j, history_prev, history_next);
    c->n_history--;
}

static int by_end(const struct job *a, const struct job *b)
{
    return a->ended_ms < b->ended_ms ? -1 : a->ended_ms > b->ended_ms;
}

void history_start(struct cluster *c)
{
    c->history_zero_ms = clock_real_ms() - clock_boot_ms();
    for (struct job *j = c->oldest; j; j = j->next)
        if (j->state >= JOB_SUCCEEDED && !j->in_history)
            history_add(c, j);
#define next history_next // DL_SORT knows no other names
#define prev history_prev
    DL_SORT(c->history, by_end);
#undef next
#undef prev
}

// A wall clock that is set while the master runs makes nothing older.
static bool due(const struct cluster *c, const struct job *j)
{
    int64_t now = c->history_zero_ms + clock_boot_ms();
    int64_t age = c->options.history.age_ms, most = c->options.history.jobs;
    return j && ((most > 0 && c->n_history > most) || (age > 0 && now - j->ended_ms > age));
}

static void step(int result, void *userdata)
{
    struct cluster *c = userdata;
    char text[96];
    int n = 0;
    c->history_busy = false;
    if (result < 0)
        return; // closing
    for (struct job *j = c->history, *next; due(c, j) && n < STEP_JOBS; j = next, n++) {
        next = j->history_next;
        if (j->dependents || j->ended_listed || j->dirty)
            continue; // what waits for it comes first
        job_drop(c, j);
        c->history_gone++;
    }
    if (n > 0) {
        c->history_busy = commit_then(c->commit, 0, step, c) == 0;
        return;
    }
    (void)snprintf(text, sizeof(text), "%" PRId64 " jobs that were over: `history` in master.yml",
                   c->history_gone);
    if (c->history_gone > 0)
        cluster_event(c, "cluster.history_trimmed", text, NULL);
    c->history_gone = 0;
}

void history_look(struct cluster *c)
{
    if (!c->history_busy && !c->options.restored && due(c, c->history))
        step(0, c);
}
