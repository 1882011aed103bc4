// SPDX-License-Identifier: Apache-2.0
// What the files of the plan share: needs and views in a compact form, the order in which a mode
// prefers nodes, and the index over all nodes. Nothing outside this folder includes it.
#pragma once

#include "master/scheduler/plan.h"

// --- need and view: may this task run on that node? ---

// PLAN_RUNTIME_* are the lower bits of both masks.
// NODE_OPEN: the node is not kept for another job. NODE_SHARED: no job has it alone.
// NODE_ROOM: it has fewer tasks than it may have.
enum {
    WHOLE_CPU = 4,
    WHOLE_MEMORY = 8,
    WHOLE_GPU = 16,
    NODE_OPEN = 32,
    NODE_SHARED = 64,
    NODE_ROOM = 128
};
// From here on, the kinds of the nodes (kind.h).
#define KIND_FIRST UINT32_C(256)
#define PLAN_KINDS_MAX 24
#define KIND_ALL (~(KIND_FIRST - 1))

// A demand, ready to be compared. A resource wanted as "all" is 0 here and a bit in `whole`.
struct plan_where;
struct plan_need {
    int64_t cpu, memory;
    int gpus, ports;
    unsigned whole;                 // WHOLE_*, NODE_*
    unsigned runtimes;              // 0 = nothing can run it
    uint32_t kinds;                 // a search keeps to nodes of these; 0 = any
    struct resources most;          // that a resource wanted as "all" may be
    bool spares;                    // only where plan_spares holds
    const struct plan_where *where; // NULL = any node; set by plan_need_on
    const struct plan_image *image; // preferred between equal nodes; as `where`
};

// What a node has free, or (in a tree) the most that any of several nodes has.
struct plan_view {
    int64_t cpu, memory;
    uint16_t gpus;
    uint16_t ports; // counted up to PLAN_MAX_PORTS only: nobody needs more
    uint32_t flags; // runtimes | WHOLE_* | NODE_* | kind
};

struct plan_need plan_need_of(const struct plan_demand *d); // without `where`
// All zero, so that nothing fits, when the node is not eligible.
struct plan_view plan_view_of(const struct plan_node *n);

// For the view of one node: the need fits. For the most of several: it may fit on one of them.
static inline bool plan_fits(const struct plan_view *v, const struct plan_need *n)
{
    return (v->flags & n->runtimes) && (v->flags & n->whole) == n->whole &&
           (n->kinds == 0 || (v->flags & n->kinds)) && (n->cpu == 0 || v->cpu >= n->cpu) &&
           (n->memory == 0 || v->memory >= n->memory) && v->gpus >= n->gpus && v->ports >= n->ports;
}

// Whether the cards that stay free keep, each, at least half as much cpu and memory as the need
// takes for each of its own, so that they are of use to others.
static inline bool plan_spares(const struct plan_view *v, const struct plan_need *n)
{
    int64_t left = v->gpus - n->gpus;
    return left <= 0 || n->gpus <= 0 ||
           ((__int128)(v->cpu - n->cpu) * 2 * n->gpus >= (__int128)n->cpu * left &&
            (__int128)(v->memory - n->memory) * 2 * n->gpus >= (__int128)n->memory * left);
}

// For the view of one node: "all" of it is not more than it may be.
static inline bool plan_within_most(const struct plan_view *v, const struct plan_need *n)
{
    return (!(n->whole & WHOLE_CPU) || v->cpu <= n->most.cpu_milli) &&
           (!(n->whole & WHOLE_MEMORY) || v->memory <= n->most.memory) &&
           (!(n->whole & WHOLE_GPU) || v->gpus <= n->most.gpu);
}

// For the view of one node: the need fits, and leaves there what it should.
static inline bool plan_suits(const struct plan_view *v, const struct plan_need *n)
{
    return plan_fits(v, n) && plan_within_most(v, n) && (!n->spares || plan_spares(v, n));
}

// Everything that fits `harder` also fits `easier`.
bool plan_need_within(const struct plan_need *easier, const struct plan_need *harder);

// "all" may come to no more than this. A need without it stays as it is.
static inline void plan_need_limit(struct plan_need *n, const struct resources *most)
{
    if (n->whole & (WHOLE_CPU | WHOLE_MEMORY | WHOLE_GPU))
        n->most = *most;
}
// What "all" may still come to once the task has what it was granted.
void plan_most_take(struct resources *most, const struct plan_task *t);

// Takes what the task needs from the node, and writes the task's result but for `node`. `cards`:
// those that suit it.
void plan_grant(struct plan_node *n, struct plan_task *t, uint64_t cards);
// The reverse, exactly; `cursor` is the node's port cursor from before the grant.
void plan_revoke(struct plan_node *n, const struct plan_task *t, uint16_t cursor);

// --- ports.c ---

// Free ports, counting no further than `limit`.
int plan_ports_free(const struct plan_ports *p, int limit);
// Takes `n` free ports (there must be so many), the first ones from the cursor on, around the end.
void plan_ports_take(struct plan_ports *p, int n, uint16_t *ret_ports);
void plan_ports_give(struct plan_ports *p, int n, const uint16_t *ports);

// --- preference: lowest key first, then who has the image, then lowest name (plain strcmp order)
// ---

struct plan_key {
    uint64_t hi;
    int64_t lo;
};
static inline int plan_key_compare(const struct plan_key *a, const struct plan_key *b)
{
    if (a->hi != b->hi)
        return a->hi < b->hi ? -1 : 1;
    return a->lo < b->lo ? -1 : a->lo > b->lo;
}

// Nodes that a search passes over.
struct plan_but {
    int64_t at[PLAN_AVOID_MAX];
    int n;
};
static inline bool plan_but_has(const struct plan_but *b, int64_t node)
{
    for (int i = 0; i < b->n; i++)
        if (b->at[i] == node)
            return true;
    return false;
}

struct plan_order {
    int64_t size;
    uint32_t task;
};

struct plan_kind {
    uint64_t cards;       // what they are, hashed
    uint32_t nodes, open; // and those with cards that can be given
};

struct plan_index {
    struct plan_node *nodes; // borrowed
    size_t n;
    struct plan_view *views;
    struct plan_kind kinds[PLAN_KINDS_MAX];
    uint8_t *kind_of;                               // by node
    struct plan_where *wheres;                      // by text
    bool *closed;                                   // kept for the head of the queue
    uint64_t mark;                                  // set by whoever closed nodes
    uint32_t *job_tasks;                            // tasks of the job under way, by node
    struct resources total;                         // of all nodes
    int64_t most_cpu, most_memory;                  // largest totals, at least 1
    __int128 sum_cpu, sum_memory, sum_gpus;         // free in all
    uint32_t *rank_of, *node_at;                    // by name; NULL until a tree is needed
    struct node_tree *trees[ALLOC_MAX][METRIC_MAX]; // NULL until needed
    struct node_tree *live[ALLOC_MAX * METRIC_MAX];
    size_t n_live;
    size_t asked[ALLOC_MAX][METRIC_MAX]; // tasks that looked for a place this way
    // Of the job under way:
    struct plan_order *order;
    uint16_t *cursors; // the port cursors from before each grant, in the same order
    size_t scratch;    // room in both
};

int64_t plan_metric_free(const struct plan_view *v, enum alloc_metric metric);
// Share of the largest node, 0 .. PLAN_SHARE_ONE (more when `amount` is above it).
#define PLAN_SHARE_ONE (INT64_C(1) << 20)
int64_t plan_share(int64_t amount, int64_t most);

struct plan_key place_balanced_key(const struct plan_index *x, size_t node, enum alloc_metric m);
struct plan_key place_compacted_key(const struct plan_index *x, size_t node, enum alloc_metric m);
struct plan_key place_best_fit_key(const struct plan_index *x, size_t node, enum alloc_metric m);
struct plan_key place_spread_key(const struct plan_index *x, size_t node, enum alloc_metric m);
struct plan_key place_key(const struct plan_index *x, enum alloc_mode mode, enum alloc_metric m,
                          size_t node);

// Whether, for this need, a node of key a comes before one of key b.
bool plan_prefers(const struct plan_index *x, const struct plan_need *need,
                  const struct plan_key *a, size_t node, const struct plan_key *b, size_t than);
// Whether the node has the image that the need prefers.
bool plan_has_image(const struct plan_index *x, size_t node, const struct plan_need *need);

// How the job's task looks for a node: as the job says, but for a task under best-fit that needs
// none of cpu, memory and cards. It fills nothing up, and the tightest node would get all of its
// kind: it goes where the fewest tasks are.
enum alloc_mode plan_mode_of(const struct plan_job *job, const struct plan_need *need);

// --- index.c ---

// The need with the nodes that meet its conditions. -ENOMEM.
int plan_need_on(struct plan_index *x, const struct plan_demand *d,
                 struct plan_need *ret) WARN_UNUSED;
// Whether it fits on this node of the index.
bool plan_fits_on(const struct plan_index *x, size_t node, const struct plan_need *need);

// Keeps the node for a job that does not keep to open nodes. Whether more fits than before.
bool plan_index_close(struct plan_index *x, size_t node, bool closed);

// Makes the tree for this way of placing, so that picks need not look at every node. -ENOMEM.
int plan_index_prepare(struct plan_index *x, enum alloc_mode mode, enum alloc_metric m) WARN_UNUSED;
// The nodes of a demand's `avoid`.
struct plan_but plan_avoided(const struct plan_index *x, const char *avoid);
// The preferred node that fits the demand, or -1.
int plan_index_pick(struct plan_index *x, enum alloc_mode mode, enum alloc_metric m,
                    const struct plan_need *need, const char *avoid);

// --- order.c ---

// Largest first; equal ones as they stand in the job.
void plan_order_tasks(const struct plan_index *x, const struct plan_job *job,
                      struct plan_order *ret);

// --- scope.c ---

// As far as they find places: tasks of a job with rules. x->order begins with the *ret_placed that
// did. -ENOMEM.
int plan_place_ruled(struct plan_index *x, const struct plan_job *job,
                     size_t *ret_placed) WARN_UNUSED;

// --- plan.c: one job at a time ---

// Room in x->order and x->cursors for so many tasks. -ENOMEM.
int plan_index_room(struct plan_index *x, size_t n) WARN_UNUSED;

// Needs that found no node while nothing of their job was placed. While no room is added, whatever
// needs as much or more need not look again; this keeps a long queue of jobs that wait for the same
// thing cheap. A few are enough.
#define PLAN_REFUSALS_MAX 16
struct plan_refusals {
    struct plan_need needs[PLAN_REFUSALS_MAX];
    size_t n;
};
bool plan_was_refused(const struct plan_refusals *r, const struct plan_need *need);
// Places the job (job->placed) or leaves no trace of it. -ENOMEM.
int plan_try(struct plan_index *x, struct plan_refusals *r, struct plan_job *job) WARN_UNUSED;
// The same; *ret_over: it has no place only because "all" comes to more than job->most; what its
// tasks were granted then tells how much.
int plan_try_most(struct plan_index *x, struct plan_refusals *r, struct plan_job *job,
                  bool *ret_over) WARN_UNUSED;
struct resources plan_most(const struct plan_job *job);
// What its tasks were granted, in all.
struct resources plan_granted(const struct plan_job *job);
// Takes the placement of the job that was tried last back.
void plan_untry(struct plan_index *x, struct plan_job *job);
