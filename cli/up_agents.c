// SPDX-License-Identifier: Apache-2.0
// The agents of a local cluster: join tokens for those that have not joined, the start of those
// that do not run, the wait until every node is ready.
#include "cli/up.h"

#include "cli/up_spawn.h"
#include "common/cleanup.h"
#include "common/json.h"

#include <string.h>

#define READY_MS 30000
#define NODES_WAIT_S 30

static char *agent_name(size_t node)
{
    return cli_format("agent-%zu", node + 1);
}

// The agent's last step of a join is writing this file.
static bool has_joined(const struct local *l, size_t node)
{
    cleanup_free char *path = local_pathf(l, "agent-%zu/identity/node.json", node + 1);
    return access(path, F_OK) == 0;
}

static bool lives(const struct local *l, size_t node)
{
    cleanup_free char *name = agent_name(node);
    return local_daemon(l, name) != 0;
}

// A join token for as many nodes as need one; NULL when none does. Exit status.
static int make_token(struct cli *cli, const struct local *l, char **ret)
{
    cleanup_json json_t *answer = NULL;
    int uses = 0;

    for (size_t i = 0; i < local_nodes(l); i++)
        uses += !lives(l, i) && !has_joined(l, i);
    if (uses == 0)
        return CLI_OK;
    cleanup_json json_t *body =
        cli_need(json_pack("{s:b,s:i,s:s}", "approved", 1, "uses", uses, "ttl", "1h"));
    int code = cli_send(cli, "can't make a join token", "POST", "/v1/join-tokens", body, &answer);
    if (code == CLI_OK)
        *ret = cli_strdup(json_opt_str(answer, "token", ""));
    return code;
}

// The claim on the node's ports: open from planning, else taken again.
static int claim_of(struct local *l, size_t node)
{
    struct port_claim claim;
    const json_t *n = json_array_get(json_object_get(l->state, "nodes"), node);
    int fd = local_take_claim(l, node);

    if (fd >= 0)
        return fd;
    ports_claim_again((int)json_opt_i64(n, "ports_first", 0),
                      (int)json_opt_i64(n, "ports_count", 0), &claim);
    return claim.fd;
}

static int start_one(struct local *l, struct spawn_set *s, const char *binary, size_t node,
                     const char *token, struct err *e)
{
    cleanup_free char *name = agent_name(node);
    cleanup_close int claim = claim_of(l, node);
    int r = up_write_agent(l, node, has_joined(l, node) ? NULL : token, e);

    return r < 0 ? r : spawn_daemon(s, binary, name, claim, e);
}

static int start_all(struct cli *cli, struct local *l, const char *binary, const char *token)
{
    struct err e = {""};
    struct spawn_set *s = NULL;
    const char *name = NULL;
    int started = 0;
    int r = spawn_open(l, &s, &e);

    for (size_t i = 0; r == 0 && i < local_nodes(l); i++) {
        if (lives(l, i))
            continue;
        r = start_one(l, s, binary, i, token, &e);
        started++;
    }
    if (r == 0 && started)
        cli_progress(cli, "starting %d agent%s", started, started == 1 ? "" : "s");
    if (r == 0)
        r = spawn_wait(s, READY_MS, &name, &e);
    int code = r == 0      ? CLI_OK
               : s && name ? up_daemon_failed(s, name, &e)
                           : cli_fail(CLI_FAILED, UP_WHAT, e.text, NULL);
    if (s)
        spawn_free(s);
    return code;
}

int up_start_agents(struct cli *cli, struct local *l)
{
    struct err e = {""};
    cleanup_free char *binary = NULL;
    cleanup_free char *token = NULL;

    if (spawn_find("meadow-agent", &binary, &e) < 0)
        return cli_fail(CLI_FAILED, UP_WHAT, e.text, "build it: make");
    int code = make_token(cli, l, &token);
    if (code == CLI_OK)
        code = start_all(cli, l, binary, token);
    if (token)
        explicit_bzero(token, strlen(token));
    return code;
}

// Tells of each node of ours that is not ready.
static int say_who_is_missing(struct cli *cli, const struct local *l)
{
    size_t i;
    const json_t *n;
    int code = CLI_FAILED;

    json_array_foreach (json_object_get(l->state, "nodes"), i, n) {
        cleanup_json json_t *node = NULL;
        cleanup_free char *path = cli_path("/v1/nodes/", json_opt_str(n, "name", ""), "");
        cleanup_free char *what = cli_format("%s is not ready", json_opt_str(n, "name", "?"));
        cleanup_free char *todo = cli_format("see %s/log/agent-%zu.log", l->dir, i + 1);
        code = cli_get(cli, what, path, &node);
        if (code == CLI_OK && strcmp(json_opt_str(node, "state", ""), "ready") != 0)
            (void)cli_failf(CLI_FAILED, what, todo, "it is %s: %s",
                            json_opt_str(node, "state", "?"),
                            json_opt_str(node, "reason", "no reason given"));
    }
    return CLI_FAILED;
}

int up_wait_nodes(struct cli *cli, const struct local *l)
{
    cleanup_json json_t *cluster = NULL;
    cleanup_free char *path =
        cli_format("/v1/cluster?wait_ready=%zu&wait=%ds", local_nodes(l), NODES_WAIT_S);
    const struct api_request req = {
        .method = "GET", .path = path, .timeout_ms = (NODES_WAIT_S + 10) * 1000};
    int code = cli_request(cli, "can't see the nodes", &req, &cluster);

    if (code != CLI_OK)
        return code;
    size_t ready = (size_t)json_opt_i64(json_object_get(cluster, "nodes"), "ready", 0);
    return ready >= local_nodes(l) ? CLI_OK : say_who_is_missing(cli, l);
}
