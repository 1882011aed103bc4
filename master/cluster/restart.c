// SPDX-License-Identifier: Apache-2.0
// The restart rules. Pure.
#include "master/cluster/restart.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define EXIT_NO_RESTART 64
#define EXIT_STOP_JOB 65

static int64_t backoff(int n, int64_t first, int64_t max)
{
    if (n <= 1)
        return 0;
    int64_t delay = first;
    for (int i = 2; i < n && delay < max; i++)
        delay *= 2;
    return delay < max ? delay : max;
}

int restart_row(int before, const struct attempt_status *s, int64_t max_backoff_ms)
{
    bool ran = s->started_ms && s->ended_ms - s->started_ms > max_backoff_ms;
    return ran ? 1 : before + 1;
}

static void describe(const struct attempt_status *s, char *out, size_t size)
{
    const char *extra = s->reason[0] ? s->reason : NULL;
    const char *name = s->signal ? sigabbrev_np(s->signal) : NULL;
    if (s->cause == CAUSE_OOM)
        (void)snprintf(out, size, "killed for using more memory than it may (exit code %d)",
                       s->exit_code);
    else if (s->cause == CAUSE_TIMEOUT)
        (void)snprintf(out, size, "ran into its time limit");
    else if (s->cause == CAUSE_EXIT && s->signal)
        (void)snprintf(out, size, "killed by signal %d%s%s%s", s->signal, name ? " (SIG" : "",
                       name ? name : "", name ? ")" : "");
    else if (s->cause == CAUSE_EXIT && s->exit_code == EXIT_NO_RESTART)
        (void)snprintf(out, size, "exit code %d: not to be started again", s->exit_code);
    else if (s->cause == CAUSE_EXIT && s->exit_code == EXIT_STOP_JOB)
        (void)snprintf(out, size, "exit code %d: asked for the job's end", s->exit_code);
    else if (s->cause == CAUSE_EXIT)
        (void)snprintf(out, size, "exit code %d", s->exit_code);
    else
        (void)snprintf(out, size, "%s", extra ? extra : attempt_cause_to_string(s->cause));
}

static void done(struct restart_decision *d, enum task_state state)
{
    d->action = RESTART_DONE;
    d->state = state;
}

// The program ended by itself, was not well, or could not be run as the job says.
static void own_end(const struct restart_input *in, struct restart_decision *d)
{
    const struct attempt_status *s = in->status;
    bool success = s->cause == CAUSE_EXIT && s->exit_code == 0;
    bool may = in->policy == RESTART_ALWAYS || (in->policy == RESTART_ON_FAILURE && !success);

    d->counted = true;
    if (!success && s->cause == CAUSE_EXIT && s->exit_code == EXIT_STOP_JOB) {
        d->action = RESTART_STOP_JOB;
        d->state = TASK_FAILED;
        return;
    }
    bool final =
        s->cause == CAUSE_TIMEOUT || (s->cause == CAUSE_EXIT && s->exit_code == EXIT_NO_RESTART);
    if (may && !final && (in->max_attempts == 0 || in->starts < in->max_attempts)) {
        d->action = RESTART_AGAIN;
        d->delay_ms = backoff(in->ends, in->backoff_ms, in->max_backoff_ms);
        return;
    }
    done(d, success ? TASK_SUCCEEDED : s->cause == CAUSE_UNKNOWN ? TASK_UNKNOWN : TASK_FAILED);
}

void restart_decide(const struct restart_input *in, struct restart_decision *ret)
{
    const struct attempt_status *s = in->status;
    struct restart_decision d = {0};

    describe(s, d.reason, sizeof(d.reason));
    if (in->stop_wanted || s->cause == CAUSE_STOPPED) {
        // It may have ended by itself before the signal reached it: then that is what happened.
        bool own = s->cause == CAUSE_EXIT && !s->signal;
        done(&d, own && s->exit_code == 0 ? TASK_SUCCEEDED : own ? TASK_FAILED : TASK_STOPPED);
    } else if (s->cause == CAUSE_NODE_LOST || s->cause == CAUSE_MOVED) {
        if (in->lost_action == NODE_LOST_FAIL && !(s->cause == CAUSE_MOVED && in->preemptible))
            done(&d, TASK_LOST);
        else
            d.action = RESTART_AGAIN;
    } else if (s->cause == CAUSE_ENGINE || s->cause == CAUSE_FENCED ||
               s->cause == CAUSE_NEVER_STARTED) {
        d.action = RESTART_AGAIN;
        d.delay_ms = s->cause == CAUSE_NEVER_STARTED
                         ? 0
                         : backoff(in->infra_failures, RESTART_INFRA_MS, RESTART_INFRA_MAX_MS);
    } else if (s->cause == CAUSE_POLICY && in->nodes_left) {
        d.action = RESTART_AGAIN;
        d.delay_ms = backoff(in->refusals, RESTART_INFRA_MS, RESTART_INFRA_MAX_MS);
    } else if (s->cause == CAUSE_POLICY) {
        done(&d, TASK_FAILED);
    } else {
        own_end(in, &d);
    }
    *ret = d;
}
