// SPDX-License-Identifier: Apache-2.0
// Placing a job with rules (plan.h): which of its tasks, and of those that its rules name, are
// where while it is placed. Nothing outside this folder includes it.
#pragma once

#include "master/scheduler/where.h"

struct quarter {             // where tasks of one group may be
    struct plan_where nodes; // bits NULL until needed
    const struct plan_where *base;
    const struct plan_demand *demand;
};

struct scope {
    struct plan_index *x;
    const struct plan_job *job;
    const struct plan_rules *rules;
    size_t words;              // of a row of `present`
    uint64_t *present;         // by group, then by node: a task of the group is there
    uint32_t *own;             // by node: tasks of the job
    struct quarter *quarters;  // by own group
    uint32_t *todo;            // tasks, in the order in which they look for a place
    uint32_t *unit, *chosen;   // scratch: tasks of a gang, and those that fit on one node
    uint32_t *first;           // scratch, by own group: its first task without a place
    bool *done;                // by task
    struct resources most_all; // that "all" may still come to
    size_t placed;             // the first so many of x->order and x->cursors are their undoing
    // Why not all were placed; NULL = they were.
    const struct plan_demand *stuck;
    enum gang_mode stuck_gang;
    size_t wanted, most; // of a gang: tasks left, and how many of them one node has room for
};

// -ENOMEM; scope_end in either case. x->order is the job's order (plan_order_tasks).
int scope_begin(struct scope *s, struct plan_index *x, const struct plan_job *job) WARN_UNUSED;
// Places tasks until one finds no place (s->stuck). Nothing is taken back. -ENOMEM.
int scope_place(struct scope *s) WARN_UNUSED;
void scope_end(struct scope *s);

// What keeps a task from a node, but for room and labels.
enum rule {
    RULE_NONE,
    RULE_KEPT,   // the node is another job's alone
    RULE_OTHERS, // the task wants it alone, and others are there
    RULE_APART,  // a task of group *ret_with is there
    RULE_NEAR,   // none of group *ret_with is there
};
enum rule scope_rule(const struct scope *s, size_t node, const struct plan_demand *d,
                     uint16_t *ret_with);

// --- what the files of the scope share ---

bool scope_has(const struct scope *s, size_t node, uint16_t group);
// Whether tasks of the two groups must not be on one node.
bool scope_apart(const struct scope *s, uint16_t a, uint16_t b);
void scope_take(struct scope *s, uint32_t task, size_t node, const struct plan_where *where);
// The need with the nodes that meet its conditions, open ones if the job keeps to those. -ENOMEM.
int scope_need(struct scope *s, const struct plan_demand *d, struct plan_need *ret) WARN_UNUSED;
enum gang_mode scope_gang(const struct scope *s, const struct plan_demand *d);
// scope_gang.c. 1 = the gang of the task has its places, 0 = not all of it, -ENOMEM.
int scope_place_gang(struct scope *s, uint32_t task) WARN_UNUSED;

// What is left of a node while tasks are tried on it.
struct room {
    struct plan_view view;
    uint64_t cards;
};
struct room room_of(const struct scope *s, size_t node);
// Takes the task's part and says whether it was there.
bool room_take(struct room *r, size_t node, const struct plan_need *need);

// Whether the node (key, avoided) is preferred to the best so far (-1 = none).
struct best {
    int64_t node;
    struct plan_key key;
    bool avoided;
};
void best_offer(struct best *b, const struct scope *s, size_t node, const struct plan_need *need,
                const struct plan_but *avoided);
