// SPDX-License-Identifier: Apache-2.0
// What to do with one attempt, from what is wanted and what is there. Pure: no I/O, no clock, no
// state.
#pragma once

#include "node-agent/task.h"

enum engine_state { ENGINE_UNKNOWN, ENGINE_UP, ENGINE_DOWN };

struct reconcile_facts {
    enum task_member member;
    enum desired_state desired;
    bool issued_here; // to this agent instance
    bool claimed;
    bool known;  // the runtime or this instance has spoken of it
    bool listed; // the runtime was listed since this instance started
    enum engine_state engine;
    enum attempt_state state;
    bool start_asked, stop_asked, remove_asked;
};

enum reconcile_action {
    ACT_NOTHING,
    ACT_START,         // claim, then start
    ACT_STOP,          // ask the runtime to end it
    ACT_REMOVE,        // container and folders, then the record
    ACT_STOPPED,       // ended before it began, as asked
    ACT_NEVER_STARTED, // issued to an earlier instance that left no trace
    ACT_LOST,          // claimed by an earlier instance, and nothing of it lives
    ACT_ENGINE,        // the engine is down: it can't be started here
    ACT_MAX,
};

enum reconcile_action reconcile_decide(const struct reconcile_facts *f);
// For the log.
const char *reconcile_action_to_string(enum reconcile_action a);

struct tasks;
// Takes an answer's assignment into the table: adds records, sets what is desired, marks what is to
// be forgotten. A delta on another base than *position is ignored (*ret_applied false): the master
// sees the position and sends the whole set. Specs are moved out of the answer. -ENOMEM leaves the
// position as it was.
int assignment_apply(struct tasks *t, struct sync_answer *a, const char *instance,
                     struct sync_position *position, bool *ret_applied) WARN_UNUSED;
