// SPDX-License-Identifier: Apache-2.0
// What only the node knows of an attempt's environment, added to the spec after the claim and
// before the start.
#pragma once

#include "proto/attempt.h"

#define PEERS_INLINE_MAX (64 * 1024) // bytes of all *_ADDRS together; above, they go into a file

struct task_env_node {
    const char *data_dir; // shared data on this machine
    const char *out_dir;  // the attempt's out folder on this machine
    const char *work_dir;
    const char *secrets_dir; // the attempt's on this machine; used when the spec has secrets
    bool container;          // runs in one: paths are those inside
    bool gpus_simulated;
    const char *const *gpu_uuids; // by index; NULL entries allowed
    size_t n_gpus;
};

// Adds MEADOW_DATA, MEADOW_SECRETS, CUDA_VISIBLE_DEVICES, CONTAINER_NAME, HOME, and
// MEADOW_PEERS_FILE (writing that file to out_dir) when the addresses are too long. Values that are
// there already win, but for CUDA_VISIBLE_DEVICES. Simulated cards are taken out of spec->gpus, as
// no engine may see them.
int task_env_apply(struct attempt_spec *spec, const struct task_env_node *node,
                   struct err *e) WARN_UNUSED;
// "meadow-<job name>-<component>-<index>-<attempt id>"; owned by the caller, NULL = out of memory.
char *task_container_name(const struct attempt_spec *spec);
