// SPDX-License-Identifier: Apache-2.0
// The agent's context, shared by agent.c, agent_connect.c and status_api.c only.
#pragma once

#include "node-agent/address.h"
#include "node-agent/agent.h"
#include "node-agent/identity.h"
#include "node-agent/join.h"
#include "node-agent/link.h"
#include "node-agent/log_ship.h"
#include "node-agent/node_report.h"
#include "node-agent/renew.h"
#include "node-agent/secrets.h"
#include "node-agent/sync.h"

struct status_api;

struct agent {
    struct agent_options options;
    uv_prepare_t turn; // runs before the loop waits, when something woke us
    char instance[INSTANCE_BYTES];
    struct hardware_system system;
    struct attempt_dirs dirs;
    struct policy policy;
    char secrets_dir[SECRETS_PATH_BYTES]; // "" = there is no memory for them
    int lock_fd;
    bool stopping;
    char address[ADDRESS_BYTES];
    struct identity *identity;
    char *join_token; // NULL = none
    char *pinned_ca;  // from the configuration; NULL = none
    struct tasks *tasks;
    struct executor *executor;
    struct link *link;
    struct join *join;
    struct log_ship *logs;
    struct gpu_probe *gpus;
    struct status_api *api;
    struct cpu_sample last_cpu;
    int64_t trimmed; // activity when memory was given back
    // From the moment there is a certificate:
    struct http_client *client;     // syncs and reports
    struct http_client *log_client; // logs, which must not be in their way
    struct sync *sync;
    struct renew *renew;
    struct instances instances;
    bool began; // instances: this one is in the file
    bool clock_off;
    char ca_sha256[65]; // of the bundle that is trusted; "" = not computed yet
    struct runtime *runtime;
};

void agent_wake(struct agent *a); // something is to be done before the loop waits again
// What the node report is made of; borrowed from the agent.
struct node_facts agent_facts(struct agent *a);
int agent_connect(struct agent *a,
                  struct err *e) WARN_UNUSED; // once joined: clients, sync, runtime
// Sends the join request; its answer is an event of the link.
void agent_join(struct agent *a);
// The cluster has removed this node: its work is stopped, with its grace, and nothing new is asked
// for.
void agent_removed(struct agent *a, const char *why);
int agent_start_logs(struct agent *a, struct err *e) WARN_UNUSED;
