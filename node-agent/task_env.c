// SPDX-License-Identifier: Apache-2.0
// The node's share of an attempt's environment.
#include "node-agent/task_env.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/strbuf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PEERS_FILE "peers.env"
#define CONTAINER_SECRETS "/run/secrets"
#define CONTAINER_OUT "/run/meadow/out"

static struct job_env *env_find(const struct attempt_spec *spec, const char *key)
{
    for (size_t i = 0; i < spec->n_env; i++)
        if (strcmp(spec->env[i].key, key) == 0)
            return &spec->env[i];
    return NULL;
}

static int env_set(struct attempt_spec *spec, const char *key, const char *value, bool replace)
{
    struct job_env *found = env_find(spec, key);
    cleanup_free char *copy = NULL;

    if (found && !replace)
        return 0;
    copy = strdup(value);
    if (!copy)
        return -ENOMEM;
    if (found) {
        free(found->value);
        found->value = TAKE_PTR(copy);
        return 0;
    }
    struct job_env *grown = realloc(spec->env, (spec->n_env + 1) * sizeof(*grown));
    if (!grown)
        return -ENOMEM;
    spec->env = grown;
    char *name = strdup(key);
    if (!name)
        return -ENOMEM;
    spec->env[spec->n_env++] = (struct job_env){.key = name, .value = TAKE_PTR(copy)};
    return 0;
}

static const char *data_path(const struct attempt_spec *spec, const struct task_env_node *node)
{
    if (!node->container)
        return node->data_dir;
    for (size_t i = 0; i < spec->n_mounts; i++)
        if (!spec->mounts[i].source)
            return spec->mounts[i].target;
    return NULL;
}

// Real cards of a process go by UUID, which no renumbering changes; in a container only its own are
// visible.
static char *visible_devices(const struct attempt_spec *spec, const struct task_env_node *node)
{
    struct strbuf text = {0};

    strbuf_puts(&text, "");
    for (size_t i = 0; i < spec->n_gpus; i++) {
        size_t index = (size_t)spec->gpus[i];
        const char *uuid = index < node->n_gpus ? node->gpu_uuids[index] : NULL;
        strbuf_puts(&text, i ? "," : "");
        if (node->container)
            strbuf_printf(&text, "%zu", i);
        else if (uuid && !node->gpus_simulated)
            strbuf_puts(&text, uuid);
        else
            strbuf_printf(&text, "%zu", index);
    }
    return strbuf_take(&text);
}

char *task_container_name(const struct attempt_spec *spec)
{
    char *name = NULL;

    if (asprintf(&name, "meadow-%s-%s-%d-%s", spec->job_name, spec->component, spec->index,
                 spec->id) < 0)
        return NULL;
    return name;
}

static bool is_peers(const char *key)
{
    size_t len = strlen(key);
    return strncmp(key, "MEADOW_", 7) == 0 && len > 13 && strcmp(key + len - 6, "_ADDRS") == 0;
}

static size_t peers_bytes(const struct attempt_spec *spec)
{
    size_t sum = 0;
    for (size_t i = 0; i < spec->n_env; i++)
        if (is_peers(spec->env[i].key))
            sum += strlen(spec->env[i].value);
    return sum;
}

// Moves the addresses out of the environment into KEY=VALUE lines of the text.
static void take_peers(struct attempt_spec *spec, struct strbuf *text)
{
    size_t kept = 0;

    for (size_t i = 0; i < spec->n_env; i++) {
        struct job_env item = spec->env[i];
        if (!is_peers(item.key)) {
            spec->env[kept++] = item;
            continue;
        }
        strbuf_printf(text, "%s=%s\n", item.key, item.value);
        free(item.key);
        free(item.value);
    }
    spec->n_env = kept;
}

static int move_peers(struct attempt_spec *spec, const struct task_env_node *node, struct err *e)
{
    char path[256];
    cleanup_strbuf struct strbuf text = {0};

    if (peers_bytes(spec) <= PEERS_INLINE_MAX)
        return 0;
    take_peers(spec, &text);
    if (text.failed)
        return -ENOMEM;
    (void)snprintf(path, sizeof(path), "%s/%s", node->out_dir, PEERS_FILE);
    int r = atomic_file_write(path, text.data, text.len, 0644, e);
    if (r < 0)
        return r;
    return env_set(spec, "MEADOW_PEERS_FILE", node->container ? CONTAINER_OUT "/" PEERS_FILE : path,
                   true);
}

static int add_all(struct attempt_spec *spec, const struct task_env_node *node)
{
    cleanup_free char *devices = visible_devices(spec, node);
    cleanup_free char *name = task_container_name(spec);
    const char *data = data_path(spec, node);
    // A variable the user set for a task without cards must not give it some.
    int r = devices && name ? env_set(spec, "CUDA_VISIBLE_DEVICES", devices, true) : -ENOMEM;
    // CUDA would number the fastest card first; so an index is the one that everybody else means.
    if (r == 0)
        r = env_set(spec, "CUDA_DEVICE_ORDER", "PCI_BUS_ID", true);

    if (r == 0)
        r = env_set(spec, "CONTAINER_NAME", name, true);
    if (r == 0 && data)
        r = env_set(spec, "MEADOW_DATA", data, true);
    if (r == 0 && spec->n_secrets)
        r = env_set(spec, "MEADOW_SECRETS", node->container ? CONTAINER_SECRETS : node->secrets_dir,
                    true);
    if (r == 0 && !node->container)
        r = env_set(spec, "HOME", node->work_dir, false);
    return r;
}

int task_env_apply(struct attempt_spec *spec, const struct task_env_node *node, struct err *e)
{
    int r = add_all(spec, node);

    if (r == 0)
        r = move_peers(spec, node, e);
    if (r == 0 && node->gpus_simulated)
        spec->n_gpus = 0;
    return r == -ENOMEM ? err_set(e, r, "environment: out of memory") : r;
}
