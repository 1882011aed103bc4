// SPDX-License-Identifier: Apache-2.0
// Logs that were on the disk at the start and whose attempts no job here has had: the store was
// rolled back or emptied, or a crash came between a job's deletion and its logs'. A backup may
// still bring their jobs back, so they are kept while there is room; but where `history.logs` wants
// some, they go before anybody else's, and after `history.age` like the rest. Who is known is asked
// once, in steps, when every node has told what it holds or its lease is over: an orphan's log is
// its orphan's.
#include "common/clock.h"
#include "common/log.h"
#include "master/cluster/array.h"
#include "master/cluster/cluster_internal.h"
#include "master/logs/log_store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define STEP_TASKS 10000 // looked at in one step: some milliseconds

void cluster_logs_found(struct kept_log *logs, size_t n, void *cluster)
{
    struct cluster *c = cluster;
    c->lost = (struct lost_logs){.logs = logs, .n = n, .asking = n > 0};
}

static int by_attempt(const void *id, const void *log)
{
    return strcmp(id, ((const struct kept_log *)log)->attempt);
}

static void know(struct cluster *c, const char *attempt)
{
    struct kept_log *l =
        !attempt[0] ? NULL
                    : bsearch(attempt, c->lost.logs, c->lost.n, sizeof(*c->lost.logs), by_attempt);
    if (l)
        l->known = true;
}

static int know_tasks(struct cluster *c, const struct job *j)
{
    for (int i = 0; i < j->n_tasks; i++) {
        const struct task *t = &j->tasks[i];
        know(c, t->attempt_id);
        for (int p = 0; p < t->n_previous; p++)
            know(c, t->previous[p]);
    }
    return 1 + j->n_tasks;
}

// The job, or as many of its elements as are still to be looked at in this step. How many tasks.
static int know_job(struct cluster *c, const struct job *j, int most)
{
    const struct elements *x = j->elements;
    int n = know_tasks(c, j), count = j->spec->array.count;
    for (; x && c->lost.element < count && n < most; c->lost.element++)
        if (x->made[c->lost.element])
            n += know_tasks(c, x->made[c->lost.element]);
    if (!x || c->lost.element >= count)
        lost_logs_job_gone(c, j); // on to the next
    return n;
}

// What nodes hold besides: orphans, and attempts that only their logs keep.
static void know_nodes(struct cluster *c)
{
    for (const struct node *n = c->nodes; n; n = n->hh.next)
        for (const struct assignment *a = n->assignments; a; a = a->hh.next)
            if (!a->task)
                know(c, a->id);
}

static int by_time(const void *a, const void *b)
{
    int64_t x = ((const struct kept_log *)a)->written_ms;
    int64_t y = ((const struct kept_log *)b)->written_ms;
    return x < y ? -1 : x > y;
}

// What is left of the list is nobody's: the one that was written longest ago goes first.
static void asked(struct cluster *c)
{
    struct lost_logs *x = &c->lost;
    size_t n = 0;
    x->asking = x->walking = false;
    know_nodes(c);
    for (size_t i = 0; i < x->n; i++)
        if (!x->logs[i].known)
            x->logs[n++] = x->logs[i];
    x->n = n;
    if (n == 0) {
        free(x->logs);
        *x = (struct lost_logs){0};
        return;
    }
    struct kept_log *less = realloc(x->logs, n * sizeof(*less));
    x->logs = less ? less : x->logs;
    qsort(x->logs, n, sizeof(*x->logs), by_time);
    log_info("logs", "%zu logs are of attempts that no job here has had: they go first", n);
}

void lost_logs_look(struct cluster *c)
{
    if (!c->lost.asking || c->options.restored || (!c->lost.walking && !settle_all_told(c)))
        return;
    if (!c->lost.walking)
        c->lost.job = c->oldest;
    c->lost.walking = true;
    for (int n = 0; c->lost.job && n < STEP_TASKS;)
        n += know_job(c, c->lost.job, STEP_TASKS - n);
    if (!c->lost.job)
        asked(c);
}

void lost_logs_job_gone(struct cluster *c, const struct job *j)
{
    if (c->lost.job != j)
        return;
    c->lost.job = j->next;
    c->lost.element = 0;
}

static struct kept_log *next(const struct cluster *c)
{
    return !c->lost.asking && c->lost.at < c->lost.n ? &c->lost.logs[c->lost.at] : NULL;
}

bool lost_logs_due(const struct cluster *c, bool room)
{
    int64_t age = c->options.history.age_ms;
    const struct kept_log *l = next(c);
    return l && (room || (age > 0 && clock_real_ms() - l->written_ms > age && clock_agreed(c, 0)));
}

// An orphan that was heard of since.
static bool is_held(const struct cluster *c, const char *attempt)
{
    for (struct node *n = c->nodes; n; n = n->hh.next)
        if (n->orphans > 0 && assignment_find(n, attempt))
            return true;
    return false;
}

bool lost_logs_drop(struct cluster *c, bool room)
{
    if (!lost_logs_due(c, room))
        return false;
    const char *attempt = next(c)->attempt;
    if (!is_held(c, attempt)) {
        c->options.forget_logs(attempt, c->options.userdata);
        c->lost.gone++;
    }
    c->lost.at++;
    return true;
}

void lost_logs_told(struct cluster *c)
{
    char text[96];
    (void)snprintf(text, sizeof(text), "%" PRId64 " of attempts that this store does not know",
                   c->lost.gone);
    if (c->lost.gone > 0)
        cluster_event(c, "cluster.logs_trimmed", text, NULL);
    c->lost.gone = 0;
}
