// SPDX-License-Identifier: Apache-2.0
// Jobs: submitting, finding, stopping, deleting, and the state that follows from the tasks.
#include "common/clock.h"
#include "master/cluster/array.h"
#include "master/cluster/cluster_internal.h"
#include "master/cluster/dependency.h"
#include "master/cluster/job_limits.h"
#include "master/scheduler/scheduler.h"
#include "master/scheduler/scheduler_rules.h"

#include <stdlib.h>
#include <string.h>

static bool over(enum job_state s)
{
    return s >= JOB_SUCCEEDED;
}

// With room for its tasks, but for an array's, which has none itself.
static struct job *allocate(const struct job_spec *spec, const char *name, const char *user,
                            int n_tasks)
{
    struct job *j = calloc(1, sizeof(*j));
    if (!j)
        return NULL;
    j->reason = "";
    j->name = strdup(name);
    j->user = strdup(user);
    if (n_tasks > 0)
        j->tasks = calloc((size_t)n_tasks, sizeof(*j->tasks));
    j->first = calloc(spec->n_components + 1, sizeof(*j->first));
    j->counts = calloc(spec->n_components, sizeof(*j->counts));
    if (!j->name || !j->user || (n_tasks > 0 && !j->tasks) || !j->first || !j->counts) {
        job_free(j);
        return NULL;
    }
    j->n_tasks = n_tasks;
    int at = 0;
    for (size_t k = 0; k < spec->n_components && n_tasks > 0; k++) {
        j->first[k] = at;
        for (int i = 0; i < spec->components[k].num; i++, at++) {
            j->tasks[at].job = j;
            j->tasks[at].component = (int)k;
            j->tasks[at].index = i;
            j->tasks[at].reason = "";
        }
        j->counts[k][TASK_PENDING] = spec->components[k].num;
    }
    j->totals[TASK_PENDING] = j->n_tasks;
    return j;
}

struct job *job_new(struct job_spec *spec, const char *user)
{
    struct job *j =
        allocate(spec, spec->name, user, spec->array.count ? 0 : job_spec_total_tasks(spec));
    if (!j)
        return NULL;
    j->spec = spec; // taken only now: on failure it is still the caller's
    if (spec->array.count && array_init(j) < 0) {
        j->spec = NULL;
        job_free(j);
        return NULL;
    }
    return j;
}

static void job_element_name(const struct job_spec *spec, int number, char out[NAME_BYTES])
{
    (void)snprintf(out, NAME_BYTES, "%.56s_%d", spec->name, job_array_index(&spec->array, number));
}

struct job *job_new_element(struct job *of, int number)
{
    char name[NAME_BYTES];
    int index = job_array_index(&of->spec->array, number);
    job_element_name(of->spec, number, name);
    struct job *j = allocate(of->spec, name, of->user, job_spec_total_tasks(of->spec));
    if (!j)
        return NULL;
    j->spec = job_spec_ref(of->spec);
    (void)snprintf(j->id, sizeof(j->id), "%.13s_%d", of->id, index);
    j->array = of;
    j->number = number;
    for (int i = 0; i < j->n_tasks; i++)
        j->tasks[i].attempts_lost = of->attempts_lost;
    j->order = of->order;
    j->submitted_ms = of->submitted_ms;
    j->submitted_boot_ms = of->submitted_boot_ms;
    return j;
}

void job_free(struct job *j)
{
    dependency_free(j);
    array_free(j);
    job_spec_free(j->spec);
    free(j->name);
    free(j->user);
    free(j->avoid);
    rules_free(j);
    reason_set(&j->reason, "");
    for (int i = 0; i < j->n_tasks; i++)
        task_free(&j->tasks[i]);
    free(j->tasks);
    free(j->first);
    free(j->counts);
    free(j);
}

void job_set_state(struct cluster *c, struct job *j, enum job_state s, const char *user,
                   const char *reason)
{
    enum job_state before = j->state;
    if (before == s)
        return;
    job_counted(c, j, -1);
    j->state = s;
    job_counted(c, j, 1);
    if (reason)
        reason_set(&j->reason, reason);
    if (s == JOB_RUNNING && !j->started_ms)
        j->started_ms = clock_real_ms();
    if (over(s))
        j->ended_ms = clock_real_ms();
    if (over(s)) {
        dependency_ended(c, j);
        history_add(c, j);
    }
    job_dirty(c, j);
    char type[32];
    (void)snprintf(type, sizeof(type), "job.%s", job_state_to_string(s));
    event_emit(c, &(struct event_fields){
                      .type = type, .object = "job", .job = j, .reason = j->reason, .user = user});
    job_limits_update(c, j);
    if (j->array)
        array_changed(c, j, before);
}

void job_queue_update(struct cluster *c, struct job *j)
{
    scheduler_job_stale(c, j);
    bool wanted =
        j->totals[TASK_PENDING] > 0 && !over(j->state) && j->state != JOB_STOPPING && !j->deleted;
    j->queued = wanted;
}

bool job_admissible(const struct job *j)
{
    return j->queued && !j->held && j->unmet == 0 && !j->preempting &&
           (!j->array || array_admits(j));
}

// --- finding ---

struct job *cluster_job_find(struct cluster *c, const char *ref, const char *user)
{
    struct job *j = cluster_job_by_id(c, ref);
    if (j)
        return !user || strcmp(j->user, user) == 0 ? j : NULL;
    j = job_by_name(c, ref, user, false);
    if (j && !over(j->state))
        return j;
    struct job *element = array_find(c, ref, user);
    return element && (!j || !over(element->array->state)) ? element : j;
}

struct task *cluster_job_task(struct job *j, const char *component, int index)
{
    for (size_t k = 0; k < j->spec->n_components; k++)
        if (strcmp(j->spec->components[k].name, component) == 0)
            return index >= 0 && index < j->spec->components[k].num ? &j->tasks[j->first[k] + index]
                                                                    : NULL;
    return NULL;
}

// --- verbs ---

static int new_id(struct cluster *c, struct job *j, struct err *e)
{
    do {
        if (id_new('j', j->id) < 0)
            return err_set(e, -EIO, "no random numbers");
    } while (cluster_job_by_id(c, j->id));
    return 0;
}

// A name means one live job of the user, or one element of a live array.
static int name_free(struct cluster *c, const struct job_spec *spec, const char *user,
                     struct err *e)
{
    char name[NAME_BYTES];
    const struct job *x = job_by_name(c, spec->name, user, true);
    if (x)
        return err_set(e, -EEXIST, "%s has a job named %s already (%s, %s)", user, x->name, x->id,
                       job_state_to_string(x->state));
    x = array_find(c, spec->name, user);
    if (x && !over(x->array->state))
        return err_set(e, -EEXIST, "%s is the name of an element of %s's array %s (%s, %s)",
                       spec->name, user, x->array->name, x->array->id,
                       job_state_to_string(x->array->state));
    for (int i = 0; i < spec->array.count; i++) {
        job_element_name(spec, i, name);
        x = job_by_name(c, name, user, true);
        if (x)
            return err_set(e, -EEXIST,
                           "%s has a job named %s already (%s, %s), as an element of this array "
                           "would be",
                           user, x->name, x->id, job_state_to_string(x->state));
    }
    return 0;
}

int cluster_job_submit(struct cluster *c, struct job_spec *spec, const char *user, struct job **ret,
                       struct err *e)
{
    int r = name_free(c, spec, user, e);
    if (r == 0)
        r = scheduler_check_quota(c, spec, user, e);
    if (r < 0)
        return r;
    struct job *j = job_new(spec, user);
    if (!j)
        return err_set(e, -ENOMEM, "out of memory");
    r = new_id(c, j, e);
    if (r == 0)
        r = dependency_bind(c, j, e);
    if (r < 0) {
        j->spec = NULL;
        job_free(j);
        return r;
    }
    j->order = c->last_order + 1;
    j->submitted_ms = clock_real_ms();
    j->submitted_boot_ms = clock_boot_ms();
    job_link(c, j);
    job_dirty(c, j);
    job_queue_update(c, j);
    event_emit(c, &(struct event_fields){
                      .type = "job.submitted", .object = "job", .job = j, .user = user});
    job_limits_update(c, j);
    dependency_settle(c, j);
    if (j->elements)
        array_next(c, j);
    want_schedule(c);
    *ret = j;
    return 0;
}

void job_end_begin(struct cluster *c, struct job *j, enum job_state final, const char *user,
                   const char *reason)
{
    if (over(j->state) || j->state == JOB_STOPPING)
        return;
    j->final = final;
    job_set_state(c, j, JOB_STOPPING, user, reason);
    job_queue_update(c, j);
    if (j->elements)
        array_end(c, j, user, reason);
    for (int i = 0; i < j->n_tasks; i++)
        task_stop(c, &j->tasks[i],
                  final == JOB_STOPPED ? "the job was stopped" : "the job is over");
}

static int live(const struct job *j)
{
    int n = 0;
    for (int s = TASK_PENDING; s <= TASK_STOPPING; s++)
        n += j->totals[s];
    return n;
}

static bool finishers_done(const struct job *j)
{
    bool any = false;
    for (size_t k = 0; k < j->spec->n_components; k++) {
        if (!j->spec->components[k].finishes_job)
            continue;
        any = true;
        if (j->counts[k][TASK_SUCCEEDED] < j->spec->components[k].num)
            return false;
    }
    return any;
}

static void describe_failure(const struct job *j, char *out, size_t size)
{
    for (int i = 0; i < j->n_tasks; i++) {
        const struct task *t = &j->tasks[i];
        if (t->state != TASK_FAILED && t->state != TASK_UNKNOWN && t->state != TASK_LOST)
            continue;
        (void)snprintf(out, size, "%.64s/%d: %.160s", task_component(t)->name, t->index, t->reason);
        return;
    }
    (void)snprintf(out, size, "a task failed");
}

void job_refresh(struct cluster *c, struct job *j)
{
    char reason[REASON_BYTES];
    if (over(j->state))
        return;
    if (j->elements) {
        array_refresh(c, j);
        return;
    }
    if (j->state != JOB_STOPPING) {
        if (j->totals[TASK_FAILED] || j->totals[TASK_UNKNOWN] || j->totals[TASK_LOST]) {
            describe_failure(j, reason, sizeof(reason));
            job_end_begin(c, j, JOB_FAILED, NULL, reason);
        } else if (j->totals[TASK_STOPPED]) { // its stop reached the store in part: see resume()
            job_end_begin(c, j, JOB_STOPPED, NULL, "it was being stopped when the master ended");
        } else if (j->totals[TASK_SUCCEEDED] == j->n_tasks) {
            job_set_state(c, j, JOB_SUCCEEDED, NULL, "");
            return;
        } else if (finishers_done(j)) {
            job_end_begin(c, j, JOB_SUCCEEDED, NULL, "");
        } else if (j->state == JOB_PENDING && j->totals[TASK_PENDING] < j->n_tasks) {
            job_set_state(c, j, JOB_RUNNING, NULL, "");
        }
    }
    if (j->state == JOB_STOPPING && live(j) == 0)
        job_set_state(c, j, j->final, NULL, NULL);
}

void cluster_job_stop(struct cluster *c, struct job *j, const char *user, const char *reason)
{
    job_end_begin(c, j, JOB_STOPPED, user, reason);
    job_refresh(c, j);
}

int cluster_job_set_held(struct cluster *c, struct job *j, bool held, const char *user,
                         struct err *e)
{
    if (over(j->state) || j->state == JOB_STOPPING)
        return err_set(e, -EINVAL, "job %s is %s: nothing of it waits", j->name,
                       job_state_to_string(j->state));
    if (j->held == held)
        return 0;
    j->held = held;
    job_dirty(c, j);
    scheduler_job_stale(c, j);
    if (j->elements)
        array_stale(c, j);
    else if (j->array)
        array_changed(c, j, j->state);
    event_emit(c, &(struct event_fields){.type = held ? "job.held" : "job.released",
                                         .object = "job",
                                         .job = j,
                                         .user = user});
    want_schedule(c);
    return 0;
}

int cluster_job_delete(struct cluster *c, struct job *j, const char *user, struct err *e)
{
    if (j->array)
        return err_set(e, -EBUSY, "job %s is an element: it goes with the whole array %s", j->id,
                       j->array->id);
    if (!over(j->state))
        return err_set(e, -EBUSY, "job %s is %s: stop it first", j->name,
                       job_state_to_string(j->state));
    event_emit(
        c, &(struct event_fields){.type = "job.deleted", .object = "job", .job = j, .user = user});
    (void)job_drop(c, j);
    return 0;
}
