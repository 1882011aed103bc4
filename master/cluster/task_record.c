// SPDX-License-Identifier: Apache-2.0
// A task as a record in the store, and as users see it. A task that never had an attempt has no
// record.
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "master/cluster/cluster_internal.h"
#include "master/cluster/restart.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static json_t *ports_json(const struct task *t)
{
    json_t *a = json_array();
    for (int i = 0; i < t->n_ports; i++)
        (void)json_array_append_new(a, json_integer(t->ports[i]));
    return a;
}

// When it may be placed again, on the wall clock as it is now; 0 = now.
static int64_t retry_ms(const struct task *t)
{
    return t->in_backoff ? clock_real_ms() + t->not_before_boot_ms - clock_boot_ms() : 0;
}

// The rest of its pause; never longer than a whole one, whatever happened to the wall clock.
static void wait_on(struct cluster *c, struct task *t, const json_t *r)
{
    int64_t at = json_opt_time(r, "retry_at"), left = at - clock_real_ms();
    int64_t most = task_component(t)->max_backoff_ms;
    if (most < RESTART_INFRA_MAX_MS)
        most = RESTART_INFRA_MAX_MS;
    if (at && t->state == TASK_PENDING && left > 0)
        task_back_off(c, t, left < most ? left : most);
}

char *task_to_record(const struct task *t)
{
    cleanup_json json_t *r = json_object();
    json_put_str(r, "job", t->job->id);
    json_put_str(r, "component", task_component(t)->name);
    json_put_i64(r, "index", t->index);
    json_put_str(r, "state", task_state_to_string(t->state));
    json_put_str(r, "reason", t->reason);
    json_put_i64(r, "attempt", t->attempt);
    if (t->attempts_lost)
        json_put_i64(r, "attempts_lost", t->attempts_lost);
    json_put_str(r, "attempt_id", t->attempt_id);
    json_put_str(r, "issued_to", t->issued_to);
    json_put_str(r, "node", t->node ? t->node->id : NULL);
    json_put_str(r, "node_name", t->node_name);
    json_put_i64(r, "cpu", t->granted.cpu_milli);
    json_put_i64(r, "memory", t->granted.memory);
    json_put_i64(r, "gpu", t->granted.gpu);
    json_put_i64(r, "gpus", (json_int_t)t->gpus);
    json_put(r, "ports", ports_json(t));
    json_put_bool(r, "holds_node", t->holds_node);
    json_put_bool(r, "moving", t->moving);
    if (t->former)
        json_put_bool(r, "former", true);
    json_put_i64(r, "starts", t->starts);
    json_put_i64(r, "ends", t->ends);
    json_put_i64(r, "infra_failures", t->infra_failures);
    json_put_time(r, "retry_at", retry_ms(t));
    json_put_i64(r, "lease_ms", t->lease_ms);
    json_put_time(r, "assigned_at", t->assigned_ms);
    json_put_bool(r, "logs_late", t->logs_late);
    json_put_str(r, "final_state", task_state_to_string(t->final_state));
    json_put_i64(r, "change", t->change);
    json_put_str(r, "change_of", t->change_of);
    if (t->status) // else it was stopped before it had one
        json_put(r, "status", attempt_status_to_json(t->status));
    json_t *previous = json_array();
    for (int i = 0; i < t->n_previous; i++)
        (void)json_array_append_new(previous, json_string(t->previous[i]));
    json_put(r, "previous", previous);
    return json_text(r);
}

static void copy(char *out, size_t size, const json_t *r, const char *key)
{
    (void)snprintf(out, size, "%s", json_opt_str(r, key, ""));
}

static int read_lists(struct task *t, const json_t *r)
{
    size_t i;
    json_t *x;
    const json_t *previous = json_object_get(r, "previous");
    if (json_array_size(previous) > 0 && !t->previous)
        t->previous = calloc(TASK_PREVIOUS_MAX, sizeof(*t->previous));
    if (json_array_size(previous) > 0 && !t->previous)
        return -ENOMEM;
    json_array_foreach (json_object_get(r, "ports"), i, x) {
        if (t->n_ports < TASK_MAX_PORTS)
            t->ports[t->n_ports++] = (uint16_t)json_integer_value(x);
    }
    json_array_foreach (previous, i, x) {
        if (t->n_previous < TASK_PREVIOUS_MAX && json_is_string(x))
            (void)snprintf(t->previous[t->n_previous++], ATTEMPT_ID_BYTES, "%s",
                           json_string_value(x));
    }
    return 0;
}

// What the agent last told of the latest attempt, if there was one.
static int read_status(struct task *t, const json_t *r, struct err *e)
{
    if (t->attempt <= 0)
        return 0;
    if (!t->status)
        t->status = calloc(1, sizeof(*t->status));
    if (!t->status)
        return err_set(e, -ENOMEM, "out of memory");
    return attempt_status_from_json(json_object_get(r, "status"), t->status, e);
}

void task_load_state(struct task *t, enum task_state s)
{
    struct job *j = t->job;
    j->counts[t->component][t->state]--;
    j->totals[t->state]--;
    t->state = s;
    j->counts[t->component][s]++;
    j->totals[s]++;
}

// Gives a loaded task that may still be on its node its place in the node's books and assignment.
static void relink(struct cluster *c, struct task *t, bool held, bool late)
{
    if (!t->node)
        return;
    t->node->has_former |= t->former;
    if (held)
        node_reserve(c, t->node, t);
    if (held)
        node_bound_interval(c, t->node, t->lease_ms);
    struct assignment *a = held || late ? assignment_add(c, t->node, t) : NULL;
    if (a && (late || t->state == TASK_STOPPING || t->job->state == JOB_STOPPING))
        a->desired = DESIRED_STOP;
}

int task_from_record(struct cluster *c, const json_t *r, struct err *e)
{
    enum task_state state;
    struct job *j = cluster_job_by_id(c, json_opt_str(r, "job", ""));
    if (!j)
        return 0; // its job was deleted: the record is a leftover of an interrupted deletion, and
                  // harmless
    struct task *t =
        cluster_job_task(j, json_opt_str(r, "component", ""), (int)json_opt_i64(r, "index", -1));
    if (!t || task_state_from_string(json_opt_str(r, "state", ""), &state) < 0 ||
        task_state_from_string(json_opt_str(r, "final_state", "pending"), &t->final_state) < 0)
        return err_set(e, -EPROTO, "task of job %s: not a record of this version", j->id);
    task_load_state(t, state);
    reason_set(&t->reason, json_opt_str(r, "reason", ""));
    copy(t->attempt_id, sizeof(t->attempt_id), r, "attempt_id");
    copy(t->issued_to, sizeof(t->issued_to), r, "issued_to");
    copy(t->node_name, sizeof(t->node_name), r, "node_name");
    copy(t->change_of, sizeof(t->change_of), r, "change_of");
    t->attempt = (int)json_opt_i64(r, "attempt", 0);
    t->attempts_lost = (int)json_opt_i64(r, "attempts_lost", 0);
    t->starts = (int)json_opt_i64(r, "starts", 0);
    t->ends = (int)json_opt_i64(r, "ends", 0);
    t->infra_failures = (int)json_opt_i64(r, "infra_failures", 0);
    t->change = json_opt_i64(r, "change", 0);
    t->granted = (struct resources){json_opt_i64(r, "cpu", 0), json_opt_i64(r, "memory", 0),
                                    json_opt_i64(r, "gpu", 0)};
    t->gpus = (uint64_t)json_opt_i64(r, "gpus", 0);
    t->lease_ms = json_opt_i64(r, "lease_ms", c->options.lease_ms);
    t->moving = json_opt_bool(r, "moving", false);
    t->former = json_opt_bool(r, "former", false);
    t->assigned_ms = json_opt_time(r, "assigned_at");
    int x = read_lists(t, r) < 0 ? err_set(e, -ENOMEM, "out of memory") : read_status(t, r, e);
    if (t->status) // else it was nowhere
        t->node = cluster_node_by_id(c, json_opt_str(r, "node", ""));
    if (x < 0)
        return err_wrap(e, x, "task of job %s", j->id);
    bool late = json_opt_bool(r, "logs_late", false);
    relink(c, t, json_opt_bool(r, "holds_node", false), late);
    wait_on(c, t, r);
    if (state == TASK_STOPPING) // when it was told so is not stored
        t->stop_by_ms = clock_real_ms() + task_component(t)->grace_ms;
    if (late) // the wait for its logs was cut by the restart: what came is what there is, more may
              // still come
        task_load_state(t, t->final_state);
    return 0;
}

int task_load(struct cluster *c, const json_t *r, struct err *e)
{
    enum task_state state;
    const char *node = json_opt_str(r, "node", "");
    bool over = task_state_from_string(json_opt_str(r, "state", ""), &state) == 0 &&
                state >= TASK_SUCCEEDED && !json_opt_bool(r, "holds_node", false) &&
                !json_opt_bool(r, "logs_late", false);
    if (over && cluster_job_by_id(c, json_opt_str(r, "job", "")) &&
        (!node[0] || cluster_node_by_id(c, node)))
        return task_from_record(c, r, e);
    return cluster_put_aside(&c->loaded, r, e);
}

// --- view ---

static json_t *gpus_json(const struct task *t, bool uuids)
{
    json_t *a = json_array();
    const json_t *cards = t->node ? json_object_get(t->node->info, "gpus") : NULL;
    for (int i = 0; i < NODE_MAX_GPUS; i++) {
        if (!(t->gpus & (UINT64_C(1) << i)))
            continue;
        if (!uuids)
            (void)json_array_append_new(a, json_integer(i));
        else
            (void)json_array_append_new(
                a, json_string(json_opt_str(json_array_get(cards, (size_t)i), "uuid", "")));
    }
    return a;
}

static void put_exit(json_t *x, const struct task *t)
{
    const struct attempt_status *s = task_status(t);
    bool show = s->has_exit && !t->logs_late && s->state == ATTEMPT_ENDED;
    const char *name = show && s->signal ? sigabbrev_np(s->signal) : NULL;
    char text[32] = "";
    if (name)
        (void)snprintf(text, sizeof(text), "SIG%s", name);
    else if (show && s->signal)
        (void)snprintf(text, sizeof(text), "SIGRTMIN+%d", s->signal - SIGRTMIN);
    if (show)
        json_put_i64(x, "exit_code", s->exit_code);
    else
        json_put(x, "exit_code", json_null());
    json_put_str(x, "signal", text[0] ? text : NULL);
    json_put_bool(x, "oom", show && s->oom);
}

// Why the latest attempt ended; null while it has not.
static void put_cause(json_t *x, const struct task *t)
{
    const struct attempt_status *s = task_status(t);
    bool show = s->state == ATTEMPT_ENDED && !t->logs_late;
    json_put_str(x, "cause", !show ? NULL : s->pull ? "pull" : attempt_cause_to_string(s->cause));
}

json_t *task_view(const struct task *t)
{
    char name[256];
    const struct attempt_status *s = task_status(t);
    bool gone = t->job->array ? t->job->array->logs_gone : t->job->logs_gone;
    json_t *x = json_object();
    task_name(t, name, sizeof(name));
    json_put_str(x, "id", name);
    json_put_str(x, "job", t->job->id);
    json_put_str(x, "component", task_component(t)->name);
    json_put_i64(x, "index", t->index);
    json_put_i64(x, "attempt", t->attempt);
    json_put_str(x, "attempt_id", t->attempt_id[0] ? t->attempt_id : NULL);
    json_put_str(x, "state", task_state_to_string(t->state));
    json_put_str(x, "reason", t->reason[0] ? t->reason : NULL);
    json_put_str(x, "node", t->node_name[0] && t->state != TASK_PENDING ? t->node_name : NULL);
    put_exit(x, t);
    json_put_str(x, "health", s->health ? health_word_to_string(s->health) : NULL);
    put_cause(x, t);
    json_put_time(x, "retry_at", retry_ms(t));
    json_put(x, "gpus", gpus_json(t, false));
    json_put(x, "gpu_uuids", gpus_json(t, true));
    json_put(x, "ports", ports_json(t));
    json_put_str(x, "container_id", s->container_id[0] ? s->container_id : NULL);
    if (t->attempt)
        json_put_str(x, "logs", logs_state_to_string(gone ? LOGS_INCOMPLETE : s->logs));
    else
        json_put(x, "logs", json_null());
    json_put_time(x, "assigned_at", t->assigned_ms);
    json_put_time(x, "started_at", s->started_ms);
    json_put_time(x, "ended_at", t->logs_late ? 0 : s->ended_ms);
    return x;
}
