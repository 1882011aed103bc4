// SPDX-License-Identifier: Apache-2.0
// Deadlines and limits of waiting: a binary heap, as the queue's.
#include "master/cluster/job_limits.h"

#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "common/units.h"
#include "common/wall_timer.h"
#include "master/cluster/cluster_internal.h"

#include <stdlib.h>

// A moment that is counted from the submission, as one of the wall clock as it is now. Without a
// step of that clock it is the submission's and the time, to the millisecond.
static int64_t real_of(const struct job *j, int64_t after_ms)
{
    int64_t then = clock_real_ms() - clock_boot_ms() + j->submitted_boot_ms;
    int64_t step = then - j->submitted_ms;
    return (step > -1000 && step < 1000 ? j->submitted_ms : then) + after_ms;
}

int64_t job_deadline(const struct job *j)
{
    const struct job_spec *s = j->spec;
    return s->deadline_ms == 0 ? 0
           : s->deadline_fixed ? s->deadline_ms
                               : real_of(j, s->deadline_ms);
}

int64_t job_start_by(const struct job *j)
{
    return j->spec->wait_limit_ms ? real_of(j, j->spec->wait_limit_ms) : 0;
}

// --- the record ---

void job_limits_to_record(const struct job *j, json_t *r)
{
    const struct job_spec *s = j->spec;
    if (s->wait_limit_ms || (s->deadline_ms && !s->deadline_fixed))
        json_put_boot(r, "submitted_boot_ms", j->submitted_boot_ms);
}

void job_limits_from_record(struct job *j, const json_t *r)
{
    j->submitted_boot_ms = json_opt_boot(r, "submitted_boot_ms", j->submitted_ms);
}

// --- the heaps; a job's place in one is limits[].at - 1 ---

// The next moment that it is to be looked at; INT64_MAX = none.
static int64_t due_of(const struct job *j, enum limit_clock w)
{
    const struct job_spec *s = j->spec;
    int64_t after = INT64_MAX;
    if (j->array || j->state >= JOB_STOPPING)
        return INT64_MAX;
    if (w == LIMIT_WALL)
        return s->deadline_fixed ? s->deadline_ms : INT64_MAX;
    if (s->deadline_ms && !s->deadline_fixed)
        after = s->deadline_ms;
    if (s->wait_limit_ms && !j->started_ms && s->wait_limit_ms < after)
        after = s->wait_limit_ms;
    return after < INT64_MAX ? j->submitted_boot_ms + after : INT64_MAX;
}

static void put(struct cluster *c, enum limit_clock w, size_t at, struct job *j)
{
    c->limits[w].jobs[at] = j;
    j->limits[w].at = at + 1;
}

static bool before(const struct job *a, const struct job *b, enum limit_clock w)
{
    return a->limits[w].ms < b->limits[w].ms;
}

static void up(struct cluster *c, enum limit_clock w, size_t at)
{
    struct job **jobs = c->limits[w].jobs, *j = jobs[at];
    for (; at > 0 && before(j, jobs[(at - 1) / 2], w); at = (at - 1) / 2)
        put(c, w, at, jobs[(at - 1) / 2]);
    put(c, w, at, j);
}

static void down(struct cluster *c, enum limit_clock w, size_t at)
{
    struct job **jobs = c->limits[w].jobs, *j = jobs[at];
    size_t n = c->limits[w].n;
    for (size_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && before(jobs[child + 1], jobs[child], w))
            child++;
        if (!before(jobs[child], j, w))
            break;
        put(c, w, at, jobs[child]);
        at = child;
    }
    put(c, w, at, j);
}

static void drop(struct cluster *c, enum limit_clock w, struct job *j)
{
    size_t at = j->limits[w].at - 1;
    struct job *last = c->limits[w].jobs[--c->limits[w].n];
    j->limits[w].at = 0;
    if (last == j)
        return;
    put(c, w, at, last);
    down(c, w, at);
    up(c, w, last->limits[w].at - 1);
}

static int add(struct cluster *c, enum limit_clock w, struct job *j)
{
    struct limit_heap *h = &c->limits[w];
    if (h->n == h->capacity) {
        size_t capacity = h->capacity ? 2 * h->capacity : 64;
        struct job **list = realloc(h->jobs, capacity * sizeof(struct job *));
        if (!list)
            return -ENOMEM;
        h->jobs = list;
        h->capacity = capacity;
    }
    put(c, w, h->n++, j);
    up(c, w, h->n - 1);
    return 0;
}

int64_t job_limits_due(const struct cluster *c)
{
    const struct limit_heap *h = &c->limits[LIMIT_BOOT];
    return h->n ? h->jobs[0]->limits[LIMIT_BOOT].ms : INT64_MAX;
}

static void arm(struct cluster *c)
{
    const struct limit_heap *h = &c->limits[LIMIT_WALL];
    if (c->limit_timer)
        (void)wall_timer_set(c->limit_timer, h->n ? h->jobs[0]->limits[LIMIT_WALL].ms : 0);
    task_timers(c);
}

static bool update(struct cluster *c, enum limit_clock w, struct job *j)
{
    int64_t due = due_of(j, w);
    if (j->limits[w].at ? j->limits[w].ms == due : due == INT64_MAX)
        return false;
    if (j->limits[w].at)
        drop(c, w, j);
    j->limits[w].ms = due;
    if (due < INT64_MAX && add(c, w, j) < 0)
        log_error("cluster", "out of memory: job %s is not held to its time limits", j->id);
    return true;
}

void job_limits_update(struct cluster *c, struct job *j)
{
    bool boot = update(c, LIMIT_BOOT, j), wall = update(c, LIMIT_WALL, j);
    if (boot || wall)
        arm(c);
}

// --- the end ---

static void expire(struct cluster *c, struct job *j, enum limit_clock w, int64_t now_ms)
{
    const struct job_spec *s = j->spec;
    char reason[REASON_BYTES], limit[UNITS_TEXT_BYTES], when[CLOCK_TEXT_BYTES];
    bool is_deadline = w == LIMIT_WALL || (s->deadline_ms && !s->deadline_fixed &&
                                           j->submitted_boot_ms + s->deadline_ms <= now_ms);
    if (is_deadline) {
        clock_format_ms(job_deadline(j), when);
        (void)snprintf(reason, sizeof(reason), "its deadline has passed: %s", when);
    } else {
        units_format_duration(j->spec->wait_limit_ms, limit);
        (void)snprintf(reason, sizeof(reason), "it had not started within its wait_limit of %s",
                       limit);
    }
    job_end_begin(c, j, JOB_FAILED, NULL, reason);
    job_refresh(c, j);
}

void job_limits_look(struct cluster *c, enum limit_clock w, int64_t now_ms)
{
    const struct limit_heap *h = &c->limits[w];
    while (h->n && h->jobs[0]->limits[w].ms <= now_ms) {
        struct job *j = h->jobs[0];
        expire(c, j, w, now_ms);
        job_limits_update(c, j); // for the next limit, or none
    }
    arm(c);
}

static void fired(void *userdata)
{
    job_limits_look(userdata, LIMIT_WALL, clock_real_ms());
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
    for (int w = 0; w < LIMIT_CLOCKS; w++)
        free(c->limits[w].jobs);
}
