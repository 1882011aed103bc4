// SPDX-License-Identifier: Apache-2.0
// Leases of the attempts: deadline = time the last answered sync was sent (CLOCK_BOOTTIME, so that
// suspend counts) + the attempt's lease, for those that the answer renews. meadow-init enforces
// what stands in the file; so that no agent, once cut off, need do anything.
#include "node-agent/executor_internal.h"

#include "common/clock.h"
#include "common/log.h"

// Answers can come many times a second while states change; a file that would move by less than
// this share of the lease is left alone. The file is then early, never late.
#define LEASE_SLACK_SHARE 20
#define LEASE_SLACK_MS 1000

static int64_t lease_of(const struct executor *x, const struct attempt_spec *spec)
{
    return spec->lease_ms > x->lease_at_least_ms ? spec->lease_ms : x->lease_at_least_ms;
}

bool executor_lease_valid(const struct executor *x, const struct task *task)
{
    if (task->spec->lease_ms == 0)
        return true;
    return x->lease_zero_ms > 0 && !task->lease_denied &&
           clock_boot_ms() < x->lease_zero_ms + lease_of(x, task->spec);
}

int executor_lease_write(struct executor *x, struct task *task, struct err *e)
{
    if (!task->spec || task->spec->lease_ms == 0 || x->lease_zero_ms == 0 || task->lease_denied)
        return 0;
    int64_t deadline = x->lease_zero_ms + lease_of(x, task->spec);
    int64_t slack = task->spec->lease_ms / LEASE_SLACK_SHARE;
    if (slack > LEASE_SLACK_MS)
        slack = LEASE_SLACK_MS;
    // Back it goes at once: the end of a longer lease that a stopping master had granted.
    if (task->lease_written_ms && deadline >= task->lease_written_ms &&
        deadline - task->lease_written_ms < slack)
        return 0;
    int r = attempt_lease_write(&x->options.dirs, task->status.id, x->options.boot_id, deadline,
                                task->spec->lease_ms, e);
    if (r == 0)
        task->lease_written_ms = deadline;
    return r;
}

// Also of what only the claim tells us yet: it may well run.
static bool holds_lease(const struct task *task)
{
    enum attempt_state s = task->status.state;
    if (!task->claimed || task->member == TASK_DROPPED || s == ATTEMPT_ENDED)
        return false;
    return s != ATTEMPT_ASSIGNED || !task->known;
}

static void note_scope(struct executor *x, const struct sync_answer *a)
{
    for (struct task *task = tasks_first(x->options.tasks); task; task = task->hh.next)
        task->lease_denied = a->lease_scope == LEASES_ONLY;
    for (size_t i = 0; i < a->n_leases; i++) {
        struct task *task = tasks_find(x->options.tasks, a->leases[i]);
        if (task)
            task->lease_denied = a->lease_scope == LEASES_EXCEPT;
    }
}

void executor_lease(struct executor *x, const struct sync_answer *answer, int64_t sent_boot_ms)
{
    bool was_late = false;
    struct err e;

    if (sent_boot_ms < x->lease_zero_ms)
        return; // overtaken by a later one
    x->lease_zero_ms = sent_boot_ms;
    x->lease_at_least_ms = answer->lease_at_least_ms;
    note_scope(x, answer);
    for (struct task *task = tasks_first(x->options.tasks); task; task = task->hh.next) {
        if (holds_lease(task) && executor_lease_write(x, task, &e) < 0)
            log_error("lease", "%s", e.text);
        was_late |= task->queued;
    }
    // Starts that waited for a valid lease can go on now.
    if (was_late && x->queue)
        tasks_touch(x->options.tasks, x->queue);
}
