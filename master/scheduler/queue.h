// SPDX-License-Identifier: Apache-2.0
// The waiting jobs, kept from one turn to the next, and in which order they are looked at. Pure as
// plan.h is: no I/O, no clock. Same calls, same answers, on every machine.
//
// Jobs of one user and one priority that need exactly the same (a "lane") are looked at once: where
// the oldest finds no room, the others do not either. A lane that found none is not looked at again
// until plan_queue_grew. So a turn costs what it places and what is new, not what waits.
//
// Order: priority; then the user with the least weighted dominant share (share.h); then age; then
// id.
#pragma once

#include "master/scheduler/plan.h"

// What decides where and when a job may start.
struct plan_shape {
    const char *user;
    int priority; // 0 .. PLAN_PRIORITY_MAX
    enum alloc_mode alloc;
    enum alloc_metric metric;
    bool started; // some of its tasks hold a node: it counts as a running job already
    const struct plan_demand *demands;
    size_t n_demands;
};
#define PLAN_PRIORITY_MAX 100

enum plan_wait {
    PLAN_WAIT_NEW,      // not looked at since it came or capacity grew
    PLAN_WAIT_CAPACITY, // found no room
    PLAN_WAIT_QUOTA,    // its user's quota is used up
};

struct plan_lane;

// A waiting job; lives in the caller's object, all zero when it is in no queue.
struct plan_entry {
    const char *id; // borrowed, while queued
    int64_t order;  // age: smaller first
    struct plan_lane *lane;
    struct plan_entry *prev, *next;
};

// -1 = no limit.
struct plan_quota {
    int64_t cpu, memory, gpu; // millicores, bytes, cards
    int64_t jobs;             // that hold a node
};
#define PLAN_NO_QUOTA ((struct plan_quota){-1, -1, -1, -1})

struct plan_queue;
struct plan_queue *plan_queue_new(void); // NULL = out of memory
// Entries still queued are forgotten, not freed.
void plan_queue_free(struct plan_queue *q);

// -ENOMEM. The shape is copied.
int plan_queue_add(struct plan_queue *q, struct plan_entry *e,
                   const struct plan_shape *shape) WARN_UNUSED;
// Harmless when it is in no queue.
void plan_queue_remove(struct plan_queue *q, struct plan_entry *e);
enum plan_wait plan_queue_wait(const struct plan_entry *e);
size_t plan_queue_length(const struct plan_queue *q);
// Whether something waits that was not looked at.
bool plan_queue_due(const struct plan_queue *q);
// Room, a quota or an order changed so that what was refused may be worth another look.
void plan_queue_grew(struct plan_queue *q);

// What the user's tasks hold, added (sign 1) or given back (-1), and jobs that hold something.
int plan_queue_hold(struct plan_queue *q, const char *user, const struct resources *r, int sign,
                    int jobs) WARN_UNUSED; // -ENOMEM
int plan_queue_set_quota(struct plan_queue *q, const char *user,
                         const struct plan_quota *quota) WARN_UNUSED; // -ENOMEM

struct plan_queue_run {
    // Asked before each job: false = stop here, and go on with the next run.
    bool (*more)(void *userdata);
    // The job has its place and left the queue. Tasks in the shape's order; valid in the call only.
    // Holds what it takes (plan_queue_hold) before it returns.
    void (*placed)(struct plan_entry *e, const struct plan_task *tasks, size_t n, void *userdata);
    void *userdata;
};
// Looks at every job that is due. 0 = done, 1 = `more` said stop, -ENOMEM.
int plan_queue_run(struct plan_queue *q, struct plan_index *x,
                   const struct plan_queue_run *run) WARN_UNUSED;
