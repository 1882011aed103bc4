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
    struct plan_entry *first, *last;       // by order, then id
    enum plan_wait wait;                   // NEW: in the seat's heap
    size_t heap_at;                        // its place there
    struct plan_lane *ref_prev, *ref_next; // in the seat's list of refused lanes
    void *key;                             // the shape's bytes
    UT_hash_handle hh;
};

struct plan_user {
    char *name;
    struct plan_quota quota;
    struct resources held;
    int64_t jobs;
    struct seat *seats;
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

struct plan_queue {
    struct level levels[PLAN_PRIORITY_MAX + 1];
    struct plan_lane *lanes; // by shape
    struct plan_user *users; // by name
    size_t length, n_due;    // jobs; lanes in heaps
    struct plan_refusals refusals;
    struct plan_task *tasks; // scratch
    size_t tasks_capacity;
    char *key; // scratch
    size_t key_capacity;
};

// queue_lane.c
// Finds or makes the lane of this shape. NULL = out of memory.
struct plan_lane *lane_of(struct plan_queue *q, const struct plan_shape *shape);
void lane_free(struct plan_queue *q, struct plan_lane *lane);
bool entry_before(const struct plan_entry *a, const struct plan_entry *b);

// queue.c
struct plan_user *user_of(struct plan_queue *q, const char *name); // NULL = out of memory
// The lane found no place: out of the heap, into the list of refused ones.
void lane_refuse(struct plan_queue *q, struct plan_lane *lane, enum plan_wait why);
