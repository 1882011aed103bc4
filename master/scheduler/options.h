// SPDX-License-Identifier: Apache-2.0
// The section `scheduling` of master.yml.
#pragma once

#include "master/cluster/user.h"

struct scheduling_options {
    int64_t half_life_ms;      // of usage, for fair shares; 0 = no fair share
    int64_t hold_after_ms;     // the head waits so long until other work is kept off its nodes (see
                               // plan_policy); 0 = no reservations
    int64_t assume_timeout_ms; // of tasks without `timeout`, in reservations; 0 = may run for ever
    int64_t node_tasks;        // that a node holds at most; 0 = any number
    int64_t parallel_level;    // jobs that run at once at most; 0 = any number
    int64_t job_tasks;         // that a job has at most
    int64_t max_priority[ROLE_MAX]; // of jobs of people with the role
};
