// SPDX-License-Identifier: Apache-2.0
// Running jobs that may be stopped for others, and stopping them: all of a job's tasks at once, by
// their own signal and grace; it waits again when the last of them is gone. Such an attempt does
// not count against max_attempts.
#include "common/cleanup.h"
#include "common/clock.h"
#include "master/cluster/cluster_internal.h"
#include "master/scheduler/scheduler.h"
#include "master/scheduler/scheduler_internal.h"

#include <stdlib.h>
#include <utlist.h>

void scheduler_preempt_held(struct cluster *c, struct job *j)
{
    struct scheduler *s = c->scheduler;
    if (!j->spec->preemptible)
        return;
    if (j->n_held > 0) {
        DL_APPEND2(s->preemptible, j, preempt_prev, preempt_next);
        s->preempting += j->preempting; // of a master before us
        return;
    }
    DL_DELETE2(s->preemptible, j, preempt_prev, preempt_next);
    s->preempting -= j->preempting;
    if (j->preempting)
        job_dirty(c, j);
    j->preempting = false;
}

// What it holds is free soon after it was told to stop: all its nodes can be asked.
static bool willing(const struct job *j, int priority)
{
    if (j->spec->priority >= priority || j->state == JOB_STOPPING || j->preempting)
        return false;
    for (int i = 0; i < j->n_tasks; i++)
        if (j->tasks[i].holds_node && (!j->tasks[i].node || j->tasks[i].node->state != NODE_READY))
            return false;
    return true;
}

static bool frees(const struct task *t, int64_t now_ms)
{
    return t->holds_node && !scheduler_task_stuck(t, now_ms);
}

// It is being stopped, and something of it will be free soon.
static bool awaited(const struct job *j, int64_t now_ms)
{
    for (int i = 0; j->preempting && i < j->n_tasks; i++)
        if (frees(&j->tasks[i], now_ms))
            return true;
    return false;
}

int scheduler_preempting(const struct scheduler *s)
{
    int64_t now_ms = clock_real_ms();
    int n = 0;
    for (const struct job *j = s->preempting ? s->preemptible : NULL; j; j = j->preempt_next)
        n += awaited(j, now_ms);
    return n;
}

static int reserve(struct scheduler *s, size_t jobs, size_t tasks)
{
    struct plan_victim *v = realloc(s->victims, (jobs + 1) * sizeof(*v));
    if (v)
        s->victims = v;
    struct plan_running *t = realloc(s->victim_tasks, (tasks + 1) * sizeof(*t));
    if (t)
        s->victim_tasks = t;
    return v && t ? 0 : -ENOMEM;
}

static void fill(struct cluster *c, struct job *j, int64_t now_ms, struct plan_victim *v,
                 struct plan_running *to)
{
    *v = (struct plan_victim){.id = j->id,
                              .priority = j->spec->priority,
                              .tasks = to,
                              .stopping = j->preempting,
                              .job = j};
    for (int i = 0; i < j->n_tasks; i++) {
        const struct task *t = &j->tasks[i];
        if (!frees(t, now_ms))
            continue;
        to[v->n_tasks++] = scheduler_running_task(c, t, now_ms);
        v->since_ms = t->assigned_ms > v->since_ms ? t->assigned_ms : v->since_ms;
        int64_t grace = task_component(t)->grace_ms;
        v->grace_ms = grace > v->grace_ms ? grace : v->grace_ms;
    }
}

int scheduler_victims(int priority, struct plan_victim **ret, size_t *ret_n, void *userdata)
{
    struct cluster *c = ((const struct turn *)userdata)->c;
    struct scheduler *s = c->scheduler;
    int64_t now_ms = clock_real_ms();
    size_t jobs = 0, tasks = 0;
    bool some = false;
    *ret_n = 0;
    for (const struct job *j = s->preemptible; j; j = j->preempt_next) {
        some |= willing(j, priority);
        jobs++;
        tasks += (size_t)j->n_held;
    }
    if (!some)
        return 0;
    if (reserve(s, jobs, tasks) < 0)
        return -ENOMEM;
    tasks = 0;
    for (struct job *j = s->preemptible; j; j = j->preempt_next)
        if (j->preempting || willing(j, priority)) {
            fill(c, j, now_ms, &s->victims[*ret_n], &s->victim_tasks[tasks]);
            tasks += s->victims[(*ret_n)++].n_tasks;
        }
    *ret = s->victims;
    return 0;
}

void scheduler_preempt(const struct plan_entry *e, const struct plan_victim *v, void *userdata)
{
    struct cluster *c = ((const struct turn *)userdata)->c;
    const struct job *by = container_of(e, struct job, entry);
    struct job *j = v->job;
    j->preempting = true;
    plan_queue_remove(c->scheduler->queue, &j->entry); // its tasks that wait come back with it
    c->scheduler->preempting++;
    char reason[REASON_BYTES];
    (void)snprintf(reason, sizeof(reason),
                   "stopped for job %s (%s), priority %d: starts again when there is room",
                   by->name, by->id, by->spec->priority);
    reason_set(&j->reason, reason);
    job_dirty(c, j);
    event_emit(c, &(struct event_fields){
                      .type = "job.preempted", .object = "job", .job = j, .reason = j->reason});
    for (int i = 0; i < j->n_tasks; i++)
        if (j->tasks[i].holds_node)
            task_move(c, &j->tasks[i], j->reason);
}

void scheduler_preempt_over(struct cluster *c, struct job *j)
{
    if (!j->spec->preemptible || !j->reason[0])
        return;
    reason_set(&j->reason, "");
    job_dirty(c, j);
}
