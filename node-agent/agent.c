// SPDX-License-Identifier: Apache-2.0
// The agent's life: start, the once-per-turn work (reconcile, then send what changed), stop.
// Stopping leaves the tasks alone: meadow-init looks after them, and the next instance adopts them.
#include "node-agent/agent_internal.h"

#include "node-agent/status_api.h"
#include "node-agent/task_env.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/daemon.h"
#include "common/id.h"
#include "common/log.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STARTS_PROCESS 16
#define STARTS_DOCKER 8
#define TRIM_AFTER 200 // changes and removals

static bool is_docker(const struct agent *a)
{
    return strcmp(a->options.config->runtime, "docker") == 0;
}

struct node_facts agent_facts(struct agent *a)
{
    const struct agent_config *c = a->options.config;
    struct node_facts f = {.config = c,
                           .sysroot = a->options.sysroot,
                           .address = c->address ? c->address : a->address,
                           .gpus = gpu_probe_list(a->gpus),
                           .engine = executor_engine(a->executor),
                           .engine_reason = executor_engine_reason(a->executor),
                           .engine_info = executor_engine_info(a->executor)};
    return f;
}

// --- the turn ------------------------------------------------------------------------------------

static void show_status(struct agent *a)
{
    if (!a->options.daemon)
        return;
    if (a->identity->removed)
        daemon_status(a->options.daemon, "removed: %s", a->identity->removed);
    else if (!identity_joined(a->identity))
        daemon_status(a->options.daemon, "not joined: %s", link_reason(a->link));
    else
        daemon_status(a->options.daemon, "node %s, %zu attempts, master %s", a->identity->name,
                      tasks_count(a->tasks), link_online(a->link) ? "answers" : "does not answer");
}

// A burst of work (a whole assignment parsed, hundreds of statuses) leaves the heap large. Once
// everything is told and acknowledged, what it no longer needs goes back to the system, as the
// agent's neighbours want it.
static void give_back_memory(struct agent *a)
{
    int64_t since = tasks_activity(a->tasks) - a->trimmed;
    int64_t enough = tasks_count(a->tasks) ? TRIM_AFTER : TRIM_AFTER / 10;

    if (since < enough || tasks_acked(a->tasks) != tasks_last_change(a->tasks) ||
        executor_starting(a->executor) > 0)
        return;
    a->trimmed += since;
    (void)malloc_trim(0);
}

// Prepare handles run right before the loop waits: everything this turn brought is in the table by
// now.
static void turn_cb(uv_prepare_t *handle)
{
    struct agent *a = handle->data;

    (void)uv_prepare_stop(handle);
    executor_run(a->executor);
    if (a->sync)
        sync_flush(a->sync);
    show_status(a);
    give_back_memory(a);
}

void agent_wake(struct agent *a)
{
    if (!a->stopping)
        (void)uv_prepare_start(&a->turn, turn_cb);
}

static void tasks_woken(void *userdata)
{
    agent_wake(userdata);
}

// --- link ----------------------------------------------------------------------------------------

static bool link_joined(void *userdata)
{
    return identity_joined(((struct agent *)userdata)->identity);
}

static void link_join(void *userdata)
{
    agent_join(userdata);
}

static void link_sync(void *userdata)
{
    struct agent *a = userdata;
    struct err e;

    if (agent_connect(a, &e) < 0) {
        link_event(a->link, LINK_FAILED, e.text);
        return;
    }
    sync_want(a->sync);
    agent_wake(a);
}

static void link_online_cb(bool online, void *userdata)
{
    struct agent *a = userdata;

    log_ship_online(a->logs, online);
    agent_wake(a);
}

static const struct link_ops link_operations = {
    .joined = link_joined, .join = link_join, .sync = link_sync, .online = link_online_cb};

// --- executor's and probes' callbacks ------------------------------------------------------------

static int prepare_spec(struct attempt_spec *spec, void *userdata, struct err *e)
{
    struct agent *a = userdata;
    const struct gpu_list *gpus = gpu_probe_list(a->gpus);
    const char *uuids[GPU_MAX];
    char out[ATTEMPT_PATH_BYTES];
    char work[ATTEMPT_PATH_BYTES];
    char secrets[SECRETS_PATH_BYTES];

    secrets_path(a->secrets_dir, spec->id, secrets);
    for (size_t i = 0; i < gpus->n; i++)
        uuids[i] = gpus->items[i].uuid[0] ? gpus->items[i].uuid : NULL;
    attempt_path(&a->dirs, spec->id, "out", out);
    attempt_path(&a->dirs, spec->id, "work", work);
    struct task_env_node node = {.data_dir = a->options.config->data_dir,
                                 .out_dir = out,
                                 .work_dir = work,
                                 .secrets_dir = secrets,
                                 .container = is_docker(a),
                                 .gpus_simulated = gpus->simulated,
                                 .gpu_uuids = uuids,
                                 .n_gpus = gpus->n};
    return task_env_apply(spec, &node, e);
}

static void logs_open(const char *attempt_id, bool resume, void *userdata)
{
    struct agent *a = userdata;

    if (a->logs) // none any more while stopping
        log_ship_open(a->logs, attempt_id, resume);
}

static void logs_end(const char *attempt_id, void *userdata)
{
    struct agent *a = userdata;

    if (a->logs)
        log_ship_end(a->logs, attempt_id);
}

static void logs_forget(const char *attempt_id, void *userdata)
{
    struct agent *a = userdata;

    if (a->logs)
        log_ship_forget(a->logs, attempt_id);
}

static void node_changed(void *userdata)
{
    struct agent *a = userdata;

    if (a->sync) {
        sync_want_node(a->sync);
        sync_want_inventory(a->sync);
    }
    agent_wake(a);
}

static void images_changed(void *userdata)
{
    struct agent *a = userdata;

    if (a->sync)
        sync_want_images(a->sync);
    agent_wake(a);
}

static void gpus_changed(void *userdata)
{
    struct agent *a = userdata;

    if (a->sync)
        sync_want_node(a->sync);
    agent_wake(a);
}

static void address_found(const char *address, void *userdata)
{
    struct agent *a = userdata;

    (void)snprintf(a->address, sizeof(a->address), "%s", address);
    gpus_changed(a);
}

// --- start ---------------------------------------------------------------------------------------

static int make_folders(struct agent *a, struct err *e)
{
    const struct agent_config *c = a->options.config;
    char path[160];
    int r = make_dirs(c->state_dir, geteuid() == 0 ? 0711 : 0700, e);

    if (r == 0)
        r = make_dirs(c->run_dir, 0755, e);
    if (r == 0)
        r = make_dirs(c->data_dir, 0755, e);
    if (r < 0)
        return r;
    (void)snprintf(a->dirs.state, sizeof(a->dirs.state), "%s", c->state_dir);
    (void)snprintf(a->dirs.run, sizeof(a->dirs.run), "%s", c->run_dir);
    (void)snprintf(a->dirs.boot_id, sizeof(a->dirs.boot_id), "%s", a->system.boot_id);
    (void)snprintf(path, sizeof(path), "%s/lock", c->state_dir);
    r = lock_file(path, &a->lock_fd, e);
    return r == -EWOULDBLOCK ? err_set(e, r, "another agent uses %s", c->state_dir) : r;
}

static int load_identity(struct agent *a, struct err *e)
{
    const struct agent_config *c = a->options.config;
    size_t len;
    int r = identity_load(c->state_dir, &a->identity, e);

    if (r < 0 || (identity_joined(a->identity) && !a->identity->removed))
        return r;
    r = agent_config_token(c, &a->join_token, e);
    if (r < 0 && a->identity->removed) // the file of the token may be gone by now
        return 0;
    if (r == 0 && a->identity->removed && identity_may_return(a->identity, a->join_token)) {
        log_info("agent", "removed before, and a new join token is there: joining as a new node");
        r = identity_forget(TAKE_PTR(a->identity), c->state_dir, e);
        if (r == 0)
            r = identity_load(c->state_dir, &a->identity, e);
    }
    if (r < 0 || identity_joined(a->identity))
        return r;
    if (r == 0 && !a->join_token)
        return err_set(
            e, -EINVAL,
            "this node has not joined a cluster and has no join token: set join_token or "
            "join_token_file (the master's operator gets one by `meadow node join-command`)");
    if (r == 0 && c->master_ca)
        r = atomic_file_read(c->master_ca, 65536, &a->pinned_ca, &len, e);
    return r;
}

static int make_executor(struct agent *a, struct err *e)
{
    const struct agent_config *c = a->options.config;
    unsigned starts = (unsigned)c->max_parallel_starts;
    struct executor_options o = {.loop = a->options.loop,
                                 .tasks = a->tasks,
                                 .dirs = a->dirs,
                                 .instance = a->instance,
                                 .boot_id = a->system.boot_id,
                                 .max_starts = starts         ? starts
                                               : is_docker(a) ? STARTS_DOCKER
                                                              : STARTS_PROCESS,
                                 .policy = &a->policy,
                                 .secrets_dir = a->secrets_dir,
                                 .log_limit = c->log_limit,
                                 .prepare = prepare_spec,
                                 .logs_open = logs_open,
                                 .logs_end = logs_end,
                                 .logs_forget = logs_forget,
                                 .node_changed = node_changed,
                                 .images_changed = images_changed,
                                 .userdata = a};

    agent_config_policy(c, &a->policy);
    struct err why;
    if (secrets_folder(c->run_dir, c->state_dir, a->secrets_dir, &why) < 0) {
        a->secrets_dir[0] = '\0';
        log_warn("secrets", "%s; jobs with `secrets:` go to other nodes", why.text);
    }
    if (executor_new(&o, &a->executor) < 0)
        return err_set(e, -ENOMEM, "out of memory");
    return executor_load(a->executor, e);
}

static int make_gpus(struct agent *a, struct err *e)
{
    const char *override = getenv("MEADOW_NVML_PATH");
    struct gpu_probe_options o = {.loop = a->options.loop,
                                  .nvml_library =
                                      override ? override : a->options.config->nvml_path,
                                  .sysroot = a->options.sysroot,
                                  .configured = a->options.config->gpu,
                                  .changed = gpus_changed,
                                  .userdata = a};
    return gpu_probe_new(&o, &a->gpus, e);
}

static int make_parts(struct agent *a, struct err *e)
{
    struct link_options lo = {.loop = a->options.loop, .ops = &link_operations, .userdata = a};
    int r = tasks_new(tasks_woken, a, &a->tasks);

    if (r == 0)
        r = link_new(&lo, &a->link);
    if (r < 0)
        return err_set(e, r, "out of memory");
    r = make_gpus(a, e);
    if (r == 0)
        r = agent_start_logs(a, e);
    if (r == 0)
        r = make_executor(a, e);
    if (r == 0 && identity_joined(a->identity))
        r = agent_connect(a, e);
    return r;
}

// Serving who stands at this machine is not worth failing for.
static void start_extras(struct agent *a)
{
    struct err e;

    if (status_api_start(a, &a->api, &e) < 0)
        log_warn("api", "no local status API: %s", e.text);
    if (!a->options.config->address &&
        address_find(a->options.loop, a->options.config->master_url, address_found, a, &e) < 0)
        log_warn("agent", "address: %s", e.text);
}

int agent_start(const struct agent_options *options, struct agent **ret, struct err *e)
{
    struct agent *a = calloc(1, sizeof(*a));

    if (!a)
        return err_set(e, -ENOMEM, "out of memory");
    a->options = *options;
    a->lock_fd = -1;
    (void)uv_prepare_init(options->loop, &a->turn);
    a->turn.data = a;
    hardware_system(options->sysroot, &a->system);
    a->instance[0] = 'i';
    int r = id_random(a->instance + 1, INSTANCE_BYTES - 2);
    if (r < 0)
        r = err_set(e, r, "no random bytes");
    if (r == 0)
        r = make_folders(a, e);
    if (r == 0)
        r = load_identity(a, e);
    if (r == 0)
        r = make_parts(a, e);
    *ret = a; // also on failure: agent_stop and agent_free take down what there is
    if (r < 0)
        return r;
    start_extras(a);
    if (a->identity->removed)
        agent_removed(a, a->identity->removed);
    else
        link_event(a->link, LINK_START, NULL);
    return 0;
}

// --- stop ----------------------------------------------------------------------------------------

static void executor_closed(void *userdata)
{
    ((struct agent *)userdata)->executor = NULL;
}

static void runtime_closed(void *userdata)
{
    struct agent *a = userdata;
    executor_close(a->executor, executor_closed, a);
}

static void close_towards_master(struct agent *a)
{
    if (a->link)
        link_close(a->link);
    join_close(a->join);
    sync_free(a->sync);
    a->sync = NULL;
    if (a->client)
        http_client_close(a->client, NULL, NULL);
    renew_close(TAKE_PTR(a->renew));
    if (a->log_client)
        http_client_close(TAKE_PTR(a->log_client), NULL, NULL);
}

void agent_stop(struct agent *a)
{
    if (a->stopping)
        return;
    a->stopping = true;
    log_info("agent", "stopping; %zu attempts stay as they are",
             a->tasks ? tasks_count(a->tasks) : 0);
    uv_close((uv_handle_t *)&a->turn, NULL);
    close_towards_master(a);
    if (a->logs)
        log_ship_close(TAKE_PTR(a->logs), NULL, NULL);
    gpu_probe_close(a->gpus);
    status_api_stop(a->api);
    if (a->runtime)
        a->runtime->ops->close(a->runtime, runtime_closed, a);
    else if (a->executor)
        executor_close(a->executor, executor_closed, a);
}

void agent_free(struct agent *a)
{
    if (!a)
        return;
    tasks_free(a->tasks);
    identity_free(a->identity);
    free(a->join_token);
    free(a->pinned_ca);
    if (a->secrets_dir[0])
        (void)rmdir(a->secrets_dir); // stays while an attempt has some
    if (a->lock_fd >= 0)
        (void)close(a->lock_fd);
    free(a);
}
