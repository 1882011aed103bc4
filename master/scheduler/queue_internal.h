// SPDX-License-Identifier: Apache-2.0
// What the files of the queue share.
#pragma once

#include "master/scheduler/plan_internal.h"
#include "master/scheduler/queue.h"

#include <uthash.h>

struct demand_group { // equal demands that follow each other
    struct plan_demand demand;
    struct plan_need need;
    size_t count;
};

struct plan_lane {
    struct seat *seat;
    struct plan_shape shape; // without the demands
    struct demand_group *groups;
    size_t n_groups, n_tasks;
    struct resources sum;                  // of the demands, without those for "all"
    bool all;                              // some of the demands are for "all"
    struct resources most;                 // that those may come to now; set by entry_job
    struct plan_entry *first, *last;       // by order, then id
    enum plan_wait wait;                   // NEW: in the seat's heap
    size_t heap_at;                        // its place there
    struct plan_lane *ref_prev, *ref_next; // in the seat's list of refused lanes
    bool impossible;                       // on an empty cluster, too
    bool follows; // needs others beside it: looked at again when something started
    struct plan_lane *follow_prev, *follow_next;
    void *key; // the shape's bytes
    UT_hash_handle hh;
};

struct plan_user { // or a team
    char *name;
    struct plan_user *team;
    int64_t weight;
    struct plan_quota quota;
    struct resources held;
    int64_t jobs, tasks;
    struct share_usage usage;
    struct seat *seats;
    bool forgotten; // nobody has the name: what it had is not told any more
    bool changed;   // in the queue's list of those whose holdings changed
    struct plan_user *changed_next;
    // While the next lane is looked for:
    uint64_t stamp;
    struct seat *best;
    struct plan_user *next;
    UT_hash_handle hh;
};

// The lanes of one user and one priority.
struct seat {
    struct plan_user *user;
    struct level *level;
    struct plan_lane **heap; // due, the oldest first entry on top
    size_t n_heap, capacity;
    struct plan_lane *refused;
    size_t n_refused;
    size_t ready_at; // its place in the level's `ready`, while n_heap > 0
    struct seat *next, *next_of_user;
};

struct level {
    struct seat *seats;
    struct seat **ready; // seats with due lanes
    size_t n_ready, n_seats, capacity;
};

struct elder {                // the oldest job of the highest priority that waits for room
    struct plan_entry *entry; // NULL = none is watched
    int priority;
    unsigned passed;         // younger ones that started since it is watched
    unsigned started, looks; // all that started since the last look for who is to be watched
};

struct reservation {
    struct plan_entry *entry; // NULL = there is no head
    char id[64];              // of the last head, so that it may go on after being queued anew
    int priority;
    int64_t since_ms, start_ms;
    int64_t made_ms;
    struct resources takes; // what it is granted on an empty cluster
    bool due;               // to be tried
    bool overdue;           // overtaken too often: strict from the beginning
    bool strict;            // kept off all nodes that could serve it
    bool lifted;            // the closed nodes are to be opened
    bool awaits;            // it can't start without nodes that are away, but may be back soon
    bool shaken;            // made of what is not so any more
    uint64_t mark;          // of the index on which nodes are closed for it
};

struct plan_queue {
    struct plan_lane *followers;
    struct level levels[PLAN_PRIORITY_MAX + 1];
    struct plan_lane *lanes;         // by shape
    struct plan_user *users, *teams; // by name
    struct plan_user *changed;
    struct plan_policy policy;
    int64_t jobs;           // that hold something
    bool loaded;            // usage of users; that of their teams is to follow
    struct resources total; // of the nodes of the last run
    int64_t now_ms;
    uint64_t stamp;
    struct reservation head;
    // The head of before a restart, until it is the head again, or cannot be:
    char kept_id[64];        // "" = none
    struct plan_entry *kept; // NULL = it does not wait
    int64_t kept_since_ms, kept_until_ms;
    bool kept_overdue;
    bool awaited; // plan_queue_await
    struct elder elder;
    struct plan_refusals impossible; // on an empty cluster, too; since capacity grew
    size_t length, n_due;            // jobs; lanes in heaps
    struct plan_refusals refusals;
    struct plan_task *tasks; // scratch
    size_t tasks_capacity;
    char *key; // scratch
    size_t key_capacity;
};

// queue_lane.c
// Finds or makes the lane of this shape. NULL = out of memory.
struct plan_lane *lane_of(struct plan_queue *q, const struct plan_shape *shape,
                          const struct plan_entry *e);
void lane_free(struct plan_queue *q, struct plan_lane *lane);
bool entry_before(const struct plan_entry *a, const struct plan_entry *b);

// queue.c
struct plan_user *user_of(struct plan_queue *q, const char *name); // NULL = out of memory
void user_advance(struct plan_queue *q, struct plan_user *u, int64_t now_ms);
// What teams had is what their users had, each accounted from when it was stored.
void teams_settle(struct plan_queue *q);
// < 0: of equal priority, work of a is looked at before work of b; 0 = the older one.
int user_compare(struct plan_queue *q, struct plan_user *a, struct plan_user *b);
// 0 = within its and its team's quota, and what runs in all.
enum plan_wait user_quota(const struct plan_queue *q, const struct plan_user *u,
                          const struct resources *r, size_t tasks, bool started);
// What its and its team's quotas leave of each resource beside r.
struct resources user_leaves(const struct plan_user *u, const struct resources *r);
// The ready seat of the level that comes first; NULL = none.
struct seat *seat_first(struct plan_queue *q, struct level *l);
// The same for a job of the lane, but for what it wants as "all".
enum plan_wait lane_quota(const struct plan_queue *q, const struct plan_lane *lane);
// The lane found no place: out of the heap, into the list of refused ones.
void lane_refuse(struct plan_queue *q, struct plan_lane *lane, enum plan_wait why);

// A job of this user and name started: lanes that need it beside them are looked at again.
void lanes_follow(struct plan_queue *q, const struct plan_user *user, const char *name);

// queue_reserve.c
// Before a run: what became of the reservation. -ENOMEM.
int reserve_begin(struct plan_queue *q, struct plan_index *x,
                  const struct plan_queue_run *run) WARN_UNUSED;
// Between jobs: a reservation that is over is taken back.
void reserve_check(struct plan_queue *q, struct plan_index *x);
// The lane's oldest job found no room: it may become the head. -ENOMEM.
int reserve_refused(struct plan_queue *q, struct plan_index *x, const struct plan_queue_run *run,
                    struct plan_lane *lane) WARN_UNUSED;
// Whether jobs of this shape, but for the head, must keep off closed nodes.
bool reserve_binds(const struct plan_queue *q, const struct plan_shape *shape);
// The kept head was added to the queue, or left it (`started`: for a place).
void reserve_added(struct plan_queue *q, struct plan_entry *e);
void reserve_gone(struct plan_queue *q, const struct plan_entry *e, bool started);
void reserve_left(struct plan_queue *q, const struct plan_entry *e);
// When the job starts at the latest, were it the head; untouched when no limits tell. -ENOMEM.
int reserve_when(const struct plan_index *x, const struct plan_queue_run *run,
                 const struct plan_job *job, int64_t *ret_ms) WARN_UNUSED;
// queue_preempt.c
// Stops work for the head of the lane, if that makes room for it. 1 = it did, 0, -ENOMEM.
int preempt_for(struct plan_queue *q, struct plan_index *x, const struct plan_queue_run *run,
                struct plan_lane *lane) WARN_UNUSED;
// Makes the entry the head, with all nodes that could serve it closed, unless an empty cluster
// would not have it. -ENOMEM.
int reserve_overdue(struct plan_queue *q, struct plan_index *x, const struct plan_queue_run *run,
                    struct plan_entry *e) WARN_UNUSED;
// queue_elder.c
void elder_left(struct plan_queue *q, const struct plan_entry *e);
// The entry, which left the queue, has its place.
void elder_started(struct plan_queue *q, const struct plan_entry *e, int priority);
void forget_impossible(struct plan_queue *q);
// At the end of a run: who is to be watched.
void elder_look(struct plan_queue *q);
// Between jobs: whether it was overtaken too often. -ENOMEM.
int elder_check(struct plan_queue *q, struct plan_index *x,
                const struct plan_queue_run *run) WARN_UNUSED;
// queue_run.c
// Finds out which nodes the conditions of its tasks leave, in this index. -ENOMEM.
int lane_nodes(struct plan_index *x, struct plan_lane *lane) WARN_UNUSED;
// The job with its lane's tasks (in q->tasks) and its peers. -ENOMEM.
int entry_job(struct plan_queue *q, const struct plan_entry *e, const struct plan_queue_run *run,
              struct plan_job *ret) WARN_UNUSED;
