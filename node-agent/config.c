// SPDX-License-Identifier: Apache-2.0
// The agent's configuration: the table of fields, and the checks that need more than one field or
// more than a type.
#include "node-agent/config.h"
#include "node-agent/policy.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/config.h"
#include "common/log.h"
#include "common/units.h"

#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Ephemeral ports of the kernel: a task's port there could be taken by any outgoing connection.
#define EPHEMERAL_FIRST 32768
#define EPHEMERAL_LAST 60999
#define DIR_MAX 119 // struct attempt_dirs

#define FIELD(name, type, member, fallback, min, max)                                              \
    {                                                                                              \
        name, type, offsetof(struct agent_config, member), fallback, min, max                      \
    }

static const struct config_field fields[] = {
    FIELD("name", CONFIG_STRING, name, NULL, 0, 0),
    FIELD("master.url", CONFIG_STRING, master_url, "https://127.0.0.1:7420", 0, 0),
    FIELD("master.ca", CONFIG_STRING, master_ca, NULL, 0, 0),
    FIELD("join_token", CONFIG_STRING, join_token, NULL, 0, 0),
    FIELD("join_token_file", CONFIG_STRING, join_token_file, NULL, 0, 0),
    FIELD("state_dir", CONFIG_STRING, state_dir, "/var/lib/meadow/agent", 0, 0),
    FIELD("run_dir", CONFIG_STRING, run_dir, "/run/meadow/agent", 0, 0),
    FIELD("data_dir", CONFIG_STRING, data_dir, "/var/lib/meadow/data", 0, 0),
    FIELD("runtime", CONFIG_STRING, runtime, "process", 0, 0),
    FIELD("docker.socket", CONFIG_STRING, docker_socket, "/run/docker.sock", 0, 0),
    FIELD("image_gc.high_threshold", CONFIG_INT, image_gc_high, "85", 1, 100),
    FIELD("image_gc.low_threshold", CONFIG_INT, image_gc_low, "80", 0, 100),
    FIELD("image_gc.max_size", CONFIG_MEMORY, image_gc_max, "0", 0, INT64_MAX),
    FIELD("image_gc.min_age", CONFIG_DURATION_MS, image_gc_min_age_ms, "1h", 0, INT64_MAX),
    FIELD("init_path", CONFIG_STRING, init_path, NULL, 0, 0),
    FIELD("resources.cpu", CONFIG_STRING, cpu_text, "all", 0, 0),
    FIELD("resources.memory", CONFIG_STRING, memory_text, "all", 0, 0),
    FIELD("resources.gpu", CONFIG_STRING, gpu_text, "all", 0, 0),
    FIELD("address", CONFIG_STRING, address, NULL, 0, 0),
    FIELD("ports.first", CONFIG_INT, ports_first, "20000", 1, 65535),
    FIELD("ports.count", CONFIG_INT, ports_count, "2000", 0, 65535),
    FIELD("max_parallel_starts", CONFIG_INT, max_parallel_starts, "0", 0, 1000),
    FIELD("log.limit", CONFIG_MEMORY, log_limit, "64m", 65536, INT64_MAX),
    FIELD("gpu.nvml_path", CONFIG_STRING, nvml_path, NULL, 0, 0),
    FIELD("labels", CONFIG_STRING_LIST, labels, NULL, 0, 0),
    FIELD("log_level", CONFIG_STRING, log_level, "info", 0, 0),
    FIELD("cgroup_parent", CONFIG_STRING, cgroup_parent, "", 0, 0),
    FIELD("policy.allow_root", CONFIG_BOOL, allow_root, "false", 0, 0),
    FIELD("policy.allow_uids", CONFIG_STRING_LIST, allow_uids, NULL, 0, 0),
    FIELD("policy.allow_gids", CONFIG_STRING_LIST, allow_gids, NULL, 0, 0),
    FIELD("policy.default_uid", CONFIG_INT, default_uid, "65534", 0, UINT32_MAX - 1),
    FIELD("policy.default_gid", CONFIG_INT, default_gid, "65534", 0, UINT32_MAX - 1),
    FIELD("policy.host_paths", CONFIG_STRING_LIST, host_paths, NULL, 0, 0),
    FIELD("policy.capabilities", CONFIG_STRING_LIST, capabilities, NULL, 0, 0),
    FIELD("policy.pids_limit", CONFIG_INT, pids_limit, "4096", 16, 4194304),
};

void agent_config_free(struct agent_config *c)
{
    config_free(fields, ARRAY_SIZE(fields), c);
    memset(c, 0, sizeof(*c));
}

static int check_dir(const char *field, const char *path, struct err *e)
{
    if (!path || path[0] != '/')
        return err_set(e, -EINVAL, "%s: expected an absolute path", field);
    if (strlen(path) > DIR_MAX)
        return err_set(e, -EINVAL, "%s: longer than %d characters", field, DIR_MAX);
    return 0;
}

static int check_ports(const struct agent_config *c, struct err *e)
{
    int64_t last = c->ports_first + c->ports_count - 1;

    if (c->ports_count > 0 && last > 65535)
        return err_set(e, -EINVAL, "ports: %lld to %lld is beyond 65535", (long long)c->ports_first,
                       (long long)last);
    if (c->ports_count > 0 && c->ports_first <= EPHEMERAL_LAST && last >= EPHEMERAL_FIRST)
        return err_set(e, -EINVAL, "ports: %lld to %lld meets the kernel's own ports %d to %d",
                       (long long)c->ports_first, (long long)last, EPHEMERAL_FIRST, EPHEMERAL_LAST);
    return 0;
}

static int parse_gpu(const char *text, int64_t *ret, struct err *e)
{
    char *end;
    long value = strtol(text, &end, 10);

    if (*text == '\0' || *end != '\0' || value < 0 || value > 1024)
        return err_set(e, -EINVAL, "\"%s\" is no number of cards", text);
    *ret = value;
    return 0;
}

static int parse_resource(const char *field, const char *text,
                          int (*parse)(const char *, int64_t *, struct err *), int64_t *ret,
                          struct err *e)
{
    *ret = AGENT_ALL;
    if (strcmp(text, "all") == 0)
        return 0;
    int r = parse(text, ret, e);
    return r < 0 ? err_wrap(e, r, "resources.%s", field) : 0;
}

static int check_resources(struct agent_config *c, struct err *e)
{
    int r = parse_resource("cpu", c->cpu_text, units_parse_cpu, &c->cpu_milli, e);
    if (r == 0)
        r = parse_resource("memory", c->memory_text, units_parse_memory, &c->memory, e);
    if (r == 0)
        r = parse_resource("gpu", c->gpu_text, parse_gpu, &c->gpu, e);
    return r;
}

static int check_labels(char *const *labels, struct err *e)
{
    for (char *const *p = labels; p && *p; p++) {
        const char *equals = strchr(*p, '=');
        if (!equals || equals == *p)
            return err_set(e, -EINVAL, "labels: \"%s\": expected key=value", *p);
    }
    return 0;
}

static int check_texts(const struct agent_config *c, struct err *e)
{
    enum log_level level;
    size_t len = strlen(c->master_url);

    if (strncmp(c->master_url, "https://", 8) != 0 || len < 9)
        return err_set(e, -EINVAL, "master.url: \"%s\": expected https://HOST:PORT", c->master_url);
    if (strcmp(c->runtime, "process") != 0 && strcmp(c->runtime, "docker") != 0)
        return err_set(e, -EINVAL, "runtime: \"%s\": expected process or docker", c->runtime);
    if (log_level_from_string(c->log_level, &level) < 0)
        return err_set(e, -EINVAL, "log_level: \"%s\": expected error, warn, info or debug",
                       c->log_level);
    if (c->image_gc_low > c->image_gc_high)
        return err_set(e, -EINVAL, "image_gc: low_threshold %lld is above high_threshold %lld",
                       (long long)c->image_gc_low, (long long)c->image_gc_high);
    if (c->join_token && c->join_token_file)
        return err_set(e, -EINVAL, "join_token and join_token_file: give one of them");
    return 0;
}

static int check(struct agent_config *c, struct err *e)
{
    int r = check_texts(c, e);
    if (r == 0)
        r = check_dir("state_dir", c->state_dir, e);
    if (r == 0)
        r = check_dir("run_dir", c->run_dir, e);
    if (r == 0 && c->data_dir[0] != '/')
        r = err_set(e, -EINVAL, "data_dir: expected an absolute path");
    if (r == 0)
        r = check_ports(c, e);
    if (r == 0)
        r = check_resources(c, e);
    if (r == 0)
        r = check_labels(c->labels, e);
    if (r == 0)
        r = policy_ids_check("allow_uids", c->allow_uids, e);
    if (r == 0)
        r = policy_ids_check("allow_gids", c->allow_gids, e);
    if (r == 0)
        r = policy_paths_check(c->host_paths, e);
    if (r == 0)
        r = policy_capabilities_check(c->capabilities, e);
    return r;
}

void agent_config_policy(const struct agent_config *c, struct policy *ret)
{
    static char *const people[] = {(char *)(uintptr_t) "1000-4294967294", NULL};
    *ret = (struct policy){.allow_root = c->allow_root,
                           .allow_uids = c->allow_uids && *c->allow_uids ? c->allow_uids : people,
                           .allow_gids = c->allow_gids && *c->allow_gids ? c->allow_gids : people,
                           .default_uid = c->default_uid,
                           .default_gid = c->default_gid,
                           .host_paths = c->host_paths,
                           .capabilities = c->capabilities,
                           .pids_limit = c->pids_limit,
                           .container = strcmp(c->runtime, "docker") == 0,
                           .agent_uid = geteuid(),
                           .engine_socket = c->docker_socket,
                           .run_dir = c->run_dir,
                           .state_dir = c->state_dir};
}

static int fill_name(struct agent_config *c)
{
    char host[HOST_NAME_MAX + 1] = "";

    if (c->name && c->name[0])
        return 0;
    free(c->name);
    if (gethostname(host, sizeof(host) - 1) < 0 || host[0] == '\0')
        (void)strcpy(host, "node");
    c->name = strdup(host);
    return c->name ? 0 : -ENOMEM;
}

static void trim_slashes(char *text)
{
    size_t len = strlen(text);
    while (len > 1 && text[len - 1] == '/')
        text[--len] = '\0';
}

int agent_config_load(const char *path, struct agent_config *ret, struct err *e)
{
    struct agent_config c;

    memset(&c, 0, sizeof(c));
    int r = config_load(path, fields, ARRAY_SIZE(fields), &c, e);
    if (r < 0)
        return r;
    trim_slashes(c.master_url);
    trim_slashes(c.state_dir);
    trim_slashes(c.run_dir);
    r = fill_name(&c);
    if (r == 0)
        r = check(&c, e);
    if (r < 0) {
        agent_config_free(&c);
        return path ? err_wrap(e, r, "%s", path) : r;
    }
    *ret = c;
    return 0;
}

int agent_config_token(const struct agent_config *c, char **ret, struct err *e)
{
    cleanup_free char *text = NULL;
    size_t len = 0;

    *ret = NULL;
    if (c->join_token_file) {
        int r = atomic_file_read(c->join_token_file, 4096, &text, &len, e);
        if (r < 0)
            return err_wrap(e, r, "join_token_file");
    } else if (c->join_token) {
        text = strdup(c->join_token);
    } else {
        return 0;
    }
    const char *begin = text ? text + strspn(text, " \t\r\n") : "";
    *ret = strndup(begin, strcspn(begin, " \t\r\n"));
    return *ret ? 0 : err_set(e, -ENOMEM, "out of memory");
}
