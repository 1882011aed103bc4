// SPDX-License-Identifier: Apache-2.0
// The `node` and `usage` objects of a sync.
#pragma once

#include "node-agent/config.h"
#include "node-agent/executor.h"
#include "node-agent/hardware/gpu.h"
#include "node-agent/hardware/hardware.h"

struct node_facts { // all borrowed
    const struct agent_config *config;
    const char *sysroot;
    const char *address;
    const struct gpu_list *gpus;
    enum engine_state engine;
    const char *engine_reason;
    const json_t *engine_info; // NULL = unknown
};

// What this node has and offers; probes the hardware. Owned by the caller, NULL = out of memory.
json_t *node_report(const struct node_facts *f);
// How busy it is. `tasks` (what the runtime measured) is stolen; *last_cpu is the sample of the
// call before and is replaced.
json_t *node_usage(const struct node_facts *f, struct cpu_sample *last_cpu, json_t *tasks);
// Millicores of the machine as it is.
int64_t node_total_cpu_milli(const char *sysroot);
