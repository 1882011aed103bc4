// SPDX-License-Identifier: Apache-2.0
// The waiting jobs, kept from one turn to the next, and in which order they are looked at. Pure as
// plan.h is: no I/O, no clock. Same calls, same answers, on every machine.
//
// Jobs of one user and one priority that need exactly the same (a "lane") are looked at once: where
// the oldest finds no room, the others do not either. A lane that found none is not looked at again
// until plan_queue_grew. So a turn costs what it places and what is new, not what waits.
//
// Order: priority; then the team, and in it the user, with the least weighted dominant share
// (share.h); then age; then id.
//
// The first job in order that finds no room, though an empty cluster would have it, is the head. It
// gets a reservation: the nodes on which it will start when running work has reached its time
// limits. Work after it in order (backfill) starts there only if its own limit ends it before that
// (EASY: Lifka, "The ANL/IBM SP Scheduling System", 1995; one reservation, so that nothing before
// the head is ever delayed). Where no limits tell when the head can start, backfill is free until
// the head has been the head for `hold_after_ms`; from then on nothing after it in order starts on
// a node that could serve it. The reservation stays until the head starts, leaves the queue, or a
// job of a higher priority becomes the head; a change of shares does not move it.
//
// The bound on being overtaken: of the jobs of the highest priority that wait for room, let J be
// the oldest (its quota has room for it, and an empty cluster would have it). Once it is that, at
// most 2 x `overtakes` younger jobs, and those of one run, start before it on nodes that could
// serve it, but for such as end before its reserved start; then nothing does until it starts,
// whoever's share is how small. So it waits, from then on, for what runs at most.
//
// Preemption: for the head, running jobs of a lower priority that allow it are stopped, as whole
// jobs, if that makes room for it, and sooner than it comes by itself. Taken are the lowest
// priority first, in it what started last; then, from the other end, all are spared without which
// the head fits as well, so that no smaller part of what is stopped would do. What they free is
// reserved for the head as said above.
#pragma once

#include "master/scheduler/plan.h"
#include "master/scheduler/share.h"

// What decides where and when a job may start.
struct plan_shape {
    const char *user;
    int priority; // 0 .. PLAN_PRIORITY_MAX
    enum alloc_mode alloc;
    enum alloc_metric metric;
    bool started;     // some of its tasks hold a node: it counts as a running job already
    int64_t bound_ms; // it ends within this time after its start; 0 = not known
    const struct plan_demand *demands;
    size_t n_demands;
};
#define PLAN_PRIORITY_MAX 100

enum plan_wait {
    PLAN_WAIT_NEW,      // not looked at since it came or capacity grew
    PLAN_WAIT_CAPACITY, // found no room
    PLAN_WAIT_QUOTA,    // its user's quota is used up
    PLAN_WAIT_TEAM,     // its team's quota is used up
    PLAN_WAIT_LEVEL,    // as many jobs run as may, in all
    PLAN_WAIT_RESERVED, // the head's reservation keeps it back
};

struct plan_lane;

// A waiting job; lives in the caller's object, all zero when it is in no queue.
struct plan_entry {
    const char *id;                 // borrowed, while queued
    const char *name;               // likewise: what rules of others call it; NULL = nothing
    int64_t order;                  // age: smaller first
    const struct plan_rules *rules; // as id; NULL = none
    struct plan_lane *lane;
    struct plan_entry *prev, *next;
};

// -1 = no limit.
struct plan_quota {
    int64_t cpu, memory, gpu; // millicores, bytes, cards
    int64_t jobs;             // that hold a node
    int64_t tasks;            // likewise
};
#define PLAN_NO_QUOTA ((struct plan_quota){-1, -1, -1, -1, -1})

struct plan_queue;
struct plan_queue *plan_queue_new(void); // NULL = out of memory
// Entries still queued are forgotten, not freed.
void plan_queue_free(struct plan_queue *q);

// -ENOMEM. The shape is copied.
int plan_queue_add(struct plan_queue *q, struct plan_entry *e,
                   const struct plan_shape *shape) WARN_UNUSED;
// Harmless when it is in no queue.
void plan_queue_remove(struct plan_queue *q, struct plan_entry *e);
// What an entry is in the queue besides its place. Asked before it is removed to be added anew, it
// is given back after that, if its priority is the same: the job goes on being the head, and what
// passed it counts on.
struct plan_standing {
    bool head, watched;
    int priority;
    unsigned passed;
};
struct plan_standing plan_queue_standing(const struct plan_queue *q, const struct plan_entry *e);
void plan_queue_stand(struct plan_queue *q, struct plan_entry *e, const struct plan_standing *s);
enum plan_wait plan_queue_wait(const struct plan_entry *e);
size_t plan_queue_length(const struct plan_queue *q);
// Whether something waits that was not looked at.
bool plan_queue_due(const struct plan_queue *q);
// Room, a quota or an order changed so that what was refused may be worth another look.
void plan_queue_grew(struct plan_queue *q);

#define PLAN_OVERTAKES 1000 // what the cluster uses
struct plan_policy {
    int64_t half_life_ms;  // of usage; 0 = no fair share: among equal priority by age alone
    bool backfill;         // false: no reservations, whatever fits starts
    int64_t hold_after_ms; // see above
    unsigned overtakes;    // see above; 0 = no bound
    int64_t max_jobs;      // that hold a node, in all; 0 = any number
};
// All off in a new queue.
void plan_queue_set_policy(struct plan_queue *q, const struct plan_policy *p);

// What a task of the user holds, added (sign 1) or given back (-1), and jobs that hold something.
// now_ms: real time; 0 = while loading, before what was stored is accounted further.
int plan_queue_hold(struct plan_queue *q, const char *user, const struct resources *r, int sign,
                    int jobs, int64_t now_ms) WARN_UNUSED; // -ENOMEM

struct plan_account {
    const char *team; // NULL = none
    int64_t weight;   // of the share, 1 to 1,000,000
    struct plan_quota quota;
};
// Users begin with no team, weight 1 and no quota. -ENOMEM.
int plan_queue_set_user(struct plan_queue *q, const char *user,
                        const struct plan_account *a) WARN_UNUSED;
int plan_queue_set_team(struct plan_queue *q, const char *team, int64_t weight,
                        const struct plan_quota *quota) WARN_UNUSED;

// What is told of a user; all 0 of an unknown one.
struct plan_user_state {
    struct resources held;
    int64_t jobs, tasks;
    struct share_usage usage; // as stored
    int64_t rank;             // smaller comes first, before the weight
};
void plan_queue_user(struct plan_queue *q, const char *user, int64_t now_ms,
                     struct plan_user_state *ret);
// Likewise of a team, with all its users.
void plan_queue_team(struct plan_queue *q, const char *team, int64_t now_ms,
                     struct plan_user_state *ret);
// The user is gone: what it had lately is forgotten, until the name is set again.
void plan_queue_forget(struct plan_queue *q, const char *user);
// The next user whose holdings changed since this was asked; NULL = none. Borrowed.
const char *plan_queue_next_changed(struct plan_queue *q);
int plan_queue_load_usage(struct plan_queue *q, const char *user,
                          const struct share_usage *u) WARN_UNUSED; // -ENOMEM

// Work under way, as far as a reservation needs to know it.
struct plan_running {
    size_t node;
    struct resources granted;
    uint64_t gpus;
    const uint16_t *ports;
    int n_ports;
    int64_t end_ms; // at the latest; INT64_MAX = not known
    bool exclusive;
};
#define PLAN_NEVER INT64_MAX

// A running job that may be stopped for one of a higher priority, or is being stopped already.
struct plan_victim {
    const char *id;
    int priority;
    int64_t since_ms;                 // when it started last
    int64_t grace_ms;                 // it ends within that when it is told to
    const struct plan_running *tasks; // but for those of which nobody knows when they end
    size_t n_tasks;
    bool stopping; // already: what it holds is counted on, and it is not told again
    void *job;     // the caller's
};

// The head and its reservation; id NULL = none.
struct plan_head {
    const char *id;
    int64_t since_ms;
    int64_t start_ms; // at the latest, if limits are kept; PLAN_NEVER = not known
    bool strict;      // it has waited for hold_after_ms
    int priority;
};
struct plan_head plan_queue_head(const struct plan_queue *q);
// Nodes may get work that could not, or may not any more, or what runs there ends at another time
// than was told: the reservation is found anew in a run to come, not more often than once a second;
// `now`: in the next one.
void plan_queue_shaken(struct plan_queue *q, bool now);
struct plan_sticky {
    const char *id; // NULL = none
    int64_t since_ms;
    bool overdue; // it was overtaken as often as may be
};
// Before the first run of a queue that goes on where another one ended: which job was the head,
// since when. It is again as soon as an empty cluster would have it, whatever the shares say now,
// unless a higher priority is the head; not known any more after hold_after_ms.
void plan_queue_restore_head(struct plan_queue *q, const struct plan_sticky *head, int64_t now_ms);
// Whether nodes that are away may be back soon. While they may, a head that can't start without
// them stays the head, and nothing after it in order starts on a node that could serve it. So it is
// from plan_queue_restore_head on. True: work may start now that could not.
bool plan_queue_await(struct plan_queue *q, bool awaited);
// What is to be restored then: the head, or one that was restored and is not the head yet.
struct plan_sticky plan_queue_sticky(const struct plan_queue *q);

// Whether a is looked at before b: the head first in its priority, then as said above.
bool plan_queue_before(struct plan_queue *q, const struct plan_entry *a,
                       const struct plan_entry *b);
// At most `max` of those that are looked at before it, in their order. Borrowed entries.
size_t plan_queue_ahead(struct plan_queue *q, const struct plan_entry *of,
                        const struct plan_entry **ret, size_t max);
// What, but for room, would keep a job of this shape from starting now: PLAN_WAIT_QUOTA, _TEAM,
// _LEVEL, _RESERVED (it must keep off the head's nodes), or PLAN_WAIT_NEW for nothing. `granted`:
// what it would get; NULL = what it asks for, but for "all". *ret_most (or NULL): what "all" may
// come to (plan_job.most).
enum plan_wait plan_queue_judge(struct plan_queue *q, const struct plan_shape *shape,
                                const struct resources *granted, int64_t now_ms,
                                struct resources *ret_most);

struct plan_queue_run {
    // Asked before each job: false = stop here, and go on with the next run.
    bool (*more)(void *userdata);
    // What runs; asked when a reservation is made. The list stays the caller's, until the run ends.
    // -ENOMEM. NULL = nothing is known of what runs.
    int (*running)(const struct plan_running **ret, size_t *ret_n, void *userdata);
    // Where tasks of the groups of the entry's rules are. Asked when a job with rules is tried; the
    // list stays the caller's, until this is asked again. -ENOMEM. NULL = nowhere.
    int (*peers)(const struct plan_entry *e, const struct plan_peer **ret, size_t *ret_n,
                 void *userdata);
    // Fills in which image each of the entry's waiting tasks prefers on its node
    // (plan_demand.image); tasks in the shape's order. NULL = none do.
    void (*images)(const struct plan_entry *e, struct plan_task *tasks, size_t n, void *userdata);
    // Jobs below this priority that may be stopped, and those that are being stopped; the list
    // stays the caller's, its order may change. -ENOMEM. NULL = there are never any.
    int (*victims)(int priority, struct plan_victim **ret, size_t *ret_n, void *userdata);
    // The victim is to be stopped, to make room for the job; from now on `running` tells when it
    // will have ended.
    void (*preempt)(const struct plan_entry *e, const struct plan_victim *v, void *userdata);
    // The job has its place and left the queue. Tasks in the shape's order; valid in the call only.
    // Holds what it takes (plan_queue_hold) before it returns.
    void (*placed)(struct plan_entry *e, const struct plan_task *tasks, size_t n, void *userdata);
    void *userdata;
    int64_t now_ms; // real time; only grows
};
// What becomes of a job that is in no queue, were it the head. Of `run` it asks what runs, whom it
// may stop, and the time. -ENOMEM.
struct plan_forecast {
    int64_t start_ms;            // at the latest; PLAN_NEVER = not known
    struct plan_victim *stopped; // for it; run->victims' own list
    size_t n_stopped;
};
int plan_queue_foresee(const struct plan_index *x, const struct plan_queue_run *run,
                       const struct plan_job *job, struct plan_forecast *ret) WARN_UNUSED;
// Looks at every job that is due. 0 = done, 1 = `more` said stop, -ENOMEM.
int plan_queue_run(struct plan_queue *q, struct plan_index *x,
                   const struct plan_queue_run *run) WARN_UNUSED;
