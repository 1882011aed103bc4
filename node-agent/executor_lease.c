// SPDX-License-Identifier: Apache-2.0
// Leases of the attempts: deadline = time the last answered sync was sent (CLOCK_BOOTTIME, so that
// suspend counts) + the attempt's lease. meadow-init enforces what stands in the file.
#include "node-agent/executor_internal.h"

#include "common/clock.h"
#include "common/log.h"

// Answers can come many times a second while states change; a file that would move by less than
// this share of the lease is left alone. The file is then early, never late.
#define LEASE_SLACK_SHARE 20
#define LEASE_SLACK_MS 1000

bool executor_lease_valid(const struct executor *x, const struct attempt_spec *spec)
{
    if (spec->lease_ms == 0)
        return true;
    return x->lease_zero_ms > 0 && clock_boot_ms() < x->lease_zero_ms + spec->lease_ms;
}

void executor_lease_write(struct executor *x, struct task *task)
{
    struct err e;

    if (!task->spec || task->spec->lease_ms == 0 || x->lease_zero_ms == 0)
        return;
    int64_t deadline = x->lease_zero_ms + task->spec->lease_ms;
    int64_t slack = task->spec->lease_ms / LEASE_SLACK_SHARE;
    if (slack > LEASE_SLACK_MS)
        slack = LEASE_SLACK_MS;
    if (task->lease_written_ms && deadline - task->lease_written_ms < slack)
        return;
    if (attempt_lease_write(&x->options.dirs, task->status.id, x->options.boot_id, deadline, &e) <
        0) {
        log_error("lease", "%s", e.text);
        return;
    }
    task->lease_written_ms = deadline;
}

static bool holds_lease(const struct task *task)
{
    enum attempt_state s = task->status.state;
    return task->claimed && task->member != TASK_DROPPED && task->known && s != ATTEMPT_ENDED &&
           s != ATTEMPT_ASSIGNED;
}

void executor_lease(struct executor *x, int64_t sent_boot_ms)
{
    bool was_late = false;

    if (sent_boot_ms > x->lease_zero_ms)
        x->lease_zero_ms = sent_boot_ms;
    for (struct task *task = tasks_first(x->options.tasks); task; task = task->hh.next) {
        if (holds_lease(task))
            executor_lease_write(x, task);
        was_late |= task->queued;
    }
    // Starts that waited for a valid lease can go on now.
    if (was_late && x->queue)
        tasks_touch(x->options.tasks, x->queue);
}
