// SPDX-License-Identifier: Apache-2.0
// When the plan runs and on what: the bridge between the cluster model and the pure library
// (plan.h, queue.h). Nodes and waiting jobs are kept from one turn to the next; the model says
// which of them changed, and only those are looked at again.
#pragma once

#include "common/err.h"
#include <stdbool.h>

struct cluster;
struct node;
struct job;
struct task;
struct scheduler;

struct scheduler *scheduler_new(void); // NULL = out of memory
void scheduler_free(struct scheduler *s);

// A node came (or is about to go).
void scheduler_nodes_moved(struct cluster *c);
// Anything of it changed that matters for placing.
void scheduler_node_stale(struct cluster *c, struct node *n);
// Which tasks of it wait, or what they need, changed.
void scheduler_job_stale(struct cluster *c, struct job *j);
void scheduler_job_gone(struct cluster *c, struct job *j);
// The task took (sign 1) or gave back (-1) what it was granted.
void scheduler_task_held(struct cluster *c, struct task *t, int sign);

// Once per turn, from the commit queue's collect. Places what it can within 10 ms, so that syncs
// and renewals go on beside a long queue. true = there is more to look at: call again next turn.
bool scheduler_run(struct cluster *c) WARN_UNUSED;
