// SPDX-License-Identifier: Apache-2.0
// A task's life: placed, reported, ended, restarted. Its resources are free when the process is
// gone; its end is shown when its logs are in, or 10 s later with logs "incomplete".
#include "common/backoff.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/strbuf.h"
#include "master/cluster/cluster_internal.h"
#include "master/cluster/job_limits.h"
#include "master/cluster/refusal.h"
#include "master/cluster/restart.h"
#include "master/scheduler/scheduler.h"

#include <stdlib.h>
#include <string.h>

#define LOGS_WAIT_MS INT64_C(10000)

const struct job_component *task_component(const struct task *t)
{
    return &t->job->spec->components[t->component];
}

void task_name(const struct task *t, char *out, size_t size)
{
    (void)snprintf(out, size, "%s/%s/%d", t->job->id, task_component(t)->name, t->index);
}

const struct attempt_status *task_status(const struct task *t)
{
    static const struct attempt_status none;
    return t->status ? t->status : &none;
}

void task_free(struct task *t)
{
    reason_set(&t->reason, "");
    free(t->status);
    free(t->previous);
}

static bool over(enum task_state s)
{
    return s >= TASK_SUCCEEDED;
}

void task_set_state(struct cluster *c, struct task *t, enum task_state s, const char *reason)
{
    struct job *j = t->job;
    bool same = t->state == s;
    if (reason != t->reason) // it may be the reason that it has
        reason_set(&t->reason, reason);
    task_dirty(c, t);
    if (same)
        return;
    j->counts[t->component][t->state]--;
    j->totals[t->state]--;
    t->state = s;
    j->counts[t->component][s]++;
    j->totals[s]++;
    char type[32];
    (void)snprintf(type, sizeof(type), "task.%s", task_state_to_string(s));
    event_emit(c,
               &(struct event_fields){.type = type, .object = "task", .task = t, .reason = reason});
    job_queue_update(c, j);
}

// --- tasks that wait for a moment, and their timer ---

static int64_t due(const struct task *t)
{
    return t->in_backoff ? t->not_before_boot_ms : t->logs_deadline_boot_ms;
}

static bool sooner(const void *a, const void *b)
{
    return due(a) < due(b);
}

static size_t *wait_place(void *item)
{
    return &((struct task *)item)->wait_at;
}

void task_waits_init(struct cluster *c)
{
    c->waits = (struct heap){.before = sooner, .place = wait_place};
}

static void wait_add(struct cluster *c, struct task *t)
{
    if (heap_add(&c->waits, t) < 0)
        log_error("cluster", "out of memory: a task of job %s waits until the master starts again",
                  t->job->id);
    task_timers(c);
}

static void wait_remove(struct cluster *c, struct task *t)
{
    heap_remove(&c->waits, t);
    t->in_backoff = t->logs_late = false;
}

void task_back_off(struct cluster *c, struct task *t, int64_t delay_ms)
{
    t->not_before_boot_ms = clock_boot_ms() + delay_ms;
    t->in_backoff = true;
    wait_add(c, t);
}

static void on_timer(uv_timer_t *timer)
{
    task_timer_fired(timer->data);
}

void task_timers(struct cluster *c)
{
    const struct task *first = heap_first(&c->waits);
    int64_t at = first ? due(first) : INT64_MAX;
    if (job_limits_due(c) < at)
        at = job_limits_due(c);
    if (!c->commit)
        return;
    if (at == INT64_MAX) {
        (void)uv_timer_stop(&c->timer);
        return;
    }
    int64_t delay = at - clock_boot_ms();
    (void)uv_timer_start(&c->timer, on_timer, delay > 0 ? (uint64_t)delay : 0, 0);
}

static void show_end(struct cluster *c, struct task *t)
{
    t->logs_late = false;
    task_set_state(c, t, t->final_state, t->reason);
    job_refresh(c, t->job);
}

void task_timer_fired(struct cluster *c)
{
    int64_t now = clock_boot_ms();
    for (struct task *t; (t = heap_first(&c->waits)) && due(t) <= now;) {
        bool restart = t->in_backoff;
        wait_remove(c, t);
        if (restart) {
            want_schedule(c);
            scheduler_job_stale(c, t->job);
        } else {
            t->status->logs = LOGS_INCOMPLETE;
            show_end(c, t);
        }
    }
    job_limits_look(c, LIMIT_BOOT, now);
}

// --- placement ---

// Whether there is room for what an attempt leaves in the task.
static bool attempt_room(struct task *t)
{
    if (!t->status)
        t->status = calloc(1, sizeof(*t->status));
    if (!t->previous && t->attempt_id[0])
        t->previous = calloc(TASK_PREVIOUS_MAX, sizeof(*t->previous));
    return t->status && (t->previous || !t->attempt_id[0]);
}

static void forget_attempt(struct cluster *c, struct task *t)
{
    if (!t->attempt_id[0])
        return;
    if (t->n_previous == TASK_PREVIOUS_MAX)
        c->options.forget_logs(t->previous[--t->n_previous], c->options.userdata);
    memmove(t->previous[1], t->previous[0], (size_t)t->n_previous * sizeof(t->previous[0]));
    memcpy(t->previous[0], t->attempt_id, sizeof(t->previous[0]));
    t->n_previous++;
}

void task_place(struct cluster *c, struct task *t, struct node *n, const struct resources *granted,
                uint64_t gpus, const uint16_t *ports, int n_ports)
{
    char id[ATTEMPT_ID_BYTES] = "a";
    if (id_random(id + 1, 20) < 0 || !attempt_room(t)) {
        log_error("cluster", "no random numbers, or no memory: a task of job %s is not placed",
                  t->job->id);
        return;
    }
    forget_attempt(c, t);
    memcpy(t->attempt_id, id, sizeof(id));
    t->attempt += 1 + t->attempts_lost;
    t->attempts_lost = 0;
    t->starts++;
    memcpy(t->issued_to, n->instance, sizeof(t->issued_to));
    t->node = n;
    (void)snprintf(t->node_name, sizeof(t->node_name), "%s", n->name);
    t->granted = *granted;
    t->gpus = gpus;
    t->n_ports = n_ports;
    memcpy(t->ports, ports, (size_t)n_ports * sizeof(*ports));
    t->change = 0;
    t->change_of[0] = '\0';
    t->moving = t->former = false;
    *t->status = (struct attempt_status){0};
    memcpy(t->status->id, id, sizeof(id));
    t->assigned_ms = clock_real_ms();
    int64_t after = task_component(t)->lost_after_ms;
    t->lease_ms = after ? after : c->options.lease_ms;
    node_reserve(c, n, t);
    node_aside_placed(n);
    if (!assignment_add(c, n, t))
        log_error("cluster", "out of memory: attempt %s reaches its node late", id);
    task_set_state(c, t, TASK_ASSIGNED, "");
}

// --- what the agent says ---

static void begin_wait_for_logs(struct cluster *c, struct task *t, enum task_state final)
{
    t->final_state = final;
    if (t->status->logs != LOGS_OPEN) {
        show_end(c, t);
        return;
    }
    t->logs_late = true;
    t->logs_deadline_boot_ms = clock_boot_ms() + LOGS_WAIT_MS;
    task_dirty(c, t);
    wait_add(c, t);
}

// The entry stays in the node's assignment until its logs are in; the task goes on without it.
static void leave_entry(struct cluster *c, struct node *n, struct task *t)
{
    struct assignment *a = t->entry;
    t->entry = NULL;
    if (!a)
        return;
    a->task = NULL;
    if (t->status->logs == LOGS_COMPLETE || !a->reported)
        assignment_remove(c, n, a);
}

// Puts the node before those that the job avoids already. Out of memory: it is not avoided.
static void job_avoid(struct cluster *c, struct job *j, const char *name)
{
    cleanup_strbuf struct strbuf list = {0};
    size_t len = strlen(name), word;
    const char *at = j->avoid ? j->avoid : "";
    strbuf_puts(&list, name);
    for (int n = 1; *at && n < PLAN_AVOID_MAX; at += word + (at[word] != '\0')) {
        word = strcspn(at, "\n");
        if (word == len && strncmp(at, name, len) == 0)
            continue;
        strbuf_printf(&list, "\n%.*s", (int)word, at);
        n++;
    }
    if (list.failed)
        return;
    free(j->avoid);
    j->avoid = strbuf_take(&list);
    job_dirty(c, j);
}

static void again(struct cluster *c, struct node *n, struct task *t,
                  const struct restart_decision *d)
{
    leave_entry(c, n, t);
    if (t->status->cause != CAUSE_MOVED &&
        (t->status->cause != CAUSE_EXIT || t->status->exit_code != 0))
        job_avoid(c, t->job, n->name);
    char reason[REASON_BYTES + 32];
    (void)snprintf(reason, sizeof(reason), "attempt %d: %s", t->attempt, d->reason);
    reason[REASON_BYTES - 1] = '\0';
    int64_t delay_ms = (int64_t)backoff_spread((uint64_t)d->delay_ms);
    task_set_state(c, t, TASK_PENDING, reason);
    if (delay_ms > 0)
        task_back_off(c, t, delay_ms);
    else
        want_schedule(c);
}

static void ended(struct cluster *c, struct node *n, struct task *t)
{
    const struct job_component *k = task_component(t);
    bool infra = t->status->cause == CAUSE_ENGINE || t->status->cause == CAUSE_NEVER_STARTED ||
                 t->status->cause == CAUSE_FENCED;
    t->infra_failures = infra ? restart_row(t->infra_failures, t->status, RESTART_INFRA_MAX_MS) : 0;
    int ends = restart_row(t->ends, t->status, k->max_backoff_ms);
    bool left = t->status->cause == CAUSE_POLICY && refusal_note(c->nodes, t, n);
    struct restart_input in = {k->restart,
                               k->max_attempts,
                               k->backoff_ms,
                               k->max_backoff_ms,
                               t->starts,
                               ends,
                               t->infra_failures,
                               t->refusals,
                               left,
                               t->job->state == JOB_STOPPING,
                               k->lost_action,
                               t->job->spec->preemptible,
                               t->status};
    struct restart_decision d;
    restart_decide(&in, &d);
    if (d.counted)
        t->ends = ends;
    else if (t->starts > 0)
        t->starts--;
    node_release(c, t);
    node_aside_ended(c, n, t);
    if (d.action == RESTART_AGAIN) {
        again(c, n, t, &d);
        job_refresh(c, t->job);
        return;
    }
    if (d.action == RESTART_STOP_JOB) {
        char text[320];
        (void)snprintf(text, sizeof(text), "%s/%d asked for the job's end (exit code 65)", k->name,
                       t->index);
        job_end_begin(c, t->job, JOB_FAILED, NULL, text);
    }
    reason_set(&t->reason, d.state == TASK_SUCCEEDED ? "" : d.reason);
    begin_wait_for_logs(c, t, d.state);
}

static void logs_arrived(struct cluster *c, struct task *t)
{
    if (t->logs_late) {
        wait_remove(c, t);
        show_end(c, t);
    } else {
        task_dirty(c, t); // "incomplete" became "complete"
    }
}

static void tell_health(struct cluster *c, struct task *t)
{
    char type[32];
    (void)snprintf(type, sizeof(type), "task.%s", health_word_to_string(t->status->health));
    if (t->status->health == HEALTH_WORD_HEALTHY || t->status->health == HEALTH_WORD_UNHEALTHY)
        event_emit(c, &(struct event_fields){
                          .type = type, .object = "task", .task = t, .reason = t->status->reason});
    task_dirty(c, t);
}

void task_apply_status(struct cluster *c, struct node *n, struct task *t,
                       const struct attempt_status *s)
{
    bool was_over = over(t->state) || t->logs_late;
    bool starts = s->started_ms && !t->status->started_ms; // the first news of it
    enum health_word health = t->status->health;
    *t->status = *s;
    t->status->job[0] = '\0';
    if (s->health != health)
        tell_health(c, t);
    if (starts)
        node_aside_clear(c, n);
    // It ended because we told it to, and nobody wanted that but for the node.
    if (t->moving && !was_over && s->state == ATTEMPT_ENDED &&
        (s->cause == CAUSE_STOPPED || s->cause == CAUSE_UNKNOWN)) {
        t->status->cause = CAUSE_MOVED;
        (void)snprintf(t->status->reason, sizeof(t->status->reason), "%s", t->reason);
    }
    switch (s->state) {
    case ATTEMPT_STARTING:
        if (t->state == TASK_ASSIGNED || t->state == TASK_STARTING)
            task_set_state(c, t, TASK_STARTING, s->reason);
        break;
    case ATTEMPT_RUNNING:
        if (t->state < TASK_RUNNING) {
            task_set_state(c, t, TASK_RUNNING, "");
            job_refresh(c, t->job);
        }
        task_dirty(c, t);
        break;
    case ATTEMPT_STOPPING:
        if (t->state < TASK_STOPPING)
            task_set_state(c, t, TASK_STOPPING, s->reason);
        break;
    case ATTEMPT_ENDED:
        if (!was_over)
            ended(c, n, t);
        else if (s->logs == LOGS_COMPLETE)
            logs_arrived(c, t);
        if (t->entry && s->logs == LOGS_COMPLETE)
            assignment_remove(c, n, t->entry);
        break;
    case ATTEMPT_ASSIGNED:
    case ATTEMPT_STATE_MAX:
        break;
    }
}

void task_gone(struct cluster *c, struct node *n, struct task *t, const char *reason)
{
    if (!over(t->state) && !t->logs_late) {
        t->status->state = ATTEMPT_ENDED;
        t->status->cause = CAUSE_UNKNOWN;
        t->status->has_exit = false;
        t->status->logs = LOGS_INCOMPLETE;
        t->status->ended_ms = clock_real_ms();
        (void)snprintf(t->status->reason, sizeof(t->status->reason), "%s", reason);
        ended(c, n, t);
    }
    if (t->entry)
        assignment_remove(c, n, t->entry);
}

void task_lost(struct cluster *c, struct node *n, struct task *t, const char *reason)
{
    if (t->entry)
        assignment_give_away(c, n, t->entry);
    if (over(t->state) || t->logs_late)
        return;
    t->status->state = ATTEMPT_ENDED;
    t->status->cause = CAUSE_NODE_LOST;
    t->status->has_exit = false;
    t->status->logs = LOGS_INCOMPLETE;
    t->status->ended_ms = clock_real_ms();
    (void)snprintf(t->status->reason, sizeof(t->status->reason), "%s", reason);
    event_emit(c, &(struct event_fields){
                      .type = "attempt.lost", .object = "task", .task = t, .reason = reason});
    ended(c, n, t);
}

static void tell_to_stop(struct cluster *c, struct task *t, const char *reason)
{
    t->stop_by_ms = clock_real_ms() + task_component(t)->grace_ms;
    if (t->entry)
        assignment_stop(c, t->node, t->entry);
    task_set_state(c, t, TASK_STOPPING, reason);
}

void task_stop(struct cluster *c, struct task *t, const char *reason)
{
    if (over(t->state) || t->logs_late)
        return;
    if (t->state == TASK_PENDING) {
        wait_remove(c, t);
        task_set_state(c, t, TASK_STOPPED, reason);
        return;
    }
    tell_to_stop(c, t, reason);
}

void task_move(struct cluster *c, struct task *t, const char *reason)
{
    if (over(t->state) || t->logs_late || t->state == TASK_PENDING || t->state == TASK_STOPPING)
        return;
    t->moving = true;
    tell_to_stop(c, t, reason);
}
