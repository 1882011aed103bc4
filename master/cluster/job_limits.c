// SPDX-License-Identifier: Apache-2.0
// Deadlines and limits of waiting: a binary heap, as the queue's.
#include "master/cluster/job_limits.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/units.h"
#include "common/wall_timer.h"
#include "master/cluster/cluster_internal.h"

#include <stdlib.h>

int64_t job_deadline(const struct job *j)
{
    const struct job_spec *s = j->spec;
    return s->deadline_ms == 0 ? 0
           : s->deadline_fixed ? s->deadline_ms
                               : j->submitted_ms + s->deadline_ms;
}

int64_t job_start_by(const struct job *j)
{
    return j->spec->wait_limit_ms ? j->submitted_ms + j->spec->wait_limit_ms : 0;
}

// The next that is to be looked at; 0 = none.
static int64_t due_of(const struct job *j)
{
    if (j->array || j->state >= JOB_STOPPING)
        return 0;
    int64_t deadline = job_deadline(j), start = j->started_ms ? 0 : job_start_by(j);
    return !deadline || (start && start < deadline) ? start : deadline;
}

// --- the heap; a job's place in it is limit_at - 1 ---

static void put(struct cluster *c, size_t at, struct job *j)
{
    c->limits[at] = j;
    j->limit_at = at + 1;
}

static void up(struct cluster *c, size_t at)
{
    struct job *j = c->limits[at];
    for (; at > 0 && j->limit_ms < c->limits[(at - 1) / 2]->limit_ms; at = (at - 1) / 2)
        put(c, at, c->limits[(at - 1) / 2]);
    put(c, at, j);
}

static void down(struct cluster *c, size_t at)
{
    struct job *j = c->limits[at];
    for (size_t child = 2 * at + 1; child < c->n_limits; child = 2 * at + 1) {
        if (child + 1 < c->n_limits && c->limits[child + 1]->limit_ms < c->limits[child]->limit_ms)
            child++;
        if (c->limits[child]->limit_ms >= j->limit_ms)
            break;
        put(c, at, c->limits[child]);
        at = child;
    }
    put(c, at, j);
}

static void drop(struct cluster *c, struct job *j)
{
    size_t at = j->limit_at - 1;
    struct job *last = c->limits[--c->n_limits];
    j->limit_at = 0;
    if (last == j)
        return;
    put(c, at, last);
    down(c, at);
    up(c, last->limit_at - 1);
}

static int add(struct cluster *c, struct job *j)
{
    if (c->n_limits == c->limits_capacity) {
        size_t capacity = c->limits_capacity ? 2 * c->limits_capacity : 64;
        struct job **list = realloc(c->limits, capacity * sizeof(struct job *));
        if (!list)
            return -ENOMEM;
        c->limits = list;
        c->limits_capacity = capacity;
    }
    put(c, c->n_limits++, j);
    up(c, j->limit_at - 1);
    return 0;
}

static void arm(struct cluster *c)
{
    if (c->limit_timer)
        (void)wall_timer_set(c->limit_timer, c->n_limits ? c->limits[0]->limit_ms : 0);
}

void job_limits_update(struct cluster *c, struct job *j)
{
    int64_t due = due_of(j);
    if (j->limit_at && j->limit_ms == due)
        return;
    if (!j->limit_at && !due)
        return;
    if (j->limit_at)
        drop(c, j);
    j->limit_ms = due;
    if (due && add(c, j) < 0)
        log_error("cluster", "out of memory: job %s is not held to its time limits", j->id);
    arm(c);
}

// --- the end ---

static void expire(struct cluster *c, struct job *j, int64_t now_ms)
{
    char reason[REASON_BYTES], limit[UNITS_TEXT_BYTES], when[CLOCK_TEXT_BYTES];
    int64_t deadline = job_deadline(j);
    if (deadline && deadline <= now_ms) {
        clock_format_ms(deadline, when);
        (void)snprintf(reason, sizeof(reason), "its deadline has passed: %s", when);
    } else {
        units_format_duration(j->spec->wait_limit_ms, limit);
        (void)snprintf(reason, sizeof(reason), "it had not started within its wait_limit of %s",
                       limit);
    }
    job_end_begin(c, j, JOB_FAILED, NULL, reason);
    job_refresh(c, j);
}

void job_limits_look(struct cluster *c, int64_t now_ms)
{
    while (c->n_limits && c->limits[0]->limit_ms <= now_ms) {
        struct job *j = c->limits[0];
        expire(c, j, now_ms);
        job_limits_update(c, j); // for the next limit, or none
    }
    arm(c);
}

static void fired(void *userdata)
{
    job_limits_look(userdata, clock_real_ms());
}

int job_limits_start(struct cluster *c, struct err *e)
{
    int r = wall_timer_new(c->options.loop, fired, c, &c->limit_timer, e);
    arm(c);
    return r;
}

void job_limits_stop(struct cluster *c)
{
    wall_timer_close(c->limit_timer);
    c->limit_timer = NULL;
}

void job_limits_free(struct cluster *c)
{
    free(c->limits);
}
