// SPDX-License-Identifier: Apache-2.0
// How a job that is over goes, with its records and logs. It leaves all lists at once; its tasks'
// logs, which may be 100,000, and an array's elements go a few at a time, the next when the
// deletion of these is durable. Until then the job's record says `deleting`, so that a restart goes
// on with it.
#include "master/cluster/array.h"
#include "master/cluster/cluster_internal.h"
#include "master/scheduler/scheduler.h"

#include <utlist.h>

#define STEP_JOBS 50 // of jobs and logs: some milliseconds' work on the disk

// Logs of tasks from logs_at on, while *left is more than 0; it counts them. Whether none is left.
static bool forget_logs(struct cluster *c, struct job *j, int *left)
{
    for (; j->logs_at<j->n_tasks && * left> 0; j->logs_at++) {
        const struct task *t = &j->tasks[j->logs_at];
        for (int p = 0; p < t->n_previous; p++)
            c->options.forget_logs(t->previous[p], c->options.userdata);
        if (t->attempt_id[0])
            c->options.forget_logs(t->attempt_id, c->options.userdata);
        *left -= t->n_previous + (t->attempt_id[0] != '\0');
    }
    return j->logs_at == j->n_tasks;
}

int job_forget_logs(struct cluster *c, struct job *j, int most)
{
    struct elements *x = j->elements;
    int left = most - 1;
    for (; x && x->without_logs < j->spec->array.count; x->without_logs++) {
        struct job *element = x->made[x->without_logs];
        if (element && (left <= 0 || !forget_logs(c, element, &left)))
            return most - left;
        left -= element != NULL;
    }
    if (forget_logs(c, j, &left)) {
        j->logs_gone = true;
        job_dirty(c, j);
    }
    return most - left;
}

// Nobody finds it any more.
static void leave(struct cluster *c, struct job *j)
{
    for (int i = 0; i < j->n_tasks; i++)
        if (j->tasks[i].entry)
            assignment_remove(c, j->tasks[i].node, j->tasks[i].entry);
    scheduler_job_gone(c, j);
    job_unlink(c, j);
    j->logs_at = 0; // those that were late may have come since the others went
}

static void forget(struct cluster *c, struct job *j)
{
    j->deleted = true;
    job_dirty(c, j); // freed once its records' deletion is in the batch
}

// Whether the array has no elements any more.
static bool drop_elements(struct cluster *c, struct job *j, int *left)
{
    struct elements *x = j->elements;
    for (; x && x->cursor<j->spec->array.count && * left> 0; x->cursor++) {
        struct job *element = x->made[x->cursor];
        if (!element)
            continue;
        if (!forget_logs(c, element, left))
            return false;
        forget(c, element);
        x->made[x->cursor] = NULL;
        --*left;
    }
    return !x || x->cursor == j->spec->array.count;
}

static void step(int result, void *userdata)
{
    struct cluster *c = userdata;
    struct job *j = c->dropping;
    int left = STEP_JOBS;
    c->drop_busy = false;
    if (result < 0 || !j)
        return; // closing
    if (drop_elements(c, j, &left) && forget_logs(c, j, &left)) {
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

int job_drop(struct cluster *c, struct job *j)
{
    int left = STEP_JOBS;
    for (int i = 0; j->elements && i < j->spec->array.count; i++)
        if (j->elements->made[i])
            leave(c, j->elements->made[i]);
    leave(c, j);
    if (!j->elements && forget_logs(c, j, &left)) {
        forget(c, j);
        return STEP_JOBS - left;
    }
    if (j->elements)
        j->elements->cursor = 0;
    j->deleting = true;
    job_dirty(c, j);
    DL_APPEND2(c->dropping, j, history_prev, history_next);
    job_drop_look(c);
    return STEP_JOBS - left;
}

void job_drop_start(struct cluster *c)
{
    struct job *next;
    for (struct job *j = c->oldest; j; j = next) {
        next = j->next;
        if (j->deleting)
            (void)job_drop(c, j);
    }
}

void job_drop_free(struct cluster *c)
{
    struct job *j, *next;
    DL_FOREACH_SAFE2(c->dropping, j, next, history_next)
    {
        for (int i = 0; j->elements && i < j->spec->array.count; i++)
            if (j->elements->made[i])
                job_free(j->elements->made[i]);
        job_free(j);
    }
}
