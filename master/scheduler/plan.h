// SPDX-License-Identifier: Apache-2.0
// Placement as a pure library: nodes with what is free, jobs with what they need, in; placements or
// reasons, out. No I/O, no clock, no allocation shared with the caller. Same input, same answer, on
// every machine.
#pragma once

#include "proto/job_spec.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAN_MAX_GPUS 64
#define PLAN_AVOID_MAX 8
#define PLAN_MAX_PORTS 16 // per task, MASTER_PORT included

enum plan_runtime { PLAN_RUNTIME_PROCESS = 1, PLAN_RUNTIME_DOCKER = 2, PLAN_RUNTIME_ANY = 3 };

// Free ports of a node: [first, first + count), one bit each; set = taken. The bitmap is borrowed
// and updated by the plan.
struct plan_ports {
    uint16_t first;
    uint16_t count;
    uint16_t cursor; // where the next search begins, relative; spreads reuse over time
    uint64_t *taken; // (count + 63) / 64 words
};

struct plan_label {
    const char *name, *value;
};

struct plan_card {
    const char *model;
    int64_t memory; // bytes; 0 = unknown
};

struct plan_image;  // images.h
struct plan_holder; // images.h

struct plan_node {
    const char *name;       // borrowed; ties go to the lowest name, byte by byte (n10 before n2)
    const char *ineligible; // NULL = may get work; else why not ("draining", "not ready: ...")
    enum plan_runtime runtime;
    struct resources total;
    struct resources free; // updated by the plan as it places
    uint64_t gpus_free;    // bit i = card i is free; updated
    struct plan_ports ports;
    const struct plan_label *labels; // borrowed; plan_index_relabel when they change
    size_t n_labels;
    const struct plan_card *cards; // borrowed, by index; as labels
    size_t n_cards;
    int tasks;                        // tasks it holds now; updated
    int max_tasks;                    // it gets no more than these; 0 = any number
    int exclusive;                    // of them, those that want it for their job alone; updated
    const struct plan_holder *holder; // what images it has; borrowed; NULL = not known
};

struct plan_demand {
    struct resources resources;
    // The node's total: it must be wholly free in that resource, and have some of it.
    bool cpu_all, memory_all, gpu_all;
    int runtimes;      // mask of plan_runtime that can run it
    int ports;         // including MASTER_PORT for index 0
    const char *where; // conditions on labels and cards (proto/constraint.h), or NULL
    // Nodes to keep off while another one fits (the job just failed there), newest first: names,
    // with newlines between them. NULL = none. Those after the first PLAN_AVOID_MAX do not count.
    const char *avoid;
    // Between nodes that are otherwise equal, one that has this image comes first. Borrowed, for
    // the run; NULL = none, or no node has it.
    const struct plan_image *image;
    bool ruled;     // its job has rules; the rest is of these
    bool exclusive; // no other job on its node
    uint16_t group;
    enum gang_mode gang; // of its group's tasks
};

// Where a job's tasks are beside each other and beside others. The tasks are in groups: first those
// of the job itself (its components), then one for each other job that is named here.
struct plan_tie {
    uint16_t group, with; // a task of `group` needs one of `with` on its node
    bool apart;           // or must have none: in both directions
};
#define PLAN_GROUPS_MAX 256
struct plan_rules {
    const char *key;          // equal texts, equal rules
    const char *const *names; // of the groups
    size_t n_groups, n_own;   // at most PLAN_GROUPS_MAX; of them, the job's own
    const struct plan_tie *ties;
    size_t n_ties;
    enum gang_mode gang; // of all tasks together
};
// A task that has its place, of the job or of one that its rules name.
struct plan_peer {
    uint32_t node;
    uint16_t group;
};

struct plan_task {
    struct plan_demand demand;
    // Result, valid when the job was placed:
    int node;                 // index into the nodes
    struct resources granted; // demand with "all" resolved
    uint64_t gpus;
    uint16_t port[PLAN_MAX_PORTS];
};

struct plan_job {
    const char *id;
    int priority;
    int64_t order; // age: smaller first among equal priority
    enum alloc_mode alloc;
    enum alloc_metric metric;
    struct plan_task *tasks; // those that wait now: all of a new job, or the restarted ones
    size_t n_tasks;
    const struct plan_rules *rules; // borrowed; NULL = none
    const struct plan_peer *peers;  // borrowed; only with rules
    size_t n_peers;
    const struct resources *most; // that "all" may come to, in all tasks; borrowed; NULL = anything
    bool open_only;               // keeps off nodes that are closed (kept for another job)
    bool placed;                  // result
};

// Sorts jobs by (priority desc, order asc, id asc) in place of an index, places each job whole or
// not at all (a job that does not fit is passed over, its partial choices undone). Nodes are left
// as they are after the placements. -ENOMEM only.
int plan_run(struct plan_node *nodes, size_t n_nodes, struct plan_job **jobs,
             size_t n_jobs) WARN_UNUSED;

// The same over nodes that are kept from one run to the next, so that a run costs what it places
// and not what the cluster holds. The nodes are borrowed and stay the caller's to change, one
// plan_index_touch per changed node before the next run; for a node more or less, or a changed
// name, make a new index. Sizes are compared with the largest totals there were when it was made.
struct plan_index;
int plan_index_new(struct plan_node *nodes, size_t n_nodes,
                   struct plan_index **ret) WARN_UNUSED; // -ENOMEM
// Whether something may fit there now that did not before.
bool plan_index_touch(struct plan_index *x, size_t node);
// The node's labels changed; as plan_index_touch.
bool plan_index_relabel(struct plan_index *x, size_t node);
int plan_index_run(struct plan_index *x, struct plan_job **jobs,
                   size_t n_jobs) WARN_UNUSED; // -ENOMEM
void plan_index_free(struct plan_index *x);    // NULL is fine

// Why one job that plan_run left unplaced does not fit on these (updated) nodes.
struct plan_reason {
    int node;       // index
    char text[160]; // "cpu: needs 4, free 1.5 (short by 2.5); gpu: needs 1, free 0 (short by 1)"
};
struct plan_blocker {
    const char *what; // "cpu" "memory" "gpu" "ports" "runtime" "labels" "tasks" "exclusive"
                      // "affinity" "node" "gang"; static text
    int nodes;        // on how many nodes it blocks
    int64_t short_by; // smallest shortage over those nodes, in the resource's unit (millicores,
                      // bytes, cards, ports; "gang": tasks that found no place); 0 = n/a
};
#define PLAN_REASONS_MAX 100
struct plan_explanation {
    char summary[256];           // one sentence for people
    struct plan_reason *reasons; // of the first nodes, at most PLAN_REASONS_MAX, in their order
    size_t n_reasons, n_nodes;
    struct plan_blocker blockers[11];
    size_t n_blockers;
};
// `busy_nodes`: names what the largest single task lacks on each node; when every task alone would
// fit somewhere, the blocker is "gang" (they don't fit together) and the summary says how many of
// how many fit. -ENOMEM only. Free with plan_explanation_free.
int plan_explain(const struct plan_node *nodes, size_t n_nodes, const struct plan_job *job,
                 struct plan_explanation *ret) WARN_UNUSED;
void plan_explanation_free(struct plan_explanation *x);
