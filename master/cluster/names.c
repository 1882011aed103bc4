// SPDX-License-Identifier: Apache-2.0
// State names of jobs, tasks and nodes, as users and records see them; and their reasons.
#include "common/cleanup.h"
#include "master/cluster/cluster_internal.h"

#include <stdlib.h>
#include <string.h>

static const char *const task_names[TASK_STATE_MAX] = {
    "pending",   "assigned", "starting", "running", "stopping",
    "succeeded", "failed",   "stopped",  "lost",    "unknown"};
static const char *const job_names[JOB_STATE_MAX] = {"pending",   "running", "resizing", "stopping",
                                                     "succeeded", "failed",  "stopped"};
static const char *const node_names[NODE_STATE_MAX] = {"pending",     "ready", "not_ready",
                                                       "unreachable", "lost",  "left"};

static int find(const char *const *names, int n, const char *text)
{
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], text) == 0)
            return i;
    return -EINVAL;
}

const char *task_state_to_string(enum task_state s)
{
    return task_names[s];
}

int task_state_from_string(const char *text, enum task_state *ret)
{
    int i = find(task_names, TASK_STATE_MAX, text);
    if (i >= 0)
        *ret = (enum task_state)i;
    return i < 0 ? i : 0;
}

const char *job_state_to_string(enum job_state s)
{
    return job_names[s];
}

int job_state_from_string(const char *text, enum job_state *ret)
{
    int i = find(job_names, JOB_STATE_MAX, text);
    if (i >= 0)
        *ret = (enum job_state)i;
    return i < 0 ? i : 0;
}

const char *node_state_to_string(enum node_state s)
{
    return node_names[s];
}

int node_state_from_string(const char *text, enum node_state *ret)
{
    int i = find(node_names, NODE_STATE_MAX, text);
    if (i >= 0)
        *ret = (enum node_state)i;
    return i < 0 ? i : 0;
}

void reason_set(const char **at, const char *text)
{
    char *copy = text[0] ? strndup(text, REASON_BYTES - 1) : NULL; // it may be what stands there
    if ((*at)[0])
        free((char *)(uintptr_t)*at);
    *at = copy ? copy : "";
}
