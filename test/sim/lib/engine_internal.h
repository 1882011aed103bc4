// SPDX-License-Identifier: Apache-2.0
// What the engine's files share.
#pragma once

#include "test/sim/lib/engine.h"

#define ENGINE_MODELS 64
#define ENGINE_CARDS 8

struct engine_kind { // of tasks
    struct metric_kind m;
    char where[160]; // for the plan; "" = any node
};
struct engine_job {
    struct plan_entry entry;
    const struct trace_job *t;
    char id[16];
    struct plan_task *tasks;
    uint32_t n_tasks;
    uint32_t kind, last_kind; // of all tasks but the last one; of that
    bool possible;            // on an empty cluster
    int64_t started_ms;       // -1 = not yet
    double contended;         // sum of contention x time when it came
    double rho;
};

struct engine {
    const struct trace_node *from;
    const struct trace_job *jobs_from;
    size_t n_nodes, n_jobs;
    struct plan_node *nodes;
    struct plan_card (*cards)[ENGINE_CARDS];
    unsigned *model; // by node
    const char *models[ENGINE_MODELS];
    unsigned n_models;
    struct resources total;
    int64_t most_cards; // of one node
    struct engine_kind *kinds;
    size_t n_kinds;
    struct metric_kind *mix; // of the kinds, for metric_fragments
    struct engine_job *jobs;
    struct plan_task *tasks;
    double *fragments; // by node

    // Of a run:
    const struct engine_policy *policy;
    struct plan_queue *queue;
    struct plan_index *index;
    struct engine_job **running; // binary heap by end
    size_t n_running;
    struct plan_running *list;
    size_t list_room;
    int64_t now_ms;
    struct metric_use use;
    struct resources demanded; // by all that wait or run
    double contended;
    size_t oldest;  // the first job that has not started
    size_t arrived; // jobs[0 .. arrived) came
    size_t over, starts, backfilled;
    uint32_t *start_order;
    double *turns_s; // each run of the queue
    size_t n_turns, turns_room;
};

// engine_load.c: nodes, kinds of tasks, and which jobs are possible. -ENOMEM.
int engine_fill(struct engine *e);

// engine_report.c. -ENOMEM.
int engine_report(struct engine *e, struct engine_result *ret) WARN_UNUSED;
