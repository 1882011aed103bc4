// SPDX-License-Identifier: Apache-2.0
// The agent's side towards the master: joining, then the two HTTP clients, the sync and the
// runtime, which needs the node's and the cluster's id. Callbacks translate and delegate.
#include "node-agent/agent_internal.h"

#include "node-agent/post.h"
#include "node-agent/runtime/transient.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "common/pki.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_TIMEOUT_MS 5000
#define LOG_TIMEOUT_MS 30000

// --- removed
// --------------------------------------------------------------------------------------

// An empty set is what this node should hold from now on.
static void drop_all(struct agent *a)
{
    struct sync_position nowhere = {0}; // no sync: not joined any more (its certificate is damaged)
    struct sync_position *at = a->sync ? sync_applied_mut(a->sync) : &nowhere;
    struct sync_answer nothing = {.has_assignment = true, .assignment_full = true, .position = *at};
    bool applied;

    if (assignment_apply(a->tasks, &nothing, a->instance, at, &applied) < 0)
        log_error("agent", "out of memory: what runs ends with its lease");
    agent_wake(a);
}

void agent_removed(struct agent *a, const char *why)
{
    struct err e;

    log_error("agent", "%s", why);
    log_info("agent", "the work here is stopped; this agent stays away from the cluster until its "
                      "configuration has another join token");
    if (!a->identity->removed) {
        if (!a->join_token && agent_config_token(a->options.config, &a->join_token, &e) < 0)
            log_debug("agent", "%s", e.text); // the file of the token may be gone by now
        if (identity_set_removed(a->identity, a->options.config->state_dir, why, a->join_token,
                                 &e) < 0)
            log_error("agent", "%s", e.text);
    }
    drop_all(a);
    link_event(a->link, LINK_GONE, why);
}

// --- joining -------------------------------------------------------------------------------------

static void join_done(const struct identity *joined, bool permanent, const struct err *why,
                      void *userdata)
{
    struct agent *a = userdata;
    struct err e;
    int r = 0;

    if (joined)
        r = identity_store(a->identity, a->options.config->state_dir, joined, &e);
    else
        e = *why;
    join_close(TAKE_PTR(a->join));
    if (!joined || r < 0) {
        link_event(a->link, permanent ? LINK_REFUSED : LINK_FAILED, e.text);
        return;
    }
    log_info("join", "joined cluster %s as node %s (%s)", a->identity->cluster_name,
             a->identity->name, a->identity->node_id);
    r = agent_connect(a, &e);
    link_event(a->link, r < 0 ? LINK_FAILED : LINK_JOINED, r < 0 ? e.text : NULL);
}

void agent_join(struct agent *a)
{
    struct err e;
    struct join_options o = {.loop = a->options.loop,
                             .master_url = a->options.config->master_url,
                             .ca_pem = a->pinned_ca,
                             .token = a->join_token,
                             .name = a->options.config->name,
                             .machine_id = a->system.machine_id,
                             .key_pem = a->identity->key_pem,
                             .done = join_done,
                             .userdata = a};
    int r = join_start(&o, &a->join, &e);

    if (r < 0)
        link_event(a->link, r == -EACCES || r == -EINVAL ? LINK_REFUSED : LINK_FAILED, e.text);
}

// --- logs ----------------------------------------------------------------------------------------

static void log_sent(const struct http_result *result, void *userdata)
{
    struct log_stream_ship *call = userdata;
    cleanup_json json_t *body = NULL;
    int64_t next = -1;
    int error = result->error;

    if (error == 0 && result->status == 200) {
        if (json_parse(result->body, result->len, &body, NULL) < 0 ||
            json_get_i64(body, "next", &next, NULL) < 0 || next < 0)
            error = -EPROTO;
    }
    log_ship_sent(call, error, result->status, next < 0 ? 0 : (uint64_t)next);
}

static int log_send(const struct log_post *post, struct log_stream_ship *call, void *userdata)
{
    static const char *const headers[] = {"Content-Type: application/octet-stream", NULL};
    struct agent *a = userdata;
    char path[160];
    struct err e;

    if (!a->log_client)
        return -ENOTCONN;
    (void)snprintf(path, sizeof(path), "/v1/agent/logs/%s?stream=%s&offset=%" PRIu64,
                   post->attempt_id, log_stream_to_string(post->stream), post->offset);
    struct http_call_options o = {.method = "POST",
                                  .path = path,
                                  .headers = headers,
                                  .body = post->body ? post->body : "",
                                  .body_len = post->len,
                                  .body_fd = -1,
                                  .timeout_ms = LOG_TIMEOUT_MS,
                                  .done = log_sent,
                                  .userdata = call};
    int r = http_call_start(a->log_client, &o, NULL, &e);
    if (r < 0)
        log_debug("logs", "%s", e.text);
    return r;
}

static void log_settled(const char *attempt_id, enum logs_state state, void *userdata)
{
    struct agent *a = userdata;
    struct task *task = tasks_find(a->tasks, attempt_id);

    if (!task || task->status.logs == state)
        return;
    task->status.logs = state;
    tasks_changed(a->tasks, task);
}

int agent_start_logs(struct agent *a, struct err *e)
{
    struct log_ship_options o = {.loop = a->options.loop,
                                 .dirs = a->dirs,
                                 .send = log_send,
                                 .settled = log_settled,
                                 .userdata = a};
    return log_ship_new(&o, &a->logs, e);
}

// --- sync ----------------------------------------------------------------------------------------

static json_t *sync_node(void *userdata)
{
    struct node_facts facts = agent_facts(userdata);
    return node_report(&facts);
}

static json_t *sync_usage(void *userdata)
{
    struct agent *a = userdata;
    struct node_facts facts = agent_facts(a);

    gpu_probe_refresh(a->gpus);
    return node_usage(&facts, &a->last_cpu, a->runtime->ops->usage(a->runtime));
}

static json_t *sync_images(void *userdata)
{
    return executor_images(((struct agent *)userdata)->executor);
}

static bool sync_complete(void *userdata)
{
    return executor_listed(((struct agent *)userdata)->executor);
}

#define SKEW_WARN_MS 5000

static void look_at_clock(struct agent *a, int64_t master_ms)
{
    int64_t step = clock_step_ms(), skew = clock_real_ms() - master_ms;
    if (step && skew + step > -CLOCK_STEP_MS && skew + step < CLOCK_STEP_MS) {
        clock_believe(); // somebody set this machine's clock right
        skew += step;
    }
    bool off = skew > SKEW_WARN_MS || skew < -SKEW_WARN_MS;

    if (off && !a->clock_off)
        log_warn("clock", "this machine's clock is %lld s %s the master's: see that both keep time",
                 (long long)((skew < 0 ? -skew : skew) / 1000), skew < 0 ? "behind" : "ahead of");
    a->clock_off = off;
}

// The master has other CAs than we know: the renewal brings them.
static void look_at_bundle(struct agent *a, const char *sha256)
{
    struct err e;

    if (!a->ca_sha256[0] && pki_cert_fingerprint(a->identity->ca_pem, a->ca_sha256, &e) < 0)
        log_warn("sync", "%s", e.text);
    if (sha256[0] && strcmp(sha256, a->ca_sha256) != 0)
        renew_now(a->renew);
}

static void sync_answered(struct sync_answer *answer, int64_t sent_boot_ms, void *userdata)
{
    struct agent *a = userdata;
    struct err e;
    bool applied = false;

    if (answer->has_assignment &&
        assignment_apply(a->tasks, answer, a->instance, sync_applied_mut(a->sync), &applied) < 0)
        log_error("sync", "out of memory: the assignment waits for the next answer");
    // An assignment that could not be taken in may say that something was given away.
    if (applied || !answer->has_assignment)
        executor_lease(a->executor, answer, sent_boot_ms);
    if (!a->instances.answered &&
        instances_answered(a->options.config->state_dir, &a->instances, &e) < 0)
        log_warn("sync", "%s", e.text);
    look_at_clock(a, answer->time_ms);
    look_at_bundle(a, answer->ca_sha256);
    agent_wake(a);
}

static void sync_ended(int result, const char *why, void *userdata)
{
    struct agent *a = userdata;

    if (result == -ESHUTDOWN) {
        agent_removed(a, why);
        return;
    }
    if (result == -EKEYEXPIRED)
        renew_now(a->renew);
    // A refusal is tried again like any failure: after a crash of ours the master may need a moment
    // to see that the instance before is gone.
    link_event(a->link, result == 0 ? LINK_ANSWERED : LINK_FAILED, why);
}

static int make_client(struct agent *a, unsigned connections, struct http_client **ret,
                       struct err *e)
{
    struct http_client_options o = {.loop = a->options.loop,
                                    .base_url = a->options.config->master_url,
                                    .ca_pem = a->identity->ca_pem,
                                    .cert_pem = a->identity->cert_pem,
                                    .key_pem = a->identity->key_pem,
                                    .connect_timeout_ms = CONNECT_TIMEOUT_MS,
                                    .max_connections = connections};
    return http_client_new(&o, ret, e);
}

static int make_sync(struct agent *a, struct err *e)
{
    struct sync_options o = {.tasks = a->tasks,
                             .client = a->client,
                             .instance = a->instance,
                             .boot_id = a->system.boot_id,
                             .state_dir = a->options.config->state_dir,
                             .cluster_id = a->identity->cluster_id,
                             .node = sync_node,
                             .usage = sync_usage,
                             .images = sync_images,
                             .inventory_complete = sync_complete,
                             .answered = sync_answered,
                             .instances = &a->instances,
                             .ended = sync_ended,
                             .userdata = a};
    int r =
        a->began ? 0 : instances_begin(a->options.config->state_dir, a->instance, &a->instances, e);
    if (r < 0)
        return r;
    a->began = true;
    return sync_new(&o, &a->sync) < 0 ? err_set(e, -ENOMEM, "out of memory") : 0;
}

// Syncs, reports and logs go on with the connections that they have; new ones use the new
// certificate.
static void on_renewed(void *userdata)
{
    struct agent *a = userdata;
    struct err e;

    a->ca_sha256[0] = '\0';
    if (http_client_set_certs(a->client, a->identity->ca_pem, a->identity->cert_pem, &e) < 0 ||
        http_client_set_certs(a->log_client, a->identity->ca_pem, a->identity->cert_pem, &e) < 0)
        log_error("renew", "%s", e.text);
}

static int make_renew(struct agent *a, struct err *e)
{
    struct renew_options o = {.loop = a->options.loop,
                              .state_dir = a->options.config->state_dir,
                              .identity = a->identity,
                              .client = a->client,
                              .renewed = on_renewed,
                              .userdata = a};
    return renew_new(&o, &a->renew, e);
}

static const char *gpu_uuid(int index, void *userdata)
{
    const struct gpu_list *gpus = gpu_probe_list(((struct agent *)userdata)->gpus);
    if (gpus->simulated || index < 0 || (size_t)index >= gpus->n || !gpus->items[index].uuid[0])
        return NULL;
    return gpus->items[index].uuid;
}

static int make_runtime(struct agent *a, struct err *e)
{
    const struct agent_config *c = a->options.config;
    struct runtime_options o = {
        .loop = a->options.loop,
        .events = executor_runtime_events(),
        .userdata = a->executor,
        .dirs = a->dirs,
        .cluster_id = a->identity->cluster_id,
        .node_id = a->identity->node_id,
        .node_name = a->identity->name,
        .init_path = a->options.init_path,
        .data_dir = c->data_dir,
        .docker_socket = c->docker_socket,
        .image_gc = {c->image_gc_high, c->image_gc_low, c->image_gc_max, c->image_gc_min_age_ms},
        .cgroup_parent = c->cgroup_parent ? c->cgroup_parent : "",
        .policy = &a->policy,
        .boot_id = a->system.boot_id,
        .units = transient_wanted(),
        .secrets_dir = a->secrets_dir,
        .total_cpu_milli = node_total_cpu_milli(a->options.sysroot),
        .node_address = c->address ? c->address : a->address,
        .gpu_uuid = gpu_uuid,
        .gpu_userdata = a};
    int r = strcmp(c->runtime, "docker") == 0 ? runtime_docker_new(&o, &a->runtime, e)
                                              : runtime_process_new(&o, &a->runtime, e);
    if (r == 0)
        executor_set_runtime(a->executor, a->runtime);
    return r;
}

int agent_connect(struct agent *a, struct err *e)
{
    int r = 0;

    if (!a->client)
        r = make_client(a, 4, &a->client, e);
    if (r == 0 && !a->log_client)
        r = make_client(a, LOG_POSTS_MAX, &a->log_client, e);
    if (r == 0 && !a->sync)
        r = make_sync(a, e);
    if (r == 0 && !a->renew && !a->identity->removed)
        r = make_renew(a, e);
    if (r == 0 && !a->runtime)
        r = make_runtime(a, e);
    return r;
}
