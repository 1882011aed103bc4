// SPDX-License-Identifier: Apache-2.0
// Dependencies between jobs: bound, met, or never to be met.
#include "master/cluster/dependency.h"

#include "common/json.h"
#include "master/cluster/array.h"
#include "master/cluster/cluster_internal.h"
#include "master/scheduler/scheduler.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

static bool over(const struct job *j)
{
    return j->state >= JOB_SUCCEEDED;
}

static void unlink_one(struct dependency *d)
{
    if (d->on)
        DL_DELETE(d->on->dependents, d);
    d->on = NULL;
}

static void unbind(struct job *j)
{
    for (size_t i = 0; j->after && i < j->spec->n_after; i++)
        unlink_one(&j->after[i]);
}

void dependency_free(struct job *j)
{
    free(j->after);
    j->after = NULL;
}

static int allocate(struct job *j)
{
    j->after = j->spec->n_after ? calloc(j->spec->n_after, sizeof(*j->after)) : NULL;
    for (size_t i = 0; j->after && i < j->spec->n_after; i++)
        j->after[i].job = j;
    return j->spec->n_after && !j->after ? -ENOMEM : 0;
}

static void link_to(struct dependency *d, struct job *on)
{
    memcpy(d->id, on->id, sizeof(d->id));
    d->on = on;
    DL_APPEND(on->dependents, d);
    d->job->unmet++;
}

// By name one's own, by id anybody's.
static struct job *find(struct cluster *c, const char *ref, const char *user)
{
    struct job *j = cluster_job_find(c, ref, user);
    return j || !job_id_is(ref) ? j : cluster_job_find(c, ref, NULL);
}

static int unknown(const char *ref, const char *name, struct err *e)
{
    if (strcmp(ref, name) == 0)
        return err_set(e, -EINVAL, "after: %s is this job itself, and there is no earlier one",
                       ref);
    return err_set(e, -EINVAL,
                   "after: there is no job %s: submit it first (`meadow job list --all` shows what "
                   "there is)",
                   ref);
}

int dependency_bind(struct cluster *c, struct job *j, struct err *e)
{
    if (allocate(j) < 0)
        return err_set(e, -ENOMEM, "out of memory");
    for (size_t i = 0; i < j->spec->n_after; i++) {
        const char *ref = j->spec->after[i].job;
        struct job *on = find(c, ref, j->user);
        if (on) {
            cluster_job_make(c, on);
            link_to(&j->after[i], on);
            continue;
        }
        unbind(j);
        return unknown(ref, j->name, e);
    }
    return 0;
}

int dependency_check(struct cluster *c, const struct job_spec *spec, const char *user,
                     struct err *e)
{
    for (size_t i = 0; i < spec->n_after; i++)
        if (!find(c, spec->after[i].job, user))
            return unknown(spec->after[i].job, spec->name, e);
    return 0;
}

// --- deciding ---

static bool satisfied(const struct job *on, enum after_when when)
{
    return when == AFTER_ANY || (when == AFTER_OK) == (on->state == JOB_SUCCEEDED);
}

static enum after_when when_of(const struct dependency *d)
{
    return d->job->spec->after[d - d->job->after].when;
}

static void met(struct cluster *c, struct dependency *d)
{
    struct job *j = d->job;
    unlink_one(d);
    d->met = true;
    j->unmet--;
    job_dirty(c, j);
    if (j->unmet > 0)
        return;
    scheduler_job_stale(c, j);
    if (j->elements)
        array_next(c, j);
    want_schedule(c);
}

static void never_text(const char *name, const char *id, const char *fate, enum after_when when,
                       char *out, size_t size)
{
    (void)snprintf(out, size,
                   "it depends on job %.63s (%s), which %s: `when: %s` can't be met any more", name,
                   id, fate, after_when_to_string(when));
}

static void never(struct cluster *c, struct dependency *d, const char *name, const char *fate)
{
    char reason[REASON_BYTES];
    never_text(name, d->id, fate, when_of(d), reason, sizeof(reason));
    job_end_begin(c, d->job, JOB_FAILED, NULL, reason);
    job_refresh(c, d->job);
}

static const char *const how[JOB_STATE_MAX] = {
    [JOB_SUCCEEDED] = "succeeded", [JOB_FAILED] = "failed", [JOB_STOPPED] = "was stopped"};

// `on`, which it waits for, is over.
static void decide(struct cluster *c, struct dependency *d, const struct job *on)
{
    if (satisfied(on, when_of(d)))
        met(c, d);
    else
        never(c, d, on->name, how[on->state]);
}

void dependency_settle(struct cluster *c, struct job *j)
{
    for (size_t i = 0; i < j->spec->n_after && !over(j); i++)
        if (j->after[i].on && over(j->after[i].on))
            decide(c, &j->after[i], j->after[i].on);
}

void dependency_ended(struct cluster *c, struct job *j)
{
    unbind(j);
    if (!j->dependents || j->ended_listed)
        return;
    j->ended_listed = true;
    j->ended_next = c->ended;
    c->ended = j;
}

// An end may end others, which are listed in turn: a long chain is no deep recursion.
void dependency_collect(struct cluster *c)
{
    while (c->ended) {
        struct job *j = c->ended;
        c->ended = j->ended_next;
        j->ended_listed = false;
        while (j->dependents) {
            struct dependency *d = j->dependents;
            decide(c, d, j);
            unlink_one(d); // a job that is stopping already waits for nothing
        }
    }
}

// --- the record ---

json_t *dependency_view(const struct job *j)
{
    if (!j->spec->n_after)
        return NULL;
    json_t *list = json_array();
    for (size_t i = 0; i < j->spec->n_after; i++) {
        json_t *x = json_object();
        json_put_str(x, "job", j->after[i].id);
        json_put_str(x, "name", j->after[i].on ? j->after[i].on->name : j->spec->after[i].job);
        json_put_str(x, "when", after_when_to_string(j->spec->after[i].when));
        json_put_bool(x, "met", j->after[i].met);
        (void)json_array_append_new(list, x);
    }
    return list;
}

int dependency_from_record(struct job *j, const json_t *list, struct err *e)
{
    if (allocate(j) < 0)
        return err_set(e, -ENOMEM, "out of memory");
    for (size_t i = 0; i < j->spec->n_after; i++) {
        const json_t *x = json_array_get(list, i);
        (void)snprintf(j->after[i].id, sizeof(j->after[i].id), "%s", json_opt_str(x, "job", ""));
        j->after[i].met = json_opt_bool(x, "met", false);
    }
    return 0;
}

void dependency_relink(struct cluster *c, struct job *j)
{
    for (size_t i = 0; i < j->spec->n_after && !over(j); i++) {
        struct dependency *d = &j->after[i];
        struct job *on = d->met ? NULL : cluster_job_by_id(c, d->id);
        if (on) {
            link_to(d, on);
        } else if (!d->met && when_of(d) == AFTER_ANY) {
            d->met = true;
            job_dirty(c, j);
        } else if (!d->met) {
            j->unmet++;
            never(c, d, j->spec->after[i].job, "was deleted");
        }
    }
    dependency_settle(c, j);
}

// What a job that waits for the first of these and `more` others is told.
static void waits_text(const struct job *on, const char *id, enum after_when when, int more,
                       char *out, size_t size)
{
    static const char *const until[AFTER_MAX] = {"to succeed", "to end", "to fail"};
    int len = snprintf(out, size, "waits for job %s (%s) %s", on->name, id, until[when]);
    if (more > 0 && len > 0 && (size_t)len < size)
        (void)snprintf(out + len, size - (size_t)len, ", and for %d more", more);
}

void dependency_text(const struct job *j, char *out, size_t size)
{
    const struct dependency *first = NULL;
    int n = 0;
    out[0] = '\0';
    for (size_t i = 0; j->after && i < j->spec->n_after; i++) {
        const struct dependency *d = &j->after[i];
        if (d->on && over(d->on) && !satisfied(d->on, when_of(d))) {
            never_text(j->spec->after[i].job, d->id, how[d->on->state], when_of(d), out, size);
            return;
        }
        if (!d->on || over(d->on))
            continue;
        first = first ? first : d;
        n++;
    }
    if (first)
        waits_text(first->on, first->id, when_of(first), n - 1, out, size);
}

void dependency_plan_text(struct cluster *c, const struct job_spec *spec, const char *user,
                          char *out, size_t size)
{
    int first = -1, n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < spec->n_after; i++) {
        const struct job_after *a = &spec->after[i];
        const struct job *on = find(c, a->job, user); // an element may be there until the next call
        if (on && over(on) && !satisfied(on, a->when)) {
            never_text(a->job, on->id, how[on->state], a->when, out, size);
            return;
        }
        if (!on || over(on))
            continue;
        first = first < 0 ? (int)i : first;
        n++;
    }
    const struct job *on = first < 0 ? NULL : find(c, spec->after[first].job, user);
    if (on)
        waits_text(on, on->id, spec->after[first].when, n - 1, out, size);
}
