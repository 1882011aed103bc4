// SPDX-License-Identifier: Apache-2.0
// The state of a local cluster (which nodes of what size) and the daemons' configuration files,
// which are always written whole from it.
#include "cli/up.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/json.h"
#include "proto/version.h"

#include <string.h>
#include <unistd.h>

#define STATE_FORMAT 1

// Fewer ports each when there are many nodes, so that several local clusters fit side by side.
static int ports_per_node(int nodes)
{
    return nodes <= 3 ? 1000 : nodes <= 8 ? 400 : nodes <= 32 ? 200 : 100;
}

// What a new node gets: the options, else what the first node has.
static const char *choice(const char *given, const json_t *first, const char *key)
{
    return given ? given : json_opt_str(first, key, NULL);
}

static int add_node(struct local *l, const struct up_options *o, int number, int nodes,
                    struct err *e)
{
    struct port_claim claim;
    json_t *all = json_object_get(l->state, "nodes");
    const json_t *first = json_array_get(all, 0);
    cleanup_free char *seed = cli_format("%s#%d", l->dir, number);
    cleanup_free char *name = cli_format("node-%d", number);
    int r = ports_claim(seed, ports_per_node(nodes), &claim, e);

    if (r < 0)
        return r;
    json_t *n = cli_need(json_object());
    json_put_str(n, "name", name);
    json_put_str(n, "runtime", o->runtime ? o->runtime : json_opt_str(first, "runtime", "process"));
    json_put_str(n, "cpu", choice(o->cpu, first, "cpu"));
    json_put_str(n, "memory", choice(o->memory, first, "memory"));
    json_put_str(n, "gpu", choice(o->gpu, first, "gpu"));
    json_put_str(n, "docker_socket", choice(o->docker_socket, first, "docker_socket"));
    json_put_i64(n, "ports_first", claim.first);
    json_put_i64(n, "ports_count", claim.count);
    (void)json_array_append_new(all, n);
    local_keep_claim(l, (size_t)number - 1,
                     claim.fd); // no other `up` takes the range before the agent holds it
    return 0;
}

int up_plan_nodes(struct local *l, const struct up_options *o, struct err *e)
{
    int r = local_load(l, e);

    if (r < 0 && r != -ENOENT)
        return r;
    if (r == -ENOENT) {
        l->state = cli_need(
            json_pack("{s:i,s:s,s:i,s:[]}", "format", STATE_FORMAT, "api", "", "port", 0, "nodes"));
        l->api = "";
    }
    if (o->parallel_level >= 0)
        json_put_i64(l->state, "parallel_level", o->parallel_level);
    int have = (int)local_nodes(l);
    int want = o->nodes ? o->nodes : have ? have : 1;
    for (int i = have + 1; i <= want; i++) {
        r = add_node(l, o, i, want, e);
        if (r < 0)
            return r;
    }
    return local_save(l, e);
}

static int write_yaml(const struct local *l, const char *leaf, const json_t *value, struct err *e)
{
    cleanup_free char *path = local_path(l, leaf);
    cleanup_strbuf struct strbuf b = {0};

    strbuf_puts(&b, "# Written by `meadow up`, anew at each start of this daemon.\n");
    output_yaml(&b, value);
    return b.failed ? err_set(e, -ENOMEM, "out of memory")
                    : atomic_file_write(path, b.data, b.len, 0600, e);
}

static void put_path(json_t *obj, const char *key, const struct local *l, const char *leaf)
{
    cleanup_free char *path = local_path(l, leaf);
    json_put_str(obj, key, path);
}

int up_write_master(const struct local *l, int port, struct err *e)
{
    cleanup_json json_t *c = cli_need(json_object());

    json_put_str(c, "name", "local");
    put_path(c, "data_dir", l, "master");
    put_path(c, "run_dir", l, "run");
    put_path(c, "shared_data", l, "data");
    json_put(c, "listen", json_pack("{s:s,s:i}", "address", "127.0.0.1", "port", port));
    put_path(c, "pid_file", l, "master.pid");
    put_path(c, "redis_pid_file", l, "redis.pid");
    put_path(c, "redis_log", l, "log/redis.log");
    json_put(c, "default_resources", json_pack("{s:i,s:i}", "cpu", 0, "memory", 0));
    // One's own machine: a disk that is well used must not keep one from trying things.
    json_put(c, "disk", json_pack("{s:i,s:i}", "warn", 95, "full", 99));
    int64_t level = json_opt_i64(l->state, "parallel_level", 0);
    if (level > 0)
        json_put(c, "scheduling", json_pack("{s:I}", "parallel_level", (json_int_t)level));
    return write_yaml(l, "master.yml", c, e);
}

static void put_resources(json_t *c, const json_t *node)
{
    static const char *const keys[] = {"cpu", "memory", "gpu"};
    json_t *r = cli_need(json_object());

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (json_opt_str(node, keys[i], NULL))
            json_put_str(r, keys[i], json_opt_str(node, keys[i], ""));
    if (json_object_size(r) > 0)
        json_put(c, "resources", r);
    else
        json_decref(r);
}

// Tasks of people who have no uid of their own here run as whoever started this cluster. Another
// uid needs root, and root's cluster has it.
static void put_policy(json_t *c)
{
    json_t *p = cli_need(json_object());

    json_put_i64(p, "default_uid", geteuid());
    json_put_i64(p, "default_gid", getegid());
    if (geteuid() == 0)
        json_put_bool(p, "allow_root", true);
    else
        json_put(p, "allow_uids", json_pack("[o]", json_sprintf("%u", (unsigned)geteuid())));
    json_put(p, "allow_gids", json_pack("[o]", json_sprintf("%u", (unsigned)getegid())));
    json_put(c, "policy", p);
}

int up_write_agent(const struct local *l, size_t node, const char *token, struct err *e)
{
    const json_t *n = json_array_get(json_object_get(l->state, "nodes"), node);
    cleanup_json json_t *c = cli_need(json_object());
    cleanup_json json_t *master = cli_need(json_object());
    cleanup_free char *state = cli_format("agent-%zu", node + 1);
    cleanup_free char *run = cli_format("run/agent-%zu", node + 1);
    cleanup_free char *file = cli_format("agent-%zu.yml", node + 1);
    const char *docker = json_opt_str(n, "docker_socket", NULL);

    json_put_str(master, "url", l->api);
    put_path(master, "ca", l, "ca.pem");
    json_put_str(c, "name", json_opt_str(n, "name", ""));
    json_put(c, "master", json_incref(master));
    if (token)
        json_put_str(c, "join_token", token);
    put_path(c, "state_dir", l, state);
    put_path(c, "run_dir", l, run);
    put_path(c, "data_dir", l, "data");
    json_put_str(c, "address", "127.0.0.1");
    json_put_str(c, "runtime", json_opt_str(n, "runtime", "process"));
    if (docker)
        json_put(c, "docker", json_pack("{s:s}", "socket", docker));
    put_resources(c, n);
    put_policy(c);
    json_put(c, "ports",
             json_pack("{s:I,s:I}", "first", (json_int_t)json_opt_i64(n, "ports_first", 0), "count",
                       (json_int_t)json_opt_i64(n, "ports_count", 0)));
    return write_yaml(l, file, c, e);
}
