// SPDX-License-Identifier: Apache-2.0
// `meadow up`: what it was asked for, and its parts.
#pragma once

#include "cli/cli.h"
#include "cli/local.h"
#include "cli/ports.h"

struct up_options {
    const char *dir;
    bool dir_given;
    int nodes;                                                // 0 = not given
    int port, parallel_level;                                 // 0, -1 = not given
    const char *runtime, *cpu, *memory, *gpu, *docker_socket; // NULL = not given
};

#define UP_NODES_MAX 200
#define UP_WHAT "can't start the cluster"

// up_config.c: the daemons' files, written from the state.
// Makes the folder's state or adds nodes to it, as the options say.
int up_plan_nodes(struct local *l, const struct up_options *o, struct err *e) WARN_UNUSED;
int up_write_master(const struct local *l, int port, struct err *e) WARN_UNUSED;
// `token` NULL: the node has joined.
int up_write_agent(const struct local *l, size_t node, const char *token,
                   struct err *e) WARN_UNUSED;

// up_master.c: exit status each; errors are printed.
int up_start_master(struct cli *cli, struct local *l, const struct up_options *o);
// Connects `cli` to the master's socket, writes ca.pem and admin.token, learns the API's address.
int up_meet_master(struct cli *cli, struct local *l);
// up_agents.c: starts the agents that do not run, waits until every node is ready.
int up_start_agents(struct cli *cli, struct local *l);
int up_wait_nodes(struct cli *cli, const struct local *l);

// Prints why a daemon did not start, with its last words.
struct spawn_set;
int up_daemon_failed(const struct spawn_set *s, const char *name, const struct err *e);
