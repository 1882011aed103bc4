// SPDX-License-Identifier: Apache-2.0
// Jobs of a trace played through the scheduler library (queue and plan) in simulated time, event by
// event: arrivals and ends. No daemon, no clock; what is measured of time is the library's own.
#pragma once

#include "master/scheduler/queue.h"
#include "test/sim/lib/metrics.h"
#include "test/sim/lib/trace.h"

struct engine_policy {
    const char *name;
    enum alloc_mode mode; // by cards, where a mode has a metric
    struct plan_policy queue;
    bool strict; // nobody passes the one who waits longest
    bool limits; // jobs have time limits: how long they last, as the next power of two minutes
};

struct engine_result {
    double used[3];    // part of cpu, memory, cards, while jobs arrive
    double fragmented; // part of the free cards, likewise
    double wait_s[4];  // mean, of 50 %, 90 %, 99 %
    double large_s;    // mean wait of jobs that need as many cards as the largest node has, or more
    double slow[4];    // slowdown, bounded; as wait_s
    double jain;       // of users' mean slowdowns
    double unfair;     // part of the jobs with rho above 1
    double rho_p99;
    double backfilled; // part of the starts while an older job waits
    double span_h;     // from first arrival to last end
    double us_per_start, turn_p99_ms;
    size_t starts; // fewer than jobs: the rest fits nowhere
};

struct engine;
// The nodes and jobs stay the caller's, as they are, until engine_free. A job of more cards than
// any node has is as many tasks. NULL = out of memory.
struct engine *engine_new(const struct trace_node *nodes, size_t n_nodes,
                          const struct trace_job *jobs, size_t n_jobs);
void engine_free(struct engine *e);
// Plays all jobs from the first on. `progress` is told now and then how many are over. -ENOMEM.
int engine_play(struct engine *e, const struct engine_policy *p,
                void (*progress)(size_t over, size_t all), struct engine_result *ret) WARN_UNUSED;
// While jobs arrive: what they ask for until then, times time, as part of all cards and cpu. More
// than 1 can't be had.
void engine_load(const struct engine *e, double *ret_cards, double *ret_cpu);
