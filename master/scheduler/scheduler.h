// SPDX-License-Identifier: Apache-2.0
// When the plan runs and on what: the bridge between the cluster model and the pure library
// (plan.h, queue.h). Nodes and waiting jobs are kept from one turn to the next; the model says
// which of them changed, and only those are looked at again.
#pragma once

#include "common/err.h"
#include <jansson.h>
#include <stdbool.h>

struct cluster;
struct cluster_options;
struct node;
struct job;
struct task;
struct scheduler;
struct job_spec;

struct scheduler *scheduler_new(const struct cluster_options *o); // NULL = out of memory
void scheduler_free(struct scheduler *s);

// A node came (or is about to go).
void scheduler_nodes_moved(struct cluster *c);
// Anything of it changed that matters for placing.
void scheduler_node_stale(struct cluster *c, struct node *n);
// Whether nodes that are silent may be back soon.
void scheduler_await(struct cluster *c, bool awaited);
// Which tasks of it wait, or what they need, changed.
void scheduler_job_stale(struct cluster *c, struct job *j);
void scheduler_job_gone(struct cluster *c, struct job *j);
// The task took (sign 1) or gave back (-1) what it was granted.
void scheduler_task_held(struct cluster *c, struct task *t, int sign);

// Weight, quota or team of the user changed, or the user is gone.
void scheduler_user_changed(struct cluster *c, const char *name);
// Weight or quota of the team changed.
void scheduler_team_changed(struct cluster *c, const char *name);
// A stored usage record. -ENOMEM, -EINVAL.
int scheduler_usage_from_record(struct cluster *c, const json_t *j, struct err *e) WARN_UNUSED;
// The stored head of the queue. -EINVAL.
int scheduler_head_from_record(struct cluster *c, const json_t *j, struct err *e) WARN_UNUSED;
// Puts the head, and the usage records of those whose holdings changed.
void scheduler_collect(struct cluster *c);
// -EINVAL with text when the job could not even start if its user's quota were unused.
int scheduler_check_quota(const struct cluster *c, const struct job_spec *spec, const char *user,
                          struct err *e) WARN_UNUSED;

// Once per turn, from the commit queue's collect. Places what it can within 10 ms, so that syncs
// and renewals go on beside a long queue. true = there is more to look at: call again next turn.
bool scheduler_run(struct cluster *c) WARN_UNUSED;
