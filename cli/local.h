// SPDX-License-Identifier: Apache-2.0
// The folder of a local cluster: what is where, which daemons live, and the state that `up` keeps
// there. Layout:
//   local.json (also the mark that the folder is ours)   admin.token  ca.pem   master.yml
//   agent-N.yml master.pid redis.pid agent-N.pid   log/   run/ (sockets, leases)   master/ agent-N/
//   (state)   data/ (shared)
#pragma once

#include "common/err.h"
#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

// Sockets live below the folder, and agents bound the length of their own.
#define LOCAL_DIR_MAX 48

struct local {
    char *dir;       // absolute, without '/' at its end
    const char *api; // "https://127.0.0.1:PORT", "" = not known yet; borrowed from state
    int *claims; // per node: descriptor that holds a new node's ports until its agent does, else -1
    size_t n_claims;
    json_t *state; // {format, api, port, nodes: [{name, runtime, cpu, memory, gpu, docker_socket,
                   // ports_first, ports_count}]}
};

// "~/.local/share/meadow"; caller frees; NULL without a home.
char *local_default_dir(void);
// Names the folder (it need not be there); no state yet.
int local_name(const char *dir, struct local *ret, struct err *e) WARN_UNUSED;
void local_free(struct local *l);
// Reads local.json. -ENOENT: not a local cluster's folder.
int local_load(struct local *l, struct err *e) WARN_UNUSED;
int local_save(const struct local *l, struct err *e) WARN_UNUSED;
void local_set_api(struct local *l, const char *url, int port);

// "<dir>/<leaf>"; caller frees.
char *local_path(const struct local *l, const char *leaf);
char *local_pathf(const struct local *l, const char *fmt, ...) PRINTF_LIKE(2, 3);

// One `up` or `down` at a time: waits for another one to end. *ret_fd is held until closed.
int local_lock(const struct local *l, int *ret_fd, struct err *e) WARN_UNUSED;

// The pid of a daemon of ours ("master", "agent-2") when it lives, else 0: its lock on the pid file
// decides, not the number.
pid_t local_daemon(const struct local *l, const char *name);
// The cluster's Redis when it lives, whoever its parent is; else 0.
pid_t local_redis(const struct local *l);
size_t local_nodes(const struct local *l);
bool local_agent_lives(const struct local *l); // of any node
// Keeps a claim on the ports of node `node` (takes fd); hands it out again (-1 = none).
void local_keep_claim(struct local *l, size_t node, int fd);
int local_take_claim(struct local *l, size_t node);
