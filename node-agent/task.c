// SPDX-License-Identifier: Apache-2.0
// The table of attempts. Change numbers start at 1 in each agent instance and are given per change
// of a status; the master acknowledges them when they are durable, and until then each message
// carries them again.
#include "node-agent/task.h"

#include "common/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tasks {
    struct task *by_id;
    int64_t last_change;
    int64_t acked;
    int64_t removed;
    void (*woken)(void *userdata);
    void *userdata;
};

int tasks_new(void (*woken)(void *userdata), void *userdata, struct tasks **ret)
{
    struct tasks *t = calloc(1, sizeof(*t));
    if (!t)
        return -ENOMEM;
    t->woken = woken;
    t->userdata = userdata;
    *ret = t;
    return 0;
}

static void task_free(struct task *task)
{
    attempt_spec_free(task->spec);
    free(task);
}

void tasks_free(struct tasks *t)
{
    struct task *task, *next;

    if (!t)
        return;
    HASH_ITER (hh, t->by_id, task, next) {
        HASH_DEL(t->by_id, task);
        task_free(task);
    }
    free(t);
}

struct task *tasks_find(const struct tasks *t, const char *id)
{
    struct task *found;
    HASH_FIND_STR(t->by_id, id, found);
    return found;
}

struct task *tasks_add(struct tasks *t, const char *id, struct attempt_spec *spec)
{
    struct task *task = calloc(1, sizeof(*task));
    if (!task) {
        attempt_spec_free(spec);
        return NULL;
    }
    (void)snprintf(task->status.id, sizeof(task->status.id), "%s", id);
    task->spec = spec;
    HASH_ADD_STR(t->by_id, status.id, task);
    return task;
}

void tasks_remove(struct tasks *t, struct task *task)
{
    HASH_DEL(t->by_id, task);
    task_free(task);
    t->removed++;
    if (t->woken)
        t->woken(t->userdata);
}

struct task *tasks_first(const struct tasks *t)
{
    return t->by_id;
}

size_t tasks_count(const struct tasks *t)
{
    return HASH_COUNT(t->by_id);
}

void tasks_touch(struct tasks *t, struct task *task)
{
    task->dirty = true;
    if (t->woken)
        t->woken(t->userdata);
}

void tasks_changed(struct tasks *t, struct task *task)
{
    task->known = true;
    task->status.change = ++t->last_change;
    tasks_touch(t, task);
}

void tasks_set_state(struct tasks *t, struct task *task, enum attempt_state state,
                     const char *reason)
{
    struct attempt_status *s = &task->status;

    if (s->state == ATTEMPT_ENDED)
        return;
    if (task->known && s->state == state && strcmp(s->reason, reason) == 0)
        return;
    s->state = state;
    (void)snprintf(s->reason, sizeof(s->reason), "%s", reason);
    tasks_changed(t, task);
}

void tasks_end(struct tasks *t, struct task *task, enum attempt_cause cause, const char *reason)
{
    struct attempt_status *s = &task->status;

    if (s->state == ATTEMPT_ENDED)
        return;
    s->cause = cause;
    s->ended_ms = clock_real_ms();
    tasks_set_state(t, task, ATTEMPT_ENDED, reason);
}

int64_t tasks_last_change(const struct tasks *t)
{
    return t->last_change;
}

int64_t tasks_activity(const struct tasks *t)
{
    return t->last_change + t->removed;
}

int64_t tasks_acked(const struct tasks *t)
{
    return t->acked;
}

void tasks_ack(struct tasks *t, int64_t change)
{
    if (change > t->acked && change <= t->last_change)
        t->acked = change;
}

static bool wanted(const struct tasks *t, const struct task *task, bool all)
{
    return task->known && (all || task->status.change > t->acked);
}

int tasks_collect(const struct tasks *t, bool all, struct attempt_status **ret, size_t *ret_n)
{
    size_t n = 0;

    *ret = NULL;
    *ret_n = 0;
    for (const struct task *task = t->by_id; task; task = task->hh.next)
        n += wanted(t, task, all);
    if (n == 0)
        return 0;
    struct attempt_status *list = calloc(n, sizeof(*list));
    if (!list)
        return -ENOMEM;
    n = 0;
    for (const struct task *task = t->by_id; task; task = task->hh.next)
        if (wanted(t, task, all)) {
            list[n] = task->status;
            if (all && task->spec)
                (void)snprintf(list[n].job, sizeof(list[n].job), "%s", task->spec->job);
            n++;
        }
    *ret = list;
    *ret_n = n;
    return 0;
}

uint64_t tasks_digest(const struct tasks *t)
{
    uint64_t sum = 0;
    for (const struct task *task = t->by_id; task; task = task->hh.next)
        if (task->known)
            sum += inventory_hash(task->status.id, task->status.state);
    return sum;
}
