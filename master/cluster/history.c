// SPDX-License-Identifier: Apache-2.0
// Jobs that are over are kept up to a number and an age; then they go with their records and logs,
// the one that ended first goes first. A few at a time: the next ones only when the deletion of
// these is durable, so that other work of the store comes between. Logs are bounded in bytes, too:
// those that are nobody's go first (lost_logs.c), then those of the job that ended first; its
// record stays. An array is one of them, and as
// much work and room as its elements: it counts with those that were made.
#include "common/clock.h"
#include "master/cluster/array.h"
#include "master/cluster/cluster_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <utlist.h>

#define STEP_JOBS 50

// The array is over: what is made of it later only shows what it was.
static int size_of(const struct job *j)
{
    int size = 1;
    for (int s = 0; j->elements && s < JOB_STATE_MAX; s++)
        size += j->elements->n[s];
    return size;
}

void history_add(struct cluster *c, struct job *j)
{
    if (j->array || !c->jobs_listed) // an element goes with its array
        return;
    j->in_history = true;
    DL_APPEND2(c->history, j, history_prev, history_next);
    j->history_size = size_of(j);
    c->n_history += j->history_size;
    if (!c->history_logs)
        c->history_logs = j;
}

void history_remove(struct cluster *c, struct job *j)
{
    if (!j->in_history)
        return;
    j->in_history = false;
    if (c->history_logs == j)
        c->history_logs = j->history_next;
    DL_DELETE2(c->history, j, history_prev, history_next);
    c->n_history -= j->history_size;
}

int history_start(struct cluster *c)
{
    size_t n = 0;
    struct job_key *keys = calloc((size_t)cluster_job_count(c) + 1, sizeof(*keys));
    if (!keys)
        return -ENOMEM;
    for (struct job *j = c->oldest; j; j = j->next)
        if (j->state >= JOB_SUCCEEDED && !j->in_history)
            keys[n++] = (struct job_key){j->ended_ms, j->order, j};
    jobs_sort(keys, n);
    for (size_t i = 0; i < n; i++)
        history_add(c, keys[i].job);
    free(keys);
    return 0;
}

// Without it there are still as many as are kept; so an array larger than that is kept, too, until
// as many have ended after it.
static bool too_many(const struct cluster *c, const struct job *j)
{
    int64_t most = c->options.history.jobs;
    return j && most > 0 && c->n_history - j->history_size >= most;
}

static bool too_old(const struct cluster *c, const struct job *j)
{
    int64_t age = c->options.history.age_ms;
    return j && age > 0 && clock_real_ms() - j->ended_ms > age;
}

// What is deleted by its age does not come back when the clock turns out to be wrong: the nodes
// have to agree with it. They are asked only when something is due.
static bool old_may_go(const struct cluster *c)
{
    return too_old(c, c->history) && clock_agreed(c, 0);
}

static bool too_much(const struct cluster *c)
{
    int64_t most = c->options.history.log_bytes;
    return most > 0 && c->options.logs_kept && c->options.logs_kept(c->options.userdata) > most;
}

// While it is being found out whose logs there are, nobody's might go in the place of lost ones.
static bool logs_due(const struct cluster *c)
{
    return c->history_logs && !c->lost.walking && too_much(c);
}

// Of a few; of how many, elements too.
static int forget_logs(struct cluster *c)
{
    int n = 0;
    while (n < STEP_JOBS && lost_logs_drop(c, too_much(c)))
        n++;
    while (logs_due(c) && n < STEP_JOBS) {
        struct job *j = c->history_logs;
        bool gone = j->logs_gone;
        n += gone ? 0 : job_forget_logs(c, j, STEP_JOBS);
        if (j->logs_gone)
            c->history_logs = j->history_next;
        if (j->logs_gone && !gone)
            c->history_logs_gone++;
    }
    return n;
}

static void step(int result, void *userdata)
{
    struct cluster *c = userdata;
    char text[96];
    int n = 0;
    c->history_busy = false;
    if (result < 0)
        return; // closing
    bool old = old_may_go(c);
    for (struct job *j = c->history, *next;
         n < STEP_JOBS && (too_many(c, j) || (old && too_old(c, j))); j = next) {
        next = j->history_next;
        if (j->dependents || j->ended_listed || j->dirty)
            continue;                    // what waits for it comes first
        n += 1 + j->history_size / 1000; // its elements leave the lists at once
        n += job_drop(c, j);
        c->history_gone++;
    }
    n += forget_logs(c);
    if (n > 0) {
        c->history_busy = commit_then(c->commit, 0, step, c) == 0;
        return;
    }
    (void)snprintf(text, sizeof(text), "%" PRId64 " jobs that were over: `history` in master.yml",
                   c->history_gone);
    if (c->history_gone > 0)
        cluster_event(c, "cluster.history_trimmed", text, NULL);
    (void)snprintf(text, sizeof(text), "%" PRId64 " jobs: `history.logs` in master.yml",
                   c->history_logs_gone);
    if (c->history_logs_gone > 0)
        cluster_event(c, "cluster.logs_trimmed", text, NULL);
    c->history_gone = c->history_logs_gone = 0;
    lost_logs_told(c);
}

void history_look(struct cluster *c)
{
    if (!c->history_busy && !c->options.restored &&
        (too_many(c, c->history) || old_may_go(c) || logs_due(c) || lost_logs_due(c, too_much(c))))
        step(0, c);
}
