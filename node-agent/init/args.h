// SPDX-License-Identifier: Apache-2.0
// The command line of meadow-init.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INIT_CGROUPS_MAX 8 // cgroup v1 has one folder per controller
#define INIT_HEALTH_ARGS_MAX 64

struct init_args {
    const char *out;                       // folder for logs and records
    const char *lease;                     // folder of the lease file, or NULL
    const char *attempt;                   // unique id
    const char *boot_id;                   // as the agent sees it, or NULL = look
    const char *environment;               // file with the command's, or NULL = our own
    bool delegated;                        // we are a unit of systemd whose cgroup is ours
    const char *chdir;                     // working directory of the command, or NULL
    const char *cgroups[INIT_CGROUPS_MAX]; // folders the command is put into
    int cgroup_fds[INIT_CGROUPS_MAX];      // their cgroup.procs, opened by cgroup_open
    int freezer_fds[INIT_CGROUPS_MAX];     // their freezer's switch, -1 = has none; likewise
    size_t n_cgroups;
    int stop_signal;
    int64_t grace_ms;
    int64_t timeout_ms; // 0 = none
    int64_t log_limit;  // bytes kept per stream
    int64_t echo;       // bytes of each stream copied to our own
    int64_t uid, gid;   // what init itself becomes, and with it the command; -1 = stays what it is
    uint64_t keep_capabilities; // by number: stay in the bounding set when uid or gid is given
    int lock_fd;                // init.lock, already locked by whoever started us; -1 = open it
    const char *health_command[INIT_HEALTH_ARGS_MAX + 1]; // NULL-terminated
    size_t n_health_command;
    int64_t health_port; // 0 = no HTTP check
    const char *health_path;
    int64_t health_interval_ms, health_timeout_ms, health_start_period_ms, health_retries;
    char **command; // NULL-terminated, at least one
};

// Whether the command is to be looked after.
bool init_args_have_health(const struct init_args *a);
// Returns NULL and fills *ret, or the reason (static text) for which the command line is wrong.
const char *init_args_parse(int argc, char **argv, struct init_args *ret);
