// SPDX-License-Identifier: Apache-2.0
// What is measured of a run, each with where its definition is from.
#pragma once

#include "proto/job_spec.h"

#include <stddef.h>
#include <stdint.h>

// The smallest value that at least the part p of all are not above (nearest rank). Sorts them. 0 of
// none.
double metric_percentile(double *values, size_t n, double p);
// (wait + run) / run, with run at least 10 s so that very short jobs don't decide (bounded
// slowdown: Feitelson and Rudolph, "Metrics and Benchmarking for Parallel Job Scheduling", 1998),
// at least 1.
double metric_slowdown(double wait_s, double run_s);
// 1 = all alike, 1 / n = one has all (Jain, Chiu and Hawe, "A Quantitative Measure of Fairness",
// 1984). 1 of none.
double metric_jain(const double *values, size_t n);
// Finish-time fairness, rho (Mahajan et al., "Themis", NSDI 2020): the time from arrival to end, by
// what it would be in an equal share of the cluster. With that time as Zheng et al. ("Shockwave",
// NSDI 2023) have it: what the job runs, times the mean contention while it is there. Above 1: it
// got less than its share.
double metric_rho(double there_s, double runs_s, double contention);

// What a task of the workload needs of one node, and how much of the workload is so.
struct metric_kind {
    struct resources need;
    uint64_t models; // bit i: cards of model i suit it
    double part;     // of all tasks
};
// Cards among the free ones of a node that the next task of the workload, on average, can't use
// (Weng et al., "Beware of Fragmentation", USENIX ATC 2023, for whole cards): all of them for a
// task that does not fit or needs none.
double metric_fragments(const struct resources *free, unsigned model,
                        const struct metric_kind *kinds, size_t n);

// Amounts that change at moments; sums of amount x time between them.
enum { USE_CPU, USE_MEMORY, USE_GPU, USE_FREE_CARDS, USE_FRAGMENTS, USE_MAX };
struct metric_use {
    double now[USE_MAX], sum[USE_MAX];
    int64_t at_ms, until_ms; // nothing is summed after that
};
// Time goes on to then; `now` is of the time before.
void metric_advance(struct metric_use *u, int64_t to_ms);
