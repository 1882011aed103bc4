// SPDX-License-Identifier: Apache-2.0
// The executor: takes reconcile's decision for each touched attempt and carries it out. A start
// takes a slot, makes the claim durable, completes the environment, writes the lease, and only then
// asks the runtime; the slot is given back when the runtime says started or ended.
#include "node-agent/executor_internal.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

int executor_new(const struct executor_options *options, struct executor **ret)
{
    struct executor *x = calloc(1, sizeof(*x));
    if (!x)
        return -ENOMEM;
    x->options = *options;
    if (x->options.max_starts == 0)
        x->options.max_starts = 1;
    *ret = x;
    return 0;
}

void executor_set_runtime(struct executor *x, struct runtime *runtime)
{
    x->runtime = runtime;
}

static int load_claim(struct executor *x, const char *id)
{
    struct attempt_spec *spec = NULL;
    struct err e;
    int r = attempt_claim_read(&x->options.dirs, id, &spec, &e);

    if (r == -ENOMEM)
        return r;
    if (r == 0 && strcmp(spec->id, id) != 0) {
        attempt_spec_free(spec);
        spec = NULL;
    } else if (r < 0) {
        log_warn("executor", "%s", e.text);
    }
    struct task *task = tasks_add(x->options.tasks, id, spec);
    if (!task)
        return -ENOMEM;
    task->claimed = true;
    return 0;
}

int executor_load(struct executor *x, struct err *e)
{
    cleanup_free char(*ids)[ATTEMPT_ID_BYTES] = NULL;
    size_t n = 0;
    int r = attempt_claims_list(&x->options.dirs, &ids, &n, e);

    for (size_t i = 0; r == 0 && i < n; i++)
        r = load_claim(x, ids[i]) < 0 ? err_set(e, -ENOMEM, "out of memory") : 0;
    if (r == 0 && n > 0)
        log_info("executor", "%zu attempts were claimed by earlier instances", n);
    return r;
}

// --- starting ------------------------------------------------------------------------------------

static void unqueue(struct executor *x, struct task *task)
{
    if (!task->queued)
        return;
    task->queued = false;
    DL_DELETE(x->queue, task);
}

static void enqueue(struct executor *x, struct task *task)
{
    if (task->queued)
        return;
    task->queued = true;
    DL_APPEND(x->queue, task);
}

static void begin_start(struct executor *x, struct task *task)
{
    int64_t limit = x->options.log_limit;

    if (limit > 0 && (task->spec->log_limit == 0 || task->spec->log_limit > limit))
        task->spec->log_limit = limit;
    task->start_asked = true;
    task->has_slot = true;
    x->starting++;
    tasks_set_state(x->options.tasks, task, ATTEMPT_STARTING, "claiming");
    executor_claim(x, task);
}

// The claim is durable: from here on the attempt counts as started by this instance.
static void start_claimed(struct executor *x, struct task *task)
{
    struct err e;

    task->claimed = true;
    if (task->desired == DESIRED_STOP || task->member == TASK_DROPPED) {
        executor_end(x, task, CAUSE_STOPPED, "stopped before it began");
        return;
    }
    if (x->options.prepare(task->spec, x->options.userdata, &e) < 0 ||
        executor_lease_write(x, task, &e) < 0) {
        executor_end(x, task, CAUSE_ENGINE, e.text);
        return;
    }
    task->logs_opened = true;
    x->options.logs_open(task->status.id, false, x->options.userdata);
    x->runtime->ops->start(x->runtime, task->spec);
}

void executor_claimed(struct executor *x, struct task *task, int result, enum attempt_cause failed,
                      const char *why)
{
    if (x->closing)
        return; // the next instance finds the claim and decides
    if (result == 0)
        start_claimed(x, task);
    else if (result == -EEXIST)
        executor_end(x, task, CAUSE_UNKNOWN, "there is a claim of an earlier instance already");
    else
        executor_end(x, task, failed, why);
}

static void start_queued(struct executor *x)
{
    struct task *task, *next;

    DL_FOREACH_SAFE (x->queue, task, next) {
        if (x->starting >= x->options.max_starts)
            return;
        if (!executor_lease_valid(x, task))
            continue; // waits for the next answered sync
        unqueue(x, task);
        begin_start(x, task);
    }
}

// --- stopping ------------------------------------------------------------------------------------

static void stop(struct executor *x, struct task *task)
{
    task->stop_asked = true;
    tasks_set_state(x->options.tasks, task, ATTEMPT_STOPPING, "");
    if (task->pins == 0) // while the claim is being made there is nothing to stop yet
        x->runtime->ops->stop(x->runtime, task->status.id, -1);
}

// --- the pass ------------------------------------------------------------------------------------

static struct reconcile_facts facts_of(const struct executor *x, const struct task *task)
{
    struct reconcile_facts f = {
        .member = task->member,
        .desired = task->desired,
        .issued_here = task->spec && strcmp(task->spec->issued_to, x->options.instance) == 0,
        .claimed = task->claimed,
        .known = task->known,
        .listed = x->listed,
        .engine = x->engine,
        .state = task->status.state,
        .start_asked = task->start_asked,
        .stop_asked = task->stop_asked,
        .remove_asked = task->remove_asked,
    };
    return f;
}

static void act(struct executor *x, struct task *task)
{
    struct reconcile_facts facts = facts_of(x, task);
    enum reconcile_action action = reconcile_decide(&facts);

    if (action == ACT_START) {
        enqueue(x, task);
        return;
    }
    unqueue(x, task);
    if (action != ACT_NOTHING)
        log_debug("executor", "attempt %s: %s", task->status.id,
                  reconcile_action_to_string(action));
    switch (action) {
    case ACT_STOP:
        stop(x, task);
        break;
    case ACT_REMOVE:
        executor_forget(x, task);
        break;
    case ACT_STOPPED:
        executor_end(x, task, CAUSE_STOPPED, "stopped before it began");
        break;
    case ACT_NEVER_STARTED:
        executor_end(x, task, CAUSE_NEVER_STARTED, "issued to an earlier agent instance");
        break;
    case ACT_LOST:
        executor_end_lost(x, task);
        break;
    case ACT_ENGINE:
        executor_end(x, task, CAUSE_ENGINE, x->engine_reason);
        break;
    case ACT_NOTHING:
    case ACT_START:
    case ACT_MAX:
        break;
    }
}

static bool look_at_touched(struct executor *x)
{
    struct task *task, *next;
    bool any = false;

    for (task = tasks_first(x->options.tasks); task; task = next) {
        next = task->hh.next;
        if (!task->dirty)
            continue;
        any = true;
        task->dirty = false;
        act(x, task);
    }
    start_queued(x);
    return any;
}

void executor_run(struct executor *x)
{
    if (x->closing || !x->runtime)
        return;
    // Acting may touch the record again (an end that makes a removal due).
    for (int rounds = 0; rounds < 4 && look_at_touched(x); rounds++)
        ;
    executor_remove_queued(x);
}

// --- the rest ------------------------------------------------------------------------------------

bool executor_listed(const struct executor *x)
{
    return x->listed;
}

enum engine_state executor_engine(const struct executor *x)
{
    return x->engine;
}

const char *executor_engine_reason(const struct executor *x)
{
    return x->engine_reason;
}

const json_t *executor_engine_info(const struct executor *x)
{
    return x->engine_info;
}

json_t *executor_images(const struct executor *x)
{
    return x->images;
}

unsigned executor_starting(const struct executor *x)
{
    return x->starting;
}

void executor_finish_close(struct executor *x)
{
    if (!x->closing || x->works > 0 || !x->closed)
        return;
    void (*closed)(void *) = x->closed;
    void *userdata = x->closed_userdata;
    json_decref(x->engine_info);
    json_decref(x->images);
    free(x);
    closed(userdata);
}

void executor_close(struct executor *x, void (*closed)(void *userdata), void *userdata)
{
    x->closing = true;
    x->closed = closed;
    x->closed_userdata = userdata;
    executor_finish_close(x);
}
