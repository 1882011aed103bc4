// SPDX-License-Identifier: Apache-2.0
// Deadlines and limits of waiting: a heap for each clock.
#include "master/cluster/job_limits.h"

#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "common/units.h"
#include "common/wall_timer.h"
#include "master/cluster/cluster_internal.h"

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

static bool sooner_by_boot(const void *a, const void *b)
{
    const struct job *x = a, *y = b;
    return x->limits[LIMIT_BOOT].ms < y->limits[LIMIT_BOOT].ms;
}

static bool sooner_by_wall(const void *a, const void *b)
{
    const struct job *x = a, *y = b;
    return x->limits[LIMIT_WALL].ms < y->limits[LIMIT_WALL].ms;
}

static size_t *place_by_boot(void *item)
{
    return &((struct job *)item)->limits[LIMIT_BOOT].at;
}

static size_t *place_by_wall(void *item)
{
    return &((struct job *)item)->limits[LIMIT_WALL].at;
}

void job_limits_init(struct cluster *c)
{
    c->limits[LIMIT_BOOT] = (struct heap){.before = sooner_by_boot, .place = place_by_boot};
    c->limits[LIMIT_WALL] = (struct heap){.before = sooner_by_wall, .place = place_by_wall};
}

static int64_t due_first(const struct cluster *c, enum limit_clock w)
{
    const struct job *j = heap_first(&c->limits[w]);
    return j ? j->limits[w].ms : INT64_MAX;
}

int64_t job_limits_due(const struct cluster *c)
{
    return due_first(c, LIMIT_BOOT);
}

static void arm(struct cluster *c)
{
    int64_t due = due_first(c, LIMIT_WALL);
    if (c->limit_timer)
        (void)wall_timer_set(c->limit_timer, due < INT64_MAX ? due : 0);
    task_timers(c);
}

static bool update(struct cluster *c, enum limit_clock w, struct job *j)
{
    int64_t due = due_of(j, w);
    if (j->limits[w].at ? j->limits[w].ms == due : due == INT64_MAX)
        return false;
    heap_remove(&c->limits[w], j);
    j->limits[w].ms = due;
    if (due < INT64_MAX && heap_add(&c->limits[w], j) < 0)
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
    while (due_first(c, w) <= now_ms) {
        struct job *j = heap_first(&c->limits[w]);
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
        heap_reset(&c->limits[w]);
}
