// SPDX-License-Identifier: Apache-2.0
// A job as a record in the store, and as users see it.
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "master/cluster/array.h"
#include "master/cluster/cluster_internal.h"
#include "master/cluster/dependency.h"
#include "master/cluster/job_limits.h"

#include <stdlib.h>
#include <string.h>

char *job_to_record(const struct job *j)
{
    cleanup_json json_t *r = json_object();
    json_put_str(r, "id", j->id);
    json_put_str(r, "user", j->user);
    json_put_str(r, "state", job_state_to_string(j->state));
    json_put_str(r, "final", job_state_to_string(j->final));
    json_put_str(r, "reason", j->reason);
    json_put_i64(r, "order", j->order);
    json_put_time(r, "submitted_at", j->submitted_ms);
    json_put_time(r, "started_at", j->started_ms);
    json_put_time(r, "ended_at", j->ended_ms);
    job_limits_to_record(j, r);
    if (j->held)
        json_put_bool(r, "held", true);
    if (j->preempting)
        json_put_bool(r, "preempting", true);
    if (j->avoid)
        json_put_str(r, "avoid", j->avoid);
    if (j->attempts_lost)
        json_put_i64(r, "attempts_lost", j->attempts_lost);
    if (j->logs_gone)
        json_put_bool(r, "logs_gone", true);
    if (j->deleting)
        json_put_bool(r, "deleting", true);
    if (j->after)
        json_put(r, "after", dependency_view(j));
    if (j->array) {
        json_put_str(r, "array", j->array->id);
        json_put_i64(r, "index", job_array_index(&j->spec->array, j->number));
    } else {
        json_put(r, "spec", job_spec_to_json(j->spec));
    }
    return json_text(r);
}

int job_read_record(struct job *j, const json_t *r, struct err *e)
{
    const char *state = json_opt_str(r, "state", "");
    reason_set(&j->reason, json_opt_str(r, "reason", ""));
    if (job_state_from_string(state, &j->state) < 0 ||
        job_state_from_string(json_opt_str(r, "final", "pending"), &j->final) < 0)
        return err_set(e, -EPROTO, "state \"%s\" is not known to this version", state);
    j->order = json_opt_i64(r, "order", 0);
    j->attempts_lost = (int)json_opt_i64(r, "attempts_lost", 0);
    j->held = json_opt_bool(r, "held", false);
    j->preempting = json_opt_bool(r, "preempting", false);
    const char *avoid = json_opt_str(r, "avoid", NULL);
    j->avoid = avoid ? strdup(avoid) : NULL;
    j->logs_gone = json_opt_bool(r, "logs_gone", false);
    j->deleting = json_opt_bool(r, "deleting", false);
    j->submitted_ms = json_opt_time(r, "submitted_at");
    job_limits_from_record(j, r);
    j->started_ms = json_opt_time(r, "started_at");
    j->ended_ms = json_opt_time(r, "ended_at");
    return 0;
}

// An element waits until its array is there.
static int load_element(struct cluster *c, const json_t *r, struct err *e)
{
    return cluster_job_by_id(c, json_opt_str(r, "array", ""))
               ? array_element_from_record(c, r, e)
               : cluster_put_aside(&c->loaded_elements, r, e);
}

int job_from_record(struct cluster *c, const json_t *r, struct err *e)
{
    const char *id, *user;
    struct job_spec *spec = NULL;
    if (json_object_get(r, "array"))
        return load_element(c, r, e);
    int x = json_get_str(r, "id", &id, e);
    if (x == 0)
        x = json_get_str(r, "user", &user, e);
    if (x == 0)
        x = job_spec_from_json(json_object_get(r, "spec"), &spec, e);
    if (x < 0)
        return x;
    struct job *j = job_new(spec, user);
    if (!j) {
        job_spec_free(spec);
        return err_set(e, -ENOMEM, "out of memory");
    }
    (void)snprintf(j->id, sizeof(j->id), "%s", id);
    x = job_read_record(j, r, e);
    if (x == 0)
        x = dependency_from_record(j, json_object_get(r, "after"), e);
    if (x < 0)
        job_free(j);
    else
        job_link(c, j);
    return x;
}

static json_t *component_view(const struct job *j, size_t k)
{
    const int *n = j->counts[k];
    json_t *x = json_object();
    json_put_i64(x, "num", j->spec->components[k].num);
    json_put_i64(x, "min", j->spec->components[k].num);
    json_put_i64(x, "max", j->spec->components[k].num);
    json_put_i64(x, "running", n[TASK_RUNNING]);
    json_put_i64(x, "pending", n[TASK_PENDING]);
    json_put_i64(x, "succeeded", n[TASK_SUCCEEDED]);
    json_put_i64(x, "failed", n[TASK_FAILED] + n[TASK_UNKNOWN] + n[TASK_LOST]);
    return x;
}

// What a waiting job waits for is told by explain; here it is one word.
static const char *shown_reason(const struct job *j, char room[REASON_BYTES])
{
    if (j->reason[0])
        return j->reason;
    if (j->held)
        return "held";
    dependency_text(j, room, REASON_BYTES);
    if (!room[0])
        array_text(j, room, REASON_BYTES);
    if (room[0])
        return room;
    if (j->state == JOB_PENDING && job_tried(j))
        return "waits for resources";
    return NULL;
}

json_t *job_view(const struct job *j, bool with_spec_and_tasks)
{
    char room[REASON_BYTES];
    json_t *x = json_object();
    json_put_str(x, "id", j->id);
    json_put_str(x, "name", j->name);
    json_put_str(x, "user", j->user);
    json_put_str(x, "state", job_state_to_string(j->state));
    json_put_str(x, "reason", shown_reason(j, room));
    json_put_i64(x, "priority", j->spec->priority);
    json_put_bool(x, "held", j->held);
    if (j->after)
        json_put(x, "after", dependency_view(j));
    if (j->spec->deadline_ms)
        json_put_time(x, "deadline", job_deadline(j));
    if (j->spec->wait_limit_ms && !j->started_ms)
        json_put_time(x, "start_by", job_start_by(j));
    if (j->elements || j->array)
        json_put(x, j->elements ? "array" : "element", array_view(j));
    json_put_i64(x, "weight", 1);
    json_put_time(x, "submitted_at", j->submitted_ms);
    json_put_time(x, "started_at", j->started_ms);
    json_put_time(x, "ended_at", j->ended_ms);
    json_t *components = json_object();
    for (size_t k = 0; k < j->spec->n_components; k++)
        json_put(components, j->spec->components[k].name, component_view(j, k));
    json_put(x, "components", components);
    if (!with_spec_and_tasks)
        return x;
    json_put(x, "spec", job_spec_to_json(j->spec));
    json_t *tasks = json_array();
    for (int i = 0; i < j->n_tasks; i++)
        (void)json_array_append_new(tasks, task_view(&j->tasks[i]));
    json_put(x, "tasks", tasks);
    return x;
}

static void put_cell(struct strbuf *out, const char *text)
{
    strbuf_append(out, "\t", 1);
    for (size_t n; *text; text += n) {
        n = strcspn(text, "\t\n\r");
        strbuf_append(out, text, n);
        if (text[n]) {
            strbuf_append(out, " ", 1);
            n++;
        }
    }
}

static void put_time(struct strbuf *out, int64_t ms)
{
    char text[CLOCK_TEXT_BYTES] = "";
    if (ms)
        clock_format_ms(ms, text);
    put_cell(out, text);
}

void job_row(const struct job *j, bool with_reason, struct strbuf *out)
{
    char numbers[64], room[REASON_BYTES];
    const struct elements *x = j->elements;
    const char *reason = with_reason ? shown_reason(j, room) : NULL;
    (void)snprintf(numbers, sizeof(numbers), "\t%d\t%d\t%d", j->spec->priority,
                   x ? array_running(x) : j->totals[TASK_RUNNING],
                   x ? j->spec->array.count : j->n_tasks);
    strbuf_puts(out, j->id);
    put_cell(out, j->name);
    put_cell(out, job_state_to_string(j->state));
    put_cell(out, j->user);
    strbuf_puts(out, numbers);
    put_time(out, j->submitted_ms);
    put_time(out, j->started_ms);
    put_time(out, j->ended_ms);
    put_cell(out, reason ? reason : "");
    strbuf_append(out, "\n", 1);
}
