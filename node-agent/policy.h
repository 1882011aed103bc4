// SPDX-License-Identifier: Apache-2.0
// What the operator of this machine lets tasks be and reach (agent.yml, `policy:`). The master can
// ask for less than it, never for more: an attempt carries nothing that could widen it.
#pragma once

#include "proto/attempt.h"

struct policy { // plain data; texts are borrowed
    bool allow_root;
    char *const *allow_uids; // "N" or "N-M", checked by policy_ids_check
    char *const *allow_gids; // the same for groups
    int64_t default_uid, default_gid;
    char *const *host_paths;   // absolute; what is below one may be mounted
    char *const *capabilities; // kept in containers, e.g. "NET_BIND_SERVICE"
    int64_t pids_limit;
    bool container;    // tasks run in containers: mounts count, and any uid is possible
    int64_t agent_uid; // effective one of this process
    const char *engine_socket;
    const char *run_dir, *state_dir;
};

// The form of the list; e names the element. -EINVAL.
int policy_ids_check(const char *field, char *const *list, struct err *e) WARN_UNUSED;
int policy_paths_check(char *const *list, struct err *e) WARN_UNUSED;
int policy_capabilities_check(char *const *list, struct err *e) WARN_UNUSED;

// Holds the attempt against the policy and writes into it what it will run as (uid, gid) and where
// the host paths of its mounts really lead. -EACCES: forbidden, e names the line of the policy;
// -ENOENT and others: a host path that can't be looked at. Looks at the file system, so it may
// wait.
int policy_apply(const struct policy *p, struct attempt_spec *spec, struct err *e) WARN_UNUSED;
