// SPDX-License-Identifier: Apache-2.0
// The master's assignment into the table of attempts. It only records what is wanted; reconcile
// decides what follows.
#include "node-agent/reconcile.h"

#include "common/cleanup.h"

#include <string.h>

static int take_entry(struct tasks *t, struct assignment_entry *entry, const char *instance)
{
    struct task *task = tasks_find(t, entry->spec->id);

    if (!task) {
        task = tasks_add(t, entry->spec->id, entry->spec);
        entry->spec = NULL;
        if (!task)
            return -ENOMEM;
        // Held from now on, so it belongs into the inventory. What an earlier instance was given
        // stays out until the runtime has told what became of it.
        if (strcmp(task->spec->issued_to, instance) == 0)
            tasks_changed(t, task);
    }
    if (!task->spec)
        task->spec = TAKE_PTR(entry->spec);
    task->desired = entry->desired;
    task->member = TASK_ASSIGNED;
    tasks_touch(t, task);
    return 0;
}

static void drop(struct tasks *t, struct task *task)
{
    if (task->member == TASK_DROPPED)
        return;
    task->member = TASK_DROPPED;
    tasks_touch(t, task);
}

// Everything is undecided before a whole set is taken in, and what still is afterwards was not in
// it.
static void undecide_all(struct tasks *t)
{
    for (struct task *task = tasks_first(t); task; task = task->hh.next)
        if (task->member == TASK_ASSIGNED)
            task->member = TASK_UNDECIDED;
}

static void drop_undecided(struct tasks *t)
{
    for (struct task *task = tasks_first(t); task; task = task->hh.next)
        if (task->member == TASK_UNDECIDED)
            drop(t, task);
}

int assignment_apply(struct tasks *t, struct sync_answer *a, const char *instance,
                     struct sync_position *position, bool *ret_applied)
{
    *ret_applied = false;
    if (!a->assignment_full &&
        (a->base.epoch != position->epoch || a->base.generation != position->generation))
        return 0;
    if (a->assignment_full)
        undecide_all(t);
    for (size_t i = 0; i < a->n_entries; i++)
        if (take_entry(t, &a->entries[i], instance) < 0)
            return -ENOMEM;
    if (a->assignment_full)
        drop_undecided(t);
    for (size_t i = 0; i < a->n_removed; i++) {
        struct task *task = tasks_find(t, a->removed[i]);
        if (task)
            drop(t, task);
    }
    *position = a->position;
    *ret_applied = true;
    return 0;
}
