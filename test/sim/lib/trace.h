// SPDX-License-Identifier: Apache-2.0
// Public traces: jobs and nodes, as they are published. What form a file has is told by its first
// line:
//   openb_pod_list_*.csv of Alibaba (cluster-trace-gpu-v2023): name, cpu_milli, memory_mib,
//     num_gpu, gpu_milli (of one card), gpu_spec (models, '|' between them), qos, phase, creation,
//     deletion, scheduled (s); the last six are not in every file
//   philly.csv of the Pollux artifact: timestamp, duration (s), cards, card-seconds, virtual
//     cluster
//   *_job.csv of Tiresias: job_id, num_gpu, submit_time (s), iterations, model_name, duration (s)
//   *.trace of Gavel, by tabs: job_type, command, num_steps_arg, needs_data, total_steps, arrival
//     (s), cards; or, with ten fields, job_type, command, folder, num_steps_arg, needs_data,
//     total_steps, cards, weight, SLO, arrival. How long it runs follows from the steps per second
//     that were measured (isolated_throughputs.csv beside it; of V100 cards, of one worker where
//     more are not there)
#pragma once

#include "proto/job_spec.h"

#include <stddef.h>
#include <stdint.h>

struct trace_job {
    char user[32];         // virtual cluster, model, quality of service; "" = not told
    struct resources need; // in all; cpu and memory 0 where the trace has none
    int milli;             // of its one card; 1000 = whole
    char models[64];       // of cards that suit it, '|' between them; "" = any
    int64_t arrives_ms;
    int64_t lasts_ms; // 0 = not told
    size_t line;      // among the jobs of the file
};
struct trace_node {
    char name[32], model[16];
    struct resources total;
};

// The plan's condition that a card be of one of these models (trace_job); "" for any. Into `text`.
void trace_where(const char *models, char *text, size_t size);
// Jobs by arrival; lines that are none are left out. Free with free(). -ENOENT (not readable, or
// holds none), -ENOMEM.
int trace_jobs(const char *path, struct trace_job **ret, size_t *ret_n) WARN_UNUSED;
// openb_node_list_*.csv: sn, cpu_milli, memory_mib, gpu, model. As trace_jobs.
int trace_nodes(const char *path, struct trace_node **ret, size_t *ret_n) WARN_UNUSED;
