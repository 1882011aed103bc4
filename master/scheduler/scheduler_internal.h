// SPDX-License-Identifier: Apache-2.0
// What the files of the bridge share.
#pragma once

#include "master/scheduler/queue.h"
#include "master/scheduler/scheduler_nodes.h"

struct scheduler {
    struct kept kept;
    struct plan_queue *queue;
    struct job *stale;            // to be queued anew
    struct plan_running *running; // scratch
    size_t running_capacity;
    struct plan_peer *peers; // scratch
    size_t peers_capacity;
    struct kept_off *kept_off; // by user and name (scheduler_keepers.h)
    char head[JOB_ID_BYTES];   // as stored; "" = none
    int64_t head_since_ms;
    bool head_overdue;
    struct job *preemptible;           // that hold a node
    int preempting;                    // of them: being stopped for others
    struct plan_victim *victims;       // scratch
    struct plan_running *victim_tasks; // scratch
};

struct turn {
    struct cluster *c;
    int64_t until_boot_ms;
};

// Brings nodes and queue up to date. -ENOMEM.
int scheduler_sync(struct cluster *c) WARN_UNUSED;
// What the job's waiting tasks need. *ret_demands: malloc'd, in the order of the tasks. -ENOMEM.
int scheduler_shape(const struct cluster *c, const struct job *j, struct plan_shape *ret,
                    struct plan_demand **ret_demands) WARN_UNUSED;
// Which part of the user's or the team's quota keeps a job of this shape back.
void scheduler_quota_text(struct cluster *c, const struct plan_shape *shape, bool of_team,
                          char *out, size_t size);
// Fills in which image each of the job's waiting tasks prefers on its node; in their order.
void scheduler_images(const struct cluster *c, const struct job *j, struct plan_task *tasks,
                      size_t n);
// The longest that a task of the component runs, with its grace; 0 = not known.
int64_t scheduler_bound(const struct cluster *c, const struct job_component *k);
// It was told to stop and nobody knows when it will have: its node is silent, or it is long
// overdue.
bool scheduler_task_stuck(const struct task *t, int64_t now_ms);
struct plan_running scheduler_running_task(const struct cluster *c, const struct task *t,
                                           int64_t now_ms);
// scheduler_preempt.c: plan_queue_run.victims and .preempt; userdata = struct turn.
int scheduler_victims(int priority, struct plan_victim **ret, size_t *ret_n,
                      void *userdata) WARN_UNUSED;
void scheduler_preempt(const struct plan_entry *e, const struct plan_victim *v, void *userdata);
// How many jobs are being stopped for others, but for those of which nobody knows when they end.
int scheduler_preempting(const struct scheduler *s);
// The job holds something now, or nothing any more.
void scheduler_preempt_held(struct cluster *c, struct job *j);
// It has a place again.
void scheduler_preempt_over(struct cluster *c, struct job *j);
// plan_queue_run.running; userdata = struct turn.
int scheduler_running(const struct plan_running **ret, size_t *ret_n, void *userdata) WARN_UNUSED;
