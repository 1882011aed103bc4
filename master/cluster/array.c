// SPDX-License-Identifier: Apache-2.0
// Job arrays: which element waits next, what the array's state is, and elements looked at.
#include "master/cluster/array.h"

#include "common/cleanup.h"
#include "common/json.h"
#include "common/log.h"
#include "master/cluster/cluster_internal.h"
#include "master/scheduler/scheduler.h"

#include <stdlib.h>
#include <string.h>

static bool over(const struct job *j)
{
    return j->state >= JOB_SUCCEEDED;
}

int array_init(struct job *j)
{
    j->elements = calloc(1, sizeof(*j->elements));
    if (j->elements)
        j->elements->made = calloc((size_t)j->spec->array.count, sizeof(struct job *));
    return j->elements && j->elements->made ? 0 : -ENOMEM;
}

void array_free(struct job *j)
{
    if (j->elements)
        free(j->elements->made);
    free(j->elements);
    j->elements = NULL;
}

// --- elements that are only looked at ---

static struct job *preview(struct cluster *c, struct job *array, int number)
{
    if (c->preview)
        job_free(c->preview);
    struct job *j = c->preview = job_new_element(array, number);
    if (!j)
        return NULL;
    j->preview = true;
    if (over(array)) { // it ended with the array
        j->state = JOB_STOPPED;
        j->ended_ms = array->ended_ms;
        reason_set(&j->reason, "its turn never came: the array is over");
        for (int i = 0; i < j->n_tasks; i++)
            task_load_state(&j->tasks[i], TASK_STOPPED);
    }
    return j;
}

bool cluster_element_may_pass(const struct job *array, int number, const struct job_filter *f)
{
    if (array->elements->made[number])
        return true;
    enum job_state state = over(array) ? JOB_STOPPED : JOB_PENDING;
    return (f->states & JOB_IN(state)) && (!f->user || strcmp(array->user, f->user) == 0);
}

struct job *cluster_job_element(struct cluster *c, struct job *array, int number)
{
    struct job *j = array->elements->made[number];
    return j ? j : preview(c, array, number);
}

size_t cluster_elements_matching(const struct job *array, const struct job_filter *f)
{
    const struct elements *x = array->elements;
    int n = 0, rest = array->spec->array.count;
    for (int s = 0; s < JOB_STATE_MAX; s++) {
        rest -= x->n[s];
        n += f->states & JOB_IN(s) ? x->n[s] : 0;
    }
    n += f->states & JOB_IN(over(array) ? JOB_STOPPED : JOB_PENDING) ? rest : 0;
    return !f->user || strcmp(array->user, f->user) == 0 ? (size_t)n : 0;
}

struct job *array_find(struct cluster *c, const char *ref, const char *user)
{
    char base[NAME_BYTES];
    size_t len;
    int index;
    if (!job_element_split(ref, &len, &index) || len >= sizeof(base))
        return NULL;
    memcpy(base, ref, len);
    base[len] = '\0';
    struct job *array = cluster_job_find(c, base, user);
    int number = array && array->elements ? job_array_number(&array->spec->array, index) : -1;
    return number < 0 ? NULL : cluster_job_element(c, array, number);
}

// --- elements that are jobs ---

static void link_element(struct cluster *c, struct job *j)
{
    struct elements *x = j->array->elements;
    x->made[j->number] = j;
    x->n[j->state]++;
    HASH_ADD_STR(c->jobs, id, j);
}

void cluster_job_make(struct cluster *c, struct job *j)
{
    if (!j->preview)
        return;
    c->preview = NULL;
    j->preview = false;
    link_element(c, j);
    job_dirty(c, j);
    for (int i = 0; i < j->n_tasks && over(j); i++)
        task_dirty(c, &j->tasks[i]);
    job_queue_update(c, j);
    if (j->array->state == JOB_STOPPING) { // who is made now was not there to be ended with it
        job_end_begin(c, j, JOB_STOPPED, NULL, "its turn never came: the array is ending");
        job_refresh(c, j);
    }
}

int array_running(const struct elements *x)
{
    return x->n[JOB_RUNNING] + x->n[JOB_RESIZING] + x->n[JOB_STOPPING];
}

static int ended(const struct elements *x)
{
    return x->n[JOB_SUCCEEDED] + x->n[JOB_FAILED] + x->n[JOB_STOPPED];
}

static bool full(const struct job *array)
{
    int limit = array->spec->array.limit;
    return limit > 0 && array_running(array->elements) >= limit;
}

static bool waits(const struct job *element)
{
    return element->state == JOB_PENDING && !element->held;
}

static bool accepts(const struct job *array)
{
    return !over(array) && array->state != JOB_STOPPING && !array->held && array->unmet == 0;
}

static struct job *make(struct cluster *c, struct job *array, int number)
{
    struct job *j = job_new_element(array, number);
    if (!j) {
        log_error("cluster", "out of memory: array %s goes on later", array->id);
        return NULL;
    }
    link_element(c, j);
    job_dirty(c, j);
    return j;
}

void array_next(struct cluster *c, struct job *array)
{
    struct elements *x = array->elements;
    if (x->next && (!waits(x->next) || !accepts(array)))
        x->next = NULL;
    if (x->next || !accepts(array) || full(array))
        return;
    while (x->cursor < array->spec->array.count) {
        struct job *j = x->made[x->cursor];
        if (!j)
            j = make(c, array, x->cursor);
        if (!j)
            return;
        if (waits(j)) {
            x->next = j;
            job_queue_update(c, j);
            want_schedule(c);
            return;
        }
        x->cursor++;
    }
}

bool array_admits(const struct job *element)
{
    const struct job *array = element->array;
    return accepts(array) && (element->started_ms || array->elements->next == element);
}

void array_changed(struct cluster *c, struct job *element, enum job_state before)
{
    struct job *array = element->array;
    struct elements *x = array->elements;
    if (before != element->state) {
        x->n[before]--;
        x->n[element->state]++;
    } else if (!element->held && element->number < x->cursor) {
        x->cursor = element->number; // released
    }
    array_next(c, array);
    array_refresh(c, array);
}

void array_stale(struct cluster *c, struct job *array)
{
    struct elements *x = array->elements;
    array_next(c, array);
    for (int i = 0; i < array->spec->array.count; i++)
        if (x->made[i] && !over(x->made[i]))
            scheduler_job_stale(c, x->made[i]);
}

void array_end(struct cluster *c, struct job *array, const char *user, const char *reason)
{
    struct elements *x = array->elements;
    for (int i = 0; i < array->spec->array.count; i++) {
        struct job *j = x->made[i];
        if (!j || over(j))
            continue;
        job_end_begin(c, j, JOB_STOPPED, user, reason);
        job_refresh(c, j);
    }
}

static const struct job *first_failed(const struct job *array)
{
    for (int i = 0; i < array->spec->array.count; i++) {
        const struct job *j = array->elements->made[i];
        if (j && j->state == JOB_FAILED)
            return j;
    }
    return NULL;
}

static void all_ended(struct cluster *c, struct job *array)
{
    char reason[REASON_BYTES] = "";
    const struct elements *x = array->elements;
    const struct job *failed = x->n[JOB_FAILED] ? first_failed(array) : NULL;
    if (failed)
        (void)snprintf(reason, sizeof(reason), "%d of %d elements failed, the first is %d: %.160s",
                       x->n[JOB_FAILED], array->spec->array.count,
                       job_array_index(&array->spec->array, failed->number), failed->reason);
    else if (x->n[JOB_STOPPED])
        (void)snprintf(reason, sizeof(reason), "%d of %d elements were stopped", x->n[JOB_STOPPED],
                       array->spec->array.count);
    job_set_state(c, array,
                  failed              ? JOB_FAILED
                  : x->n[JOB_STOPPED] ? JOB_STOPPED
                                      : JOB_SUCCEEDED,
                  NULL, reason);
}

void array_refresh(struct cluster *c, struct job *array)
{
    const struct elements *x = array->elements;
    // One that is stopping may have been stopped before it ran.
    bool started =
        x->n[JOB_RUNNING] + x->n[JOB_RESIZING] + x->n[JOB_SUCCEEDED] + x->n[JOB_FAILED] > 0;
    if (over(array))
        return;
    if (array->state == JOB_STOPPING && array_running(x) + x->n[JOB_PENDING] == 0)
        job_set_state(c, array, array->final, NULL, NULL);
    else if (array->state != JOB_STOPPING && ended(x) == array->spec->array.count)
        all_ended(c, array);
    else if (array->state == JOB_PENDING && started)
        job_set_state(c, array, JOB_RUNNING, NULL, "");
}

void array_text(const struct job *j, char *out, size_t size)
{
    const struct job *array = j->array ? j->array : j;
    out[0] = '\0';
    if (!array->elements || over(j) || (j->array && (j->started_ms || j->state != JOB_PENDING)))
        return;
    if (j->array && array->held)
        (void)snprintf(out, size, "its array is held: `meadow job release %s` lets it go on",
                       array->id);
    else if (full(array))
        (void)snprintf(out, size, "%d of its array's elements run, as many as it allows",
                       array_running(array->elements));
    else if (j->array && array->elements->next != j)
        (void)snprintf(out, size, "waits for its turn in array %s", array->id);
}

// --- record and view ---

int array_element_from_record(struct cluster *c, const json_t *r, struct err *e)
{
    struct job *array = cluster_job_by_id(c, json_opt_str(r, "array", ""));
    if (!array || !array->elements)
        return 0; // a leftover of an interrupted deletion
    int number = job_array_number(&array->spec->array, (int)json_opt_i64(r, "index", -1));
    if (number < 0 || array->elements->made[number])
        return err_set(e, -EPROTO, "array %s: an element's record is none of this version",
                       array->id);
    struct job *j = job_new_element(array, number);
    if (!j)
        return err_set(e, -ENOMEM, "out of memory");
    int x = job_read_record(j, r, e);
    if (x < 0)
        job_free(j);
    else
        link_element(c, j);
    return x;
}

static json_t *element_view(const struct job *j)
{
    json_t *v = json_object();
    json_put_str(v, "job", j->array->id);
    json_put_i64(v, "index", job_array_index(&j->spec->array, j->number));
    return v;
}

json_t *array_view(const struct job *j)
{
    const struct elements *x = j->elements;
    if (!x)
        return j->array ? element_view(j) : NULL;
    cleanup_free char *text = job_array_text(&j->spec->array);
    int count = j->spec->array.count, rest = count - ended(x) - array_running(x);
    json_t *v = json_object();
    json_put_str(v, "spec", text);
    json_put_i64(v, "count", count);
    json_put_i64(v, "pending", over(j) ? 0 : rest);
    json_put_i64(v, "running", array_running(x));
    json_put_i64(v, "succeeded", x->n[JOB_SUCCEEDED]);
    json_put_i64(v, "failed", x->n[JOB_FAILED]);
    json_put_i64(v, "stopped", x->n[JOB_STOPPED] + (over(j) ? rest : 0));
    return v;
}
