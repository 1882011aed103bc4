// SPDX-License-Identifier: Apache-2.0
// agent.yml: what the operator of this machine decides. Every field has a default;
// deploy/agent.yml.sample explains them.
#pragma once

#include "common/err.h"
#include <stdbool.h>
#include <stdint.h>

struct policy;

#define AGENT_ALL (-1) // a resource given as "all"

struct agent_config { // texts are owned; agent_config_free
    char *name;       // never NULL after loading (default: host name)
    char *master_url; // without a slash at the end
    char *master_ca;  // path or NULL
    char *join_token;
    char *join_token_file;
    char *state_dir;
    char *run_dir;
    char *data_dir;
    char *runtime; // "process" or "docker"
    char *docker_socket;
    int64_t image_gc_high, image_gc_low; // percent
    int64_t image_gc_max;                // bytes; 0 = no bound
    int64_t image_gc_min_age_ms;
    char *init_path; // NULL: beside the binary, else the installed place
    char *cpu_text, *memory_text, *gpu_text;
    char *address; // NULL: local address of the connection to the master
    int64_t ports_first, ports_count;
    int64_t max_parallel_starts; // 0: the runtime's default
    int64_t log_limit;           // bytes per stream and attempt
    char *nvml_path;             // NULL: the usual library
    char **labels;               // "key=value"
    char *log_level;
    char *cgroup_parent;
    bool allow_root; // policy
    char **allow_uids;
    char **allow_gids;
    int64_t default_uid, default_gid;
    char **host_paths;
    char **capabilities;
    int64_t pids_limit;

    int64_t cpu_milli, memory, gpu; // parsed; AGENT_ALL = what the machine has
};

// Loads and checks. path NULL = defaults only. On failure nothing is left in *ret and e names the
// field.
int agent_config_load(const char *path, struct agent_config *ret, struct err *e) WARN_UNUSED;
void agent_config_free(struct agent_config *c);
// The policy in it; its texts are borrowed from the configuration.
void agent_config_policy(const struct agent_config *c, struct policy *ret);
// The join token, from the field or the file, without white space around it; *ret NULL when there
// is none. Owned.
int agent_config_token(const struct agent_config *c, char **ret, struct err *e) WARN_UNUSED;
