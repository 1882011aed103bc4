// SPDX-License-Identifier: Apache-2.0
// Forgetting attempts: out of the inventory at once, then the runtime's part, then the files. Files
// are removed when nothing waits to be started (many file systems create files slowly while many
// were just deleted), or when too many have gathered. What is left behind by a stop of the agent is
// forgotten again by the next instance.
#include "node-agent/executor_internal.h"

#include "common/log.h"

#include <utlist.h>

#define REMOVALS_KEPT_MAX 2000 // attempts whose files may wait
#define REMOVALS_AT_ONCE 2

static void enqueue(struct executor *x, struct task *task)
{
    DL_APPEND(x->removals, task);
    x->n_removals++;
    tasks_touch(x->options.tasks, task);
}

void executor_forget(struct executor *x, struct task *task)
{
    task->remove_asked = true;
    task->known = false;
    x->options.logs_forget(task->status.id, x->options.userdata);
    if (task->claimed)
        x->runtime->ops->remove(x->runtime, task->status.id);
    else
        enqueue(x, task); // never got as far as the runtime
}

void executor_runtime_removed(struct executor *x, struct task *task)
{
    enqueue(x, task);
}

static bool may_remove(const struct executor *x)
{
    if (!x->removals || x->removing >= REMOVALS_AT_ONCE)
        return false;
    return (x->starting == 0 && !x->queue) || x->n_removals > REMOVALS_KEPT_MAX;
}

void executor_remove_queued(struct executor *x)
{
    while (may_remove(x)) {
        struct task *task = x->removals;
        DL_DELETE(x->removals, task);
        x->n_removals--;
        x->removing++;
        int r = executor_remove_files(x, task);
        if (r < 0) {
            x->removing--;
            log_error("executor", "attempt %s: its folders stay: %s", task->status.id,
                      uv_strerror(r));
            tasks_remove(x->options.tasks, task);
        }
    }
}

void executor_files_removed(struct executor *x, struct task *task, int result, const char *why)
{
    x->removing--;
    if (result < 0)
        log_error("executor", "attempt %s: %s", task->status.id, why);
    if (!x->closing)
        tasks_remove(x->options.tasks, task);
}
