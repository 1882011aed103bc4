// SPDX-License-Identifier: Apache-2.0
// How a job that is over goes, with its records and logs. It leaves all lists at once; an array's
// elements, which may be 100,000 with a log each, go a few at a time, the next when the deletion of
// these is durable. Until then the array's record says `deleting`, so that a restart goes on with
// it.
#include "master/cluster/array.h"
#include "master/cluster/cluster_internal.h"
#include "master/scheduler/scheduler.h"

#include <utlist.h>

#define STEP_JOBS 50 // about a millisecond's work on the disk

static void forget_logs(struct cluster *c, const struct job *j)
{
    for (int i = 0; i < j->n_tasks; i++) {
        const struct task *t = &j->tasks[i];
        for (int p = 0; p < t->n_previous; p++)
            c->options.forget_logs(t->previous[p], c->options.userdata);
        if (t->attempt_id[0])
            c->options.forget_logs(t->attempt_id, c->options.userdata);
    }
}

int job_forget_logs(struct cluster *c, struct job *j, int most)
{
    struct elements *x = j->elements;
    int n = 1;
    for (; x && x->without_logs < j->spec->array.count; x->without_logs++) {
        const struct job *element = x->made[x->without_logs];
        if (!element)
            continue;
        if (n >= most)
            return n;
        forget_logs(c, element);
        n++;
    }
    forget_logs(c, j);
    j->logs_gone = true;
    job_dirty(c, j);
    return n;
}

// Nobody finds it any more.
static void leave(struct cluster *c, struct job *j)
{
    for (int i = 0; i < j->n_tasks; i++)
        if (j->tasks[i].entry)
            assignment_remove(c, j->tasks[i].node, j->tasks[i].entry);
    scheduler_job_gone(c, j);
    job_unlink(c, j);
}

static void forget(struct cluster *c, struct job *j)
{
    forget_logs(c, j);
    j->deleted = true;
    job_dirty(c, j); // freed once its records' deletion is in the batch
}

// Whether the array has no elements any more.
static bool drop_elements(struct cluster *c, struct job *j)
{
    struct elements *x = j->elements;
    int i = x->cursor, n = 0;
    for (; i < j->spec->array.count && n < STEP_JOBS; i++)
        if (x->made[i]) {
            forget(c, x->made[i]);
            x->made[i] = NULL;
            n++;
        }
    x->cursor = i;
    return i == j->spec->array.count;
}

static void step(int result, void *userdata)
{
    struct cluster *c = userdata;
    struct job *j = c->dropping;
    c->drop_busy = false;
    if (result < 0 || !j)
        return; // closing
    if (drop_elements(c, j)) {
        DL_DELETE2(c->dropping, j, history_prev, history_next);
        forget(c, j);
    }
    job_drop_look(c);
}

void job_drop_look(struct cluster *c)
{
    if (c->dropping && !c->drop_busy)
        c->drop_busy = commit_then(c->commit, 0, step, c) == 0;
}

void job_drop(struct cluster *c, struct job *j)
{
    for (int i = 0; j->elements && i < j->spec->array.count; i++)
        if (j->elements->made[i])
            leave(c, j->elements->made[i]);
    leave(c, j);
    if (!j->elements) {
        forget(c, j);
        return;
    }
    j->elements->cursor = 0;
    j->deleting = true;
    job_dirty(c, j);
    DL_APPEND2(c->dropping, j, history_prev, history_next);
    job_drop_look(c);
}

void job_drop_start(struct cluster *c)
{
    struct job *next;
    for (struct job *j = c->oldest; j; j = next) {
        next = j->next;
        if (j->deleting)
            job_drop(c, j);
    }
}

void job_drop_free(struct cluster *c)
{
    struct job *j, *next;
    DL_FOREACH_SAFE2(c->dropping, j, next, history_next)
    {
        for (int i = 0; i < j->spec->array.count; i++)
            if (j->elements->made[i])
                job_free(j->elements->made[i]);
        job_free(j);
    }
}
