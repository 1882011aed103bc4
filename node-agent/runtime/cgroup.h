// SPDX-License-Identifier: Apache-2.0
// The control group of an attempt, when the agent may make one (v1 with several hierarchies, or
// v2). Never an error: without one the attempt runs without limits and its processes are found by
// other means.
#pragma once

#include "proto/job_spec.h"

#define CGROUP_DIRS 4
#define CGROUP_PATH 256

struct cgroup_leaf {
    char dirs[CGROUP_DIRS][CGROUP_PATH];
    size_t n; // 0 = none
    bool v2;
};

// Creates "<parent>/<id>" with the limits that are above 0. `parent` "" = "meadow".
void cgroup_make(const char *parent, const char *id, const struct resources *limits,
                 struct cgroup_leaf *ret);
// The folders that exist for this id.
void cgroup_find(const char *parent, const char *id, struct cgroup_leaf *ret);
// The group of an attempt that is a service of systemd (transient.h), in v2.
void cgroup_find_unit(const char *id, struct cgroup_leaf *ret);
// The folders of an engine's container, by the places where engines put them. `parent` "" = the
// engine's default.
void cgroup_find_container(const char *parent, const char *container, struct cgroup_leaf *ret);
// Whether the kernel killed a process of it for memory.
bool cgroup_had_oom(const struct cgroup_leaf *leaf);
bool cgroup_usage(const struct cgroup_leaf *leaf, int64_t *ret_cpu_ms, int64_t *ret_memory);
// SIGKILL to all in it.
void cgroup_kill_all(const struct cgroup_leaf *leaf);
// Removes the empty folders.
void cgroup_remove(struct cgroup_leaf *leaf);
