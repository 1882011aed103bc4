// SPDX-License-Identifier: Apache-2.0
// /etc/meadow/master.yml: every field, its default and bounds (the table in config.c;
// deploy/master.yml.sample says what they mean).
#pragma once

#include "common/err.h"
#include "master/scheduler/options.h"
#include <stdbool.h>
#include <stdint.h>

// The section `limits`; 0 = no such limit, where the table in config.c allows it.
struct limits_config {
    int64_t connections; // people's TLS connections in all
    int64_t address_connections;
    int64_t handshakes; // under way in all
    int64_t address_handshakes;
    int64_t handshake_ms, header_ms, body_ms, idle_ms;
    int64_t address_rate, address_burst; // requests a second
    int64_t identity_rate, identity_burst;
};

struct master_config {
    struct limits_config limits;
    char *name;
    char *data_dir;
    char *run_dir;
    char *shared_data;
    char *listen_address;
    int64_t listen_port;
    char *socket_group; // group of the admin socket; NULL = unchanged
    char *advertise;    // host that others use to reach the API; NULL = listen address or host name
    char *tls_cert, *tls_key; // files: a certificate brought along; NULL = one of the cluster's CA
    char *tls_ca;             // file: what clients trust besides the cluster's CA; NULL = nothing
    char *tls_min_version;    // "1.3" or "1.2"
    int64_t node_cert_ms, server_cert_ms; // life of the certificates that are made here
    char **names;                         // further names and addresses of the server certificate
    char *pid_file;
    char *redis_url; // an external Redis; NULL = a child of our own, for which the next three are
    char *redis_server;
    char *redis_pid_file;
    char *redis_log;
    int64_t sync_interval_ms;
    int64_t lease_ms;
    int64_t default_cpu;    // millicores
    int64_t default_memory; // bytes
    struct scheduling_options scheduling;
    int64_t log_limit; // bytes per stream, on node and master
    int64_t aside_failures, aside_pause_ms, aside_max_pause_ms; // see cluster_options
    int64_t disk_warn_percent, disk_full_percent;               // of a disk: a warning; no new work
    int64_t stop_lease_ms;                                      // what a planned stop grants
    int64_t history_logs;                                       // bytes of all logs; 0 = no limit
    int64_t orphans_ms;                   // attempts of unknown jobs are kept so long
    int64_t history_jobs, history_age_ms; // jobs that are over: kept so many, so long; 0 = no limit
    int64_t max_connections;
    int64_t sealed_rate; // sealed requests a second from one address
    char *log_level;
    int64_t backup_every_ms; // 0 = no schedule
    int64_t backup_keep;
    char *backup_to;  // folder
    const char *path; // of the file this was read from, as given; NULL = none. Borrowed
};

// path NULL = defaults. Owned: master_config_free.
int master_config_load(const char *path, struct master_config *ret, struct err *e) WARN_UNUSED;
// Reads its file again and takes what may change while the master runs: log_level. A file that is
// wrong changes nothing and is told in the log.
void master_config_reload(const struct master_config *c);
void master_config_free(struct master_config *c);
