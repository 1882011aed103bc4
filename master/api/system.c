// SPDX-License-Identifier: Apache-2.0
// Health, readiness, version, the CA, and the cluster at a glance.
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/renewal.h"
#include "common/units.h"
#include "master/api/handlers.h"
#include "master/server_cert.h"
#include "proto/version.h"

#include <stdlib.h>
#include <string.h>

#define WAIT_MAX_MS 120000
#define WAIT_NODES_MAX 1000000

void system_health(struct call *call)
{
    http_respond(call->req, 200, "text/plain", "ok\n", 3);
}

void system_ready(struct call *call)
{
    const char *reason = "";
    json_t *j = json_object();
    bool ok = store_ok(call->api->store, &reason);
    json_put_bool(j, "ready", ok);
    json_put_str(j, "reason", ok ? NULL : reason);
    api_reply_now(call, ok ? 200 : 503, j);
}

void system_version(struct call *call)
{
    json_t *j = json_object();
    json_put_str(j, "version", MEADOW_VERSION);
    json_put_i64(j, "protocol", MEADOW_PROTOCOL);
    api_reply_now(call, 200, j);
}

void system_ca(struct call *call)
{
    const char *pem = server_cert_bundle(call->api->settings.server_cert);
    http_respond(call->req, 200, "application/x-pem-file", pem, strlen(pem));
}

static void add(struct resources *sum, const struct resources *r)
{
    sum->cpu_milli += r->cpu_milli;
    sum->memory += r->memory;
    sum->gpu += r->gpu;
}

static json_t *resources_json(const struct resources *r)
{
    json_t *j = json_object();
    json_put_i64(j, "cpu", r->cpu_milli);
    json_put_i64(j, "memory", r->memory);
    json_put_i64(j, "gpu", r->gpu);
    return j;
}

static void warn(json_t *warnings, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void warn(json_t *warnings, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    if (vsnprintf(text, sizeof(text), fmt, ap) >= 0)
        (void)json_array_append_new(warnings, json_string(text));
    va_end(ap);
}

#define SKEW_WARN_MS 5000

static void warn_identity(const struct node *n, json_t *warnings)
{
    const struct node_identity *i = &n->identity;
    int64_t now = clock_real_ms();
    if (n->state == NODE_PENDING)
        warn(warnings, "node %s waits for approval: `meadow node approve %s`", n->name, n->name);
    if (i->skew_known && (i->skew_ms > SKEW_WARN_MS || i->skew_ms < -SKEW_WARN_MS))
        warn(warnings, "the clock of node %s is %lld s %s: see that both machines keep time (NTP)",
             n->name, (long long)((i->skew_ms < 0 ? -i->skew_ms : i->skew_ms) / 1000),
             i->skew_ms < 0 ? "behind" : "ahead");
    if (i->cert_until_ms && now > i->cert_until_ms)
        warn(warnings,
             "the certificate of node %s is over: its agent renews it when it can reach "
             "this master",
             n->name);
    else if (i->cert_until_ms && i->cert_since_ms &&
             i->cert_until_ms - now < (i->cert_until_ms - i->cert_since_ms) / 6)
        warn(warnings,
             "the certificate of node %s is over in %lld days and was not renewed in "
             "time: see its agent's log",
             n->name, (long long)renewal_days_left(now, i->cert_until_ms));
}

#define NODE_WARNINGS_MAX 100 // of nodes; when all are away there is one word for the rest

static void warn_node(struct cluster *c, const struct node *n, json_t *warnings)
{
    if (n->state == NODE_NOT_READY || n->state == NODE_UNREACHABLE)
        warn(warnings, "node %s is %s: %s", n->name, node_state_to_string(n->state), n->reason);
    else if (n->disk_percent >= cluster_settings(c)->disk_warn_percent)
        warn(warnings, "node %s: its disk is %d %% full", n->name, n->disk_percent);
    if (n->orphans > 0 && n->state == NODE_READY)
        warn(warnings,
             "node %s runs %d task%s of jobs that this master does not know: `meadow node show "
             "%s`",
             n->name, n->orphans, n->orphans == 1 ? "" : "s", n->name);
    if (n->draining) {
        char text[REASON_BYTES];
        node_drain_text(n, text, sizeof(text));
        warn(warnings, "node %s is %s", n->name, text);
    }
    warn_identity(n, warnings);
}

static void put_nodes(struct cluster *c, json_t *j, json_t *warnings)
{
    struct resources total = {0}, used = {0};
    json_t *nodes = json_object();
    unsigned more = 0;
    for (const struct node *n = cluster_nodes(c); n; n = n->hh.next) {
        if (n->state == NODE_READY || n->state == NODE_NOT_READY)
            add(&total, &n->total);
        add(&used, &n->reserved);
        if (json_array_size(warnings) < NODE_WARNINGS_MAX)
            warn_node(c, n, warnings);
        else
            more += n->state != NODE_READY || n->draining;
    }
    if (more)
        warn(warnings, "and %u nodes more are not ready, or drained: `meadow node list`", more);
    json_put_i64(nodes, "total", cluster_node_count(c));
    for (int s = 0; s < NODE_STATE_MAX; s++)
        json_put_i64(nodes, node_state_to_string((enum node_state)s),
                     cluster_node_count_in(c, (enum node_state)s));
    json_put(j, "nodes", nodes);
    struct resources free_now = {total.cpu_milli - used.cpu_milli, total.memory - used.memory,
                                 total.gpu - used.gpu};
    json_t *r = json_object();
    json_put(r, "total", resources_json(&total));
    json_put(r, "free", resources_json(&free_now));
    json_put(r, "used", resources_json(&used));
    json_put(j, "resources", r);
}

static void put_room(const struct api *a, json_t *warnings)
{
    const char *whose;
    int used = api_disk_percent(a, &whose);
    const struct cluster_options *o = cluster_settings(a->cluster);
    if (used >= o->disk_full_percent)
        warn(warnings, "the disk of the %s is %d %% full: no new jobs are taken", whose, used);
    else if (used >= o->disk_warn_percent)
        warn(warnings, "the disk of the %s is %d %% full", whose, used);
}

static void put_clock(json_t *warnings)
{
    int64_t step = clock_step_ms();
    if (step)
        warn(warnings,
             "the clock of the master was set %lld s %s while it ran: it goes on by the time of "
             "before until most nodes' clocks agree with it, or until it is started again",
             (long long)((step < 0 ? -step : step) / 1000), step < 0 ? "back" : "forward");
}

static json_t *cluster_json(struct call *call)
{
    struct cluster *c = call->api->cluster;
    const char *reason = "";
    json_t *j = json_object();
    json_t *warnings = json_array();
    json_put_str(j, "id", cluster_id(c));
    json_put_str(j, "name", cluster_name(c));
    json_put_str(j, "version", MEADOW_VERSION);
    json_put_str(j, "api", call->api->settings.url);
    json_put_time(j, "started_at", call->api->settings.started_ms);
    put_nodes(c, j, warnings);
    json_t *jobs = json_object();
    for (int s = 0; s < JOB_STATE_MAX; s++)
        json_put_i64(jobs, job_state_to_string((enum job_state)s),
                     cluster_job_count_in(c, (enum job_state)s));
    json_put(j, "jobs", jobs);
    put_room(call->api, warnings);
    put_clock(warnings);
    if (cluster_moves_held(c)[0])
        warn(warnings, "%s", cluster_moves_held(c));
    if (call->api->settings.server_cert)
        json_put(j, "certificates", server_cert_view(call->api->settings.server_cert, warnings));
    if (!store_ok(call->api->store, &reason))
        warn(warnings, "the store is not available: %s", reason);
    if (cluster_settle_ms(c))
        warn(warnings,
             "the store was put back to an earlier state (see `meadow events`), or restored from a "
             "backup: nothing is placed for the next %lld s, and until each node "
             "has told what it holds",
             (long long)(cluster_settle_ms(c) / 1000));
    json_put(j, "warnings", warnings);
    return j;
}

struct nodes_wait {
    long nodes;
};

// ?wait_ready=N&wait=30s: held until N nodes are ready.
static bool nodes_ready(struct call *call, void *ctx, bool last)
{
    const struct nodes_wait *w = ctx;
    if (!last && (long)cluster_node_count_in(call->api->cluster, NODE_READY) < w->nodes)
        return false;
    api_reply(call, 200, cluster_json(call));
    return true;
}

void system_cluster(struct call *call)
{
    struct err e = {""};
    int64_t wait_ms = 0;
    const char *nodes = http_request_query(call->req, "wait_ready");
    const char *wait = http_request_query(call->req, "wait");
    if (!nodes) {
        api_reply(call, 200, cluster_json(call));
        return;
    }
    char *end = NULL;
    struct nodes_wait w = {strtol(nodes, &end, 10)};
    if (nodes[0] < '0' || nodes[0] > '9' || *end || w.nodes > WAIT_NODES_MAX) {
        api_problem(call, 400, "wait_ready: expected a number of nodes up to %d, found \"%.40s\"",
                    WAIT_NODES_MAX, nodes);
        return;
    }
    if (wait && (units_parse_duration(wait, &wait_ms, &e) < 0 || wait_ms > WAIT_MAX_MS)) {
        api_problem(call, 400, "wait: expected a duration up to 2m (%s)", e.text);
        return;
    }
    if (nodes_ready(call, &w, wait_ms == 0))
        return;
    struct nodes_wait *kept = malloc(sizeof(*kept));
    if (!kept) {
        api_problem(call, 503, "out of memory");
        return;
    }
    *kept = w;
    api_hold(call, wait_ms, nodes_ready, kept);
}
