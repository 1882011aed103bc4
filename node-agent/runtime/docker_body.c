// SPDX-License-Identifier: Apache-2.0
// The container of an attempt: meadow-init as entrypoint from a read-only mount, two folders of the
// attempt, limits, cards, network. Mounts and not Binds, as an engine makes a missing folder of a
// bind silently and refuses one of a mount.
#include "node-agent/runtime/docker_api.h"

#include "common/cleanup.h"
#include "common/json.h"
#include "node-agent/runtime/proc_scan.h"
#include "node-agent/secrets.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

#define RUN_INIT "/run/meadow/init"
#define RUN_OUT "/run/meadow/out"
#define RUN_SECRETS "/run/secrets"
#define RUN_LEASE "/run/meadow/lease"
#define CPU_PERIOD_US 100000
#define CPU_QUOTA_MIN_US 1000 // the kernel takes no less
#define PIDS_LIMIT 4096       // when no policy names one
#define ECHO_BYTES 262144     // of each stream, for `docker logs`

static void append_text(json_t *list, const char *text)
{
    (void)json_array_append_new(list, json_string(text));
}

static void append_option(json_t *list, const char *name, int64_t value)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%" PRId64, value);
    append_text(list, name);
    append_text(list, text);
}

static void append_health(json_t *list, const struct job_health *h)
{
    for (char *const *p = h->command; p && *p; p++) {
        append_text(list, "--health-arg");
        append_text(list, *p);
    }
    if (h->path) {
        append_option(list, "--health-port", h->port);
        append_text(list, "--health-path");
        append_text(list, h->path);
    }
    append_option(list, "--health-interval", h->interval_ms);
    append_option(list, "--health-timeout", h->timeout_ms);
    append_option(list, "--health-start-period", h->start_period_ms);
    append_option(list, "--health-retries", h->retries);
}

static json_t *entrypoint(const struct runtime_options *o, const struct attempt_spec *spec)
{
    json_t *list = json_pack("[s, s, s, s, s]", RUN_INIT, "--out", RUN_OUT, "--attempt", spec->id);
    if (spec->lease_ms > 0) {
        append_text(list, "--lease");
        append_text(list, RUN_LEASE);
    }
    if (o->boot_id) {
        append_text(list, "--boot-id");
        append_text(list, o->boot_id);
    }
    if (spec->stop_signal > 0)
        append_option(list, "--stop-signal", spec->stop_signal);
    append_option(list, "--grace", spec->grace_ms);
    append_option(list, "--timeout", spec->timeout_ms);
    append_option(list, "--log-limit", spec->log_limit);
    append_option(list, "--echo", ECHO_BYTES);
    if (spec->health)
        append_health(list, spec->health);
    append_text(list, "--");
    return list;
}

static json_t *command(const struct attempt_spec *spec)
{
    json_t *list = json_array();
    for (size_t i = 0; spec->command && spec->command[i]; i++)
        append_text(list, spec->command[i]);
    return list;
}

static json_t *environment(const struct attempt_spec *spec)
{
    json_t *list = json_array();
    for (size_t i = 0; i < spec->n_env; i++)
        (void)json_array_append_new(list,
                                    json_sprintf("%s=%s", spec->env[i].key, spec->env[i].value));
    (void)json_array_append_new(list, json_sprintf(ATTEMPT_ENV "=%s", spec->id));
    return list;
}

static json_t *labels(const struct runtime_options *o, const struct attempt_spec *spec)
{
    json_t *l = json_object();
    json_put(l, DOCKER_LABEL "cluster", json_string(o->cluster_id));
    json_put(l, DOCKER_LABEL "node", json_string(o->node_id));
    json_put(l, DOCKER_LABEL "job", json_string(spec->job));
    json_put(l, DOCKER_LABEL "component", json_string(spec->component));
    json_put(l, DOCKER_LABEL "index", json_sprintf("%d", spec->index));
    json_put(l, DOCKER_LABEL "attempt", json_string(spec->id));
    json_put(l, DOCKER_LABEL "number", json_sprintf("%d", spec->attempt));
    return l;
}

static json_t *mount(const char *source, const char *target, bool read_only)
{
    return json_pack("{s:s, s:s, s:s, s:b}", "Type", "bind", "Source", source, "Target", target,
                     "ReadOnly", (int)read_only);
}

static void add_secrets(const struct runtime_options *o, const struct attempt_spec *spec,
                        json_t *list)
{
    char folder[SECRETS_PATH_BYTES], path[SECRETS_PATH_BYTES + 80];
    if (spec->n_secrets == 0 || !o->secrets_dir)
        return;
    secrets_path(o->secrets_dir, spec->id, folder);
    (void)json_array_append_new(list, mount(folder, RUN_SECRETS, true));
    for (size_t i = 0; i < spec->n_secrets; i++) {
        if (!spec->secrets[i].path)
            continue;
        (void)snprintf(path, sizeof(path), "%s/%.63s", folder, spec->secrets[i].name);
        (void)json_array_append_new(list, mount(path, spec->secrets[i].path, true));
    }
}

static json_t *mounts(const struct runtime_options *o, const struct attempt_spec *spec)
{
    char path[ATTEMPT_PATH_BYTES];
    json_t *list = json_array();
    (void)json_array_append_new(list, mount(o->init_path, RUN_INIT, true));
    attempt_path(&o->dirs, spec->id, "out", path);
    (void)json_array_append_new(list, mount(path, RUN_OUT, false));
    attempt_run_path(&o->dirs, spec->id, "", path);
    (void)json_array_append_new(list, mount(path, RUN_LEASE, true));
    add_secrets(o, spec, list);
    for (size_t i = 0; i < spec->n_mounts; i++) {
        const struct job_mount *m = &spec->mounts[i];
        (void)json_array_append_new(
            list, mount(m->source ? m->source : o->data_dir, m->target, m->read_only));
    }
    return list;
}

static void put_limits(const struct attempt_spec *spec, json_t *host)
{
    if (spec->resources.memory > 0) {
        json_put_i64(host, "Memory", spec->resources.memory);
        json_put_i64(host, "MemorySwap", spec->resources.memory); // no swap on top
    }
    if (spec->resources.cpu_milli > 0) {
        int64_t quota = spec->resources.cpu_milli * CPU_PERIOD_US / 1000;
        // Not NanoCpus: engines refuse more of them than the machine has, and a simulated node may
        // have more.
        json_put_i64(host, "CpuPeriod", CPU_PERIOD_US);
        json_put_i64(host, "CpuQuota", quota < CPU_QUOTA_MIN_US ? CPU_QUOTA_MIN_US : quota);
    }
}

static void put_cards(const struct runtime_options *o, const struct attempt_spec *spec,
                      json_t *host)
{
    json_t *ids = json_array();
    for (size_t i = 0; o->gpu_uuid && i < spec->n_gpus; i++) {
        const char *uuid = o->gpu_uuid(spec->gpus[i], o->gpu_userdata);
        if (uuid)
            append_text(ids, uuid);
    }
    if (json_array_size(ids) > 0)
        json_put(host, "DeviceRequests",
                 json_pack("[{s:s, s:O, s:[[s]]}]", "Driver", "nvidia", "DeviceIDs", ids,
                           "Capabilities", "gpu"));
    json_decref(ids);
}

static void put_host_network(const struct runtime_options *o, json_t *body, json_t *host)
{
    json_put_str(host, "NetworkMode", "host");
    // Distributions let the machine's name resolve to loopback, where no peer on another node is.
    if (!o->node_address || !*o->node_address || !o->node_name ||
        strlen(o->node_name) > HOST_NAME_MAX)
        return;
    json_put_str(body, "Hostname", o->node_name);
    json_put(host, "ExtraHosts",
             json_pack("[o]", json_sprintf("%s:%s", o->node_name, o->node_address)));
}

static void put_bridge_network(const struct attempt_spec *spec, json_t *body, json_t *host)
{
    json_t *exposed = json_object(), *bindings = json_object();
    for (size_t i = 0; i < spec->n_ports; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "%u/tcp", spec->ports[i]);
        json_put(exposed, key, json_object());
        json_put(bindings, key,
                 json_pack("[{s:o}]", "HostPort", json_sprintf("%u", spec->ports[i])));
    }
    json_put_str(host, "NetworkMode", "bridge");
    json_put(body, "ExposedPorts", exposed);
    json_put(host, "PortBindings", bindings);
}

// The default seccomp profile and the masked paths are the engine's own, as nothing is said of
// them.
static void put_rights(const struct runtime_options *o, const struct attempt_spec *spec,
                       json_t *body, json_t *host)
{
    json_t *kept = json_array();
    for (char *const *p = o->policy ? o->policy->capabilities : NULL; p && *p; p++)
        append_text(kept, *p);
    if (spec->uid >= 0)
        json_put(body, "User", json_sprintf("%" PRId64 ":%" PRId64, spec->uid, spec->gid));
    json_put(host, "CapDrop", json_pack("[s]", "ALL"));
    json_put(host, "CapAdd", kept);
    json_put(host, "SecurityOpt", json_pack("[s]", "no-new-privileges"));
    json_put_bool(host, "Privileged", false);
    json_put_i64(host, "PidsLimit", o->policy ? o->policy->pids_limit : PIDS_LIMIT);
}

static json_t *host_config(const struct runtime_options *o, const struct attempt_spec *spec,
                           json_t *body)
{
    json_t *host = json_pack("{s:{s:s}, s:{s:s, s:{s:s, s:s}}, s:b}", "RestartPolicy", "Name", "no",
                             "LogConfig", "Type", "json-file", "Config", "max-size", "1m",
                             "max-file", "1", "Init", 0);
    put_rights(o, spec, body, host);
    json_put(host, "Mounts", mounts(o, spec));
    if (o->cgroup_parent && *o->cgroup_parent)
        json_put_str(host, "CgroupParent", o->cgroup_parent);
    put_limits(spec, host);
    put_cards(o, spec, host);
    if (spec->network == NETWORK_HOST)
        put_host_network(o, body, host);
    else if (spec->network == NETWORK_BRIDGE)
        put_bridge_network(spec, body, host);
    else
        json_put_str(host, "NetworkMode", "none");
    return host;
}

json_t *docker_create_body(const struct runtime_options *o, const struct attempt_spec *spec)
{
    json_t *body = json_object();
    if (!body)
        return NULL;
    json_put_str(body, "Image", spec->image);
    json_put(body, "Entrypoint", entrypoint(o, spec));
    json_put(body, "Cmd", command(spec));
    json_put(body, "Env", environment(spec));
    json_put(body, "Labels", labels(o, spec));
    // An engine that stops a container by itself (a person, its own end) asks init, which keeps the
    // task's grace.
    json_put_str(body, "StopSignal", "SIGTERM");
    json_put_i64(body, "StopTimeout", spec->grace_ms / 1000 + 2);
    json_put(body, "HostConfig", host_config(o, spec, body));
    return body;
}

json_t *docker_image_command(const json_t *image)
{
    const json_t *config = json_object_get(image, "Config");
    json_t *all = json_array();
    (void)json_array_extend(all, json_object_get(config, "Entrypoint"));
    (void)json_array_extend(all, json_object_get(config, "Cmd"));
    if (json_array_size(all) > 0)
        return all;
    json_decref(all);
    return NULL;
}

void docker_set_command(json_t *body, const json_t *list)
{
    json_put(body, "Cmd", json_deep_copy(list));
}
