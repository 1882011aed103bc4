// SPDX-License-Identifier: Apache-2.0
// The decision for one attempt. The order of the questions is what keeps starts unique: anything an
// earlier instance may have started waits until the runtime was listed, and only an attempt issued
// to this instance without a claim is ever started.
#include "node-agent/reconcile.h"

static bool alive(const struct reconcile_facts *f)
{
    if (f->state == ATTEMPT_RUNNING || f->state == ATTEMPT_STOPPING)
        return true;
    return f->state == ATTEMPT_STARTING && f->start_asked;
}

// Whether something may live of which nobody has told us yet.
static bool in_the_dark(const struct reconcile_facts *f)
{
    return !f->listed && !f->known && (f->claimed || !f->issued_here);
}

static enum reconcile_action decide_dropped(const struct reconcile_facts *f)
{
    if (alive(f))
        return f->stop_asked ? ACT_NOTHING : ACT_STOP;
    if (in_the_dark(f) || f->remove_asked)
        return ACT_NOTHING;
    // What an earlier instance claimed may begin only now: that it can't comes first.
    if (f->claimed && !f->known && f->state != ATTEMPT_ENDED)
        return ACT_LOST;
    return ACT_REMOVE;
}

static enum reconcile_action decide_fresh(const struct reconcile_facts *f)
{
    if (f->desired == DESIRED_STOP)
        return ACT_STOPPED;
    if (!f->issued_here)
        return ACT_NEVER_STARTED;
    if (f->engine == ENGINE_DOWN)
        return ACT_ENGINE;
    return f->engine == ENGINE_UP && f->listed ? ACT_START : ACT_NOTHING;
}

enum reconcile_action reconcile_decide(const struct reconcile_facts *f)
{
    if (f->member == TASK_DROPPED)
        return decide_dropped(f);
    if (f->state == ATTEMPT_ENDED || in_the_dark(f))
        return ACT_NOTHING;
    if (alive(f))
        return f->member == TASK_ASSIGNED && f->desired == DESIRED_STOP && !f->stop_asked
                   ? ACT_STOP
                   : ACT_NOTHING;
    if (f->claimed)
        return ACT_LOST;
    return f->member == TASK_ASSIGNED ? decide_fresh(f) : ACT_NOTHING;
}

const char *reconcile_action_to_string(enum reconcile_action a)
{
    static const char *const names[ACT_MAX] = {"nothing", "start",         "stop", "remove",
                                               "stopped", "never_started", "lost", "engine"};
    return (unsigned)a < ACT_MAX ? names[a] : "invalid";
}
