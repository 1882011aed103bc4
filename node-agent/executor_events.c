// SPDX-License-Identifier: Apache-2.0
// What the runtime tells: engine state, the listing, phases, starts, ends, removals. Each becomes a
// change of the table; reconcile looks at it in the same loop turn.
#include "node-agent/executor_internal.h"
#include "node-agent/secrets.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MACHINE_WENT "its machine was shut down or restarted"

static void release_slot(struct executor *x, struct task *task)
{
    if (!task->has_slot)
        return;
    task->has_slot = false;
    x->starting--;
    if (x->queue)
        tasks_touch(x->options.tasks, x->queue);
}

static void forget_secrets(struct executor *x, const char *id)
{
    if (x->options.secrets_dir)
        secrets_remove(x->options.secrets_dir, id);
}

static void open_logs(struct executor *x, struct task *task, bool resume)
{
    if (task->logs_opened)
        return;
    task->logs_opened = true;
    x->options.logs_open(task->status.id, resume, x->options.userdata);
}

void executor_end(struct executor *x, struct task *task, enum attempt_cause cause,
                  const char *reason)
{
    if (task->status.state == ATTEMPT_ENDED)
        return;
    if (!task->logs_opened)
        task->status.logs = LOGS_COMPLETE; // it never wrote any
    forget_secrets(x, task->status.id);
    tasks_end(x->options.tasks, task, cause, reason);
    release_slot(x, task);
    if (task->logs_opened)
        x->options.logs_end(task->status.id, x->options.userdata);
}

// Takes over what the runtime observed; id, change number and logs stay ours.
static void observe(struct task *task, const struct attempt_status *seen)
{
    struct attempt_status *s = &task->status;

    if (seen->container_id[0])
        memcpy(s->container_id, seen->container_id, sizeof(s->container_id));
    if (seen->pid)
        s->pid = seen->pid;
    if (seen->started_ms)
        s->started_ms = seen->started_ms;
    if (seen->health != HEALTH_WORD_NONE)
        s->health = seen->health;
    if (seen->state != ATTEMPT_ENDED)
        return;
    s->cause = seen->cause;
    s->has_exit = seen->has_exit;
    s->exit_code = seen->exit_code;
    s->signal = seen->signal;
    s->oom = seen->oom;
    s->pull = seen->pull;
    s->ended_ms = seen->ended_ms ? seen->ended_ms : clock_real_ms();
}

static void running(struct executor *x, struct task *task, const struct attempt_status *seen)
{
    if (task->status.state == ATTEMPT_ENDED)
        return;
    observe(task, seen);
    release_slot(x, task);
    if (task->status.state != ATTEMPT_STOPPING)
        task->status.state = ATTEMPT_RUNNING;
    (void)snprintf(task->status.reason, sizeof(task->status.reason), "%s", seen->reason);
    tasks_changed(x->options.tasks, task);
}

static void ended(struct executor *x, struct task *task, const struct attempt_status *seen)
{
    if (task->status.state == ATTEMPT_ENDED)
        return;
    observe(task, seen);
    // The machine went down under it, or stopped it when it did.
    bool machine =
        seen->cause == CAUSE_UNKNOWN && attempt_of_earlier_boot(&x->options.dirs, seen->id);
    if (machine) {
        task->status.cause = CAUSE_NODE_LOST;
        task->status.has_exit = false;
    }
    forget_secrets(x, task->status.id);
    if (!task->logs_opened)
        task->status.logs = LOGS_COMPLETE;
    task->status.state = ATTEMPT_ENDED;
    (void)snprintf(task->status.reason, sizeof(task->status.reason), "%s",
                   machine ? MACHINE_WENT : seen->reason);
    tasks_changed(x->options.tasks, task);
    release_slot(x, task);
    if (task->logs_opened)
        x->options.logs_end(task->status.id, x->options.userdata);
}

// --- attempts nobody saw the end of --------------------------------------------------------------

// Without a `started` record the command was never executed, as long as the record can't have been
// lost with a crash of the machine.
static bool surely_never_started(const struct executor *x, const struct task *task)
{
    pid_t pid;
    int64_t ms;

    return attempt_started_read(&x->options.dirs, task->status.id, &pid, &ms) == -ENOENT &&
           attempt_of_this_boot(&x->options.dirs, task->status.id);
}

// A start that an earlier instance had asked for came through after the listing: it is alive, or
// has left its record meanwhile.
static void adopt_late(struct executor *x, struct task *task)
{
    task->start_asked = true;
    open_logs(x, task, true);
    tasks_set_state(x->options.tasks, task, ATTEMPT_STARTING, "asked for by an earlier agent");
    x->runtime->ops->adopt(x->runtime, task->status.id);
}

// Whether meadow-init lives, or has left a record; else *ret_lock keeps another one from beginning
// (-1 where there is none to take).
static bool came_late(const struct executor *x, const char *id, int *ret_lock)
{
    struct exit_record record;

    *ret_lock = attempt_lock(&x->options.dirs, id);
    return *ret_lock == -EWOULDBLOCK || attempt_exit_read(&x->options.dirs, id, &record, NULL) == 0;
}

void executor_end_lost(struct executor *x, struct task *task)
{
    const char *id = task->status.id;
    struct err e;
    cleanup_close int lock = -1;

    if (!task->known && came_late(x, id, &lock)) {
        log_info("executor", "attempt %s: began after the listing", id);
        adopt_late(x, task);
        return;
    }
    bool never = !task->known && surely_never_started(x, task);
    bool machine = !never && attempt_of_earlier_boot(&x->options.dirs, id);
    enum attempt_cause cause = never     ? CAUSE_NEVER_STARTED
                               : machine ? CAUSE_NODE_LOST
                                         : CAUSE_UNKNOWN;
    const char *reason = never     ? "the agent was interrupted before it started this"
                         : machine ? MACHINE_WENT
                                   : "gone, and nobody saw how it ended";

    log_warn("executor", "attempt %s: %s", id, reason);
    // The last word on it: meadow-init refuses to begin where a record is, and the next agent
    // instance reads the same verdict.
    if (attempt_verdict_write(&x->options.dirs, id, cause, reason, &e) < 0)
        log_warn("executor", "attempt %s: %s", id, e.text);
    if (!never)
        open_logs(x, task, true);
    executor_end(x, task, cause, reason);
}

// --- events --------------------------------------------------------------------------------------

static void on_engine(bool ok, const char *reason, const json_t *info, void *userdata)
{
    struct executor *x = userdata;
    enum engine_state now = ok ? ENGINE_UP : ENGINE_DOWN;

    if (now != x->engine) {
        if (ok)
            log_info("executor", "the engine is usable");
        else
            log_warn("executor", "the engine is not usable: %s", reason ? reason : "?");
    }
    x->engine = now;
    (void)snprintf(x->engine_reason, sizeof(x->engine_reason), "%s", ok || !reason ? "" : reason);
    if (info) {
        json_decref(x->engine_info);
        x->engine_info = json_deep_copy(info);
    }
    for (struct task *task = tasks_first(x->options.tasks); task; task = task->hh.next)
        tasks_touch(x->options.tasks, task);
    x->options.node_changed(x->options.userdata);
}

static void adopt(struct executor *x, const struct runtime_attempt *item)
{
    struct task *task = tasks_find(x->options.tasks, item->status.id);

    if (!task)
        task = tasks_add(x->options.tasks, item->status.id, NULL);
    if (!task) {
        log_error("executor", "attempt %s: out of memory", item->status.id);
        return;
    }
    if (task->status.state == ATTEMPT_ENDED)
        return;
    bool new_to_us = !task->known;
    task->claimed = true; // whatever the folder says: it was started
    open_logs(x, task, true);
    if (new_to_us)
        log_info("executor", "attempt %s: adopted, %s", item->status.id,
                 attempt_state_to_string(item->status.state));
    if (item->status.state == ATTEMPT_ENDED)
        ended(x, task, &item->status);
    else if (new_to_us || task->status.state == ATTEMPT_STARTING)
        running(x, task, &item->status);
}

static bool in_list(const char *id, const struct runtime_attempt *items, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(items[i].status.id, id) == 0)
            return true;
    return false;
}

// What ran and is not there any more. A supervisor that lives, or a record it left, will be told of
// by the runtime.
static void find_vanished(struct executor *x, const struct runtime_attempt *items, size_t n)
{
    struct exit_record record;
    pid_t pid;

    for (struct task *task = tasks_first(x->options.tasks); task; task = task->hh.next) {
        const char *id = task->status.id;
        bool ran =
            task->known && !task->has_slot &&
            (task->status.state == ATTEMPT_RUNNING || task->status.state == ATTEMPT_STOPPING);
        if (!ran || in_list(id, items, n) || attempt_init_alive(&x->options.dirs, id, &pid) ||
            attempt_exit_read(&x->options.dirs, id, &record, NULL) == 0)
            continue;
        executor_end_lost(x, task);
    }
}

static bool may_live(const char *id, void *userdata)
{
    const struct executor *x = userdata;
    const struct task *task = tasks_find(x->options.tasks, id);
    return task && task->status.state != ATTEMPT_ENDED;
}

static void on_listed(const struct runtime_attempt *items, size_t n, void *userdata)
{
    struct executor *x = userdata;

    for (size_t i = 0; i < n; i++)
        adopt(x, &items[i]);
    find_vanished(x, items, n);
    if (!x->listed && x->options.secrets_dir)
        secrets_sweep(x->options.secrets_dir, may_live, x);
    x->listed = true;
    for (struct task *task = tasks_first(x->options.tasks); task; task = task->hh.next)
        tasks_touch(x->options.tasks, task);
    x->options.node_changed(x->options.userdata);
}

static void on_phase(const char *attempt_id, const char *text, void *userdata)
{
    struct executor *x = userdata;
    struct task *task = tasks_find(x->options.tasks, attempt_id);

    if (task && task->status.state == ATTEMPT_STARTING)
        tasks_set_state(x->options.tasks, task, ATTEMPT_STARTING, text);
}

static void on_started(const struct attempt_status *status, void *userdata)
{
    struct executor *x = userdata;
    struct task *task = tasks_find(x->options.tasks, status->id);

    if (task)
        running(x, task, status);
}

static void on_ended(const struct attempt_status *status, void *userdata)
{
    struct executor *x = userdata;
    struct task *task = tasks_find(x->options.tasks, status->id);

    if (task)
        ended(x, task, status);
}

static void on_removed(const char *attempt_id, void *userdata)
{
    struct executor *x = userdata;
    struct task *task = tasks_find(x->options.tasks, attempt_id);

    if (task && task->remove_asked)
        executor_runtime_removed(x, task);
}

static void on_images(const json_t *names, void *userdata)
{
    struct executor *x = userdata;

    if (x->images && json_equal(x->images, names))
        return;
    json_decref(x->images);
    x->images = json_deep_copy(names);
    x->options.images_changed(x->options.userdata);
}

const struct runtime_events *executor_runtime_events(void)
{
    static const struct runtime_events events = {
        .engine = on_engine,
        .listed = on_listed,
        .phase = on_phase,
        .started = on_started,
        .ended = on_ended,
        .removed = on_removed,
        .images = on_images,
    };
    return &events;
}
