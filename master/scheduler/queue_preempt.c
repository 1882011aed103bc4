// SPDX-License-Identifier: Apache-2.0
// Which running jobs are stopped for the head of the queue (the rule: queue.h), tried on a copy.
#include "master/scheduler/queue_internal.h"
#include "master/scheduler/trial.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    const struct plan_victim *x = a, *y = b;
    if (x->stopping != y->stopping)
        return x->stopping ? -1 : 1;
    if (x->priority != y->priority)
        return x->priority < y->priority ? -1 : 1;
    if (x->since_ms != y->since_ms)
        return x->since_ms > y->since_ms ? -1 : 1;
    return strcmp(x->id, y->id);
}

static void stop(struct trial *t, const struct plan_victim *v)
{
    for (size_t i = 0; i < v->n_tasks; i++)
        trial_give(t, &v->tasks[i]);
}

static void spare(struct trial *t, const struct plan_victim *v)
{
    for (size_t i = 0; i < v->n_tasks; i++)
        trial_take(t, &v->tasks[i]);
}

// 1, 0, -ENOMEM.
static int fits(struct trial *t)
{
    struct plan_refusals refusals = {0};
    t->job.placed = false;
    int r = plan_try(t->index, &refusals, &t->job);
    if (r == 0 && t->job.placed) {
        plan_untry(t->index, &t->job);
        return 1;
    }
    return r;
}

// How many of the first make room, tried after 1, 2, 4... of them; 0 = not even all.
static int enough(struct trial *t, const struct plan_victim *v, size_t n, size_t *ret)
{
    *ret = 0;
    for (size_t i = 0; i < n; i++) {
        stop(t, &v[i]);
        bool look = i + 1 == n || ((i + 1) & i) == 0;
        int r = look ? fits(t) : 0;
        if (r < 0)
            return r;
        if (r == 1) {
            *ret = i + 1;
            return 0;
        }
    }
    return 0;
}

// Moves those that are needed to the front; their number. -ENOMEM.
static int needed(struct trial *t, struct plan_victim *v, size_t n, size_t *ret)
{
    size_t kept = n;
    for (size_t i = n; i-- > 0;) {
        spare(t, &v[i]);
        int r = fits(t);
        if (r < 0)
            return r;
        if (r == 1) {
            memmove(&v[i], &v[i + 1], (kept - i - 1) * sizeof(*v));
            kept--;
        } else {
            stop(t, &v[i]);
        }
    }
    *ret = kept;
    return 0;
}

// Which of them, beside those that are being stopped; none when these are enough.
static int choose(const struct plan_index *x, const struct plan_job *job, struct plan_victim *v,
                  size_t n, size_t *ret)
{
    struct trial t = {0};
    size_t first = 0;
    *ret = 0;
    int r = trial_copy(&t, x->nodes, x->n, job);
    for (; r == 0 && n > 0 && v->stopping; v++, n--)
        stop(&t, v);
    if (r == 0)
        r = fits(&t);
    if (r == 0)
        r = enough(&t, v, n, &first);
    if (r == 0 && first > 0)
        r = needed(&t, v, first, ret);
    trial_free(&t);
    return r < 0 ? r : 0;
}

static int64_t longest_grace(const struct plan_victim *v, size_t n)
{
    int64_t grace = 0;
    for (size_t i = 0; i < n; i++)
        grace = v[i].grace_ms > grace ? v[i].grace_ms : grace;
    return grace;
}

// Whom to stop for the job, which starts at start_ms without that; none if it is not sooner.
static int victims_for(const struct plan_index *x, const struct plan_queue_run *run,
                       const struct plan_job *job, int64_t start_ms, int64_t now_ms,
                       struct plan_victim **ret, size_t *ret_n)
{
    struct plan_victim *v = NULL;
    size_t n = 0;
    *ret_n = 0;
    int r = run->victims ? run->victims(job->priority, &v, &n, run->userdata) : 0;
    if (r < 0 || n == 0)
        return r;
    qsort(v, n, sizeof(*v), compare);
    r = choose(x, job, v, n, &n);
    while (r == 0 && n > 0 && v->stopping)
        v++;
    if (r < 0 || (start_ms != PLAN_NEVER && start_ms - now_ms <= longest_grace(v, n)))
        return r;
    *ret = v;
    *ret_n = n;
    return 0;
}

int preempt_for(struct plan_queue *q, struct plan_index *x, const struct plan_queue_run *run,
                struct plan_lane *lane)
{
    struct plan_victim *v = NULL;
    size_t n = 0;
    struct plan_job job;
    int r = entry_job(q, lane->first, run, &job);
    if (r == 0)
        r = victims_for(x, run, &job, q->head.start_ms, q->now_ms, &v, &n);
    for (size_t i = 0; r == 0 && i < n; i++)
        run->preempt(q->head.entry, &v[i], run->userdata);
    return r < 0 ? r : n > 0;
}

int plan_queue_foresee(const struct plan_index *x, const struct plan_queue_run *run,
                       const struct plan_job *job, struct plan_forecast *ret)
{
    *ret = (struct plan_forecast){.start_ms = PLAN_NEVER};
    int r = reserve_when(x, run, job, &ret->start_ms);
    if (r == 0)
        r = victims_for(x, run, job, ret->start_ms, run->now_ms, &ret->stopped, &ret->n_stopped);
    if (r == 0 && ret->n_stopped > 0)
        ret->start_ms = run->now_ms + longest_grace(ret->stopped, ret->n_stopped);
    return r;
}
