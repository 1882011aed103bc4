// SPDX-License-Identifier: Apache-2.0
// /metrics in the Prometheus text format.
#include "common/clock.h"
#include "common/strbuf.h"
#include "master/api/handlers.h"
#include "master/api/sealed.h"
#include "master/api/limits.h"
#include "master/server_cert.h"
#include "proto/version.h"

static void family(struct strbuf *b, const char *name, const char *type, const char *help)
{
    strbuf_printf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void nodes(struct strbuf *b, struct cluster *c)
{
    family(b, "meadow_nodes", "gauge", "Nodes by state.");
    for (int s = 0; s < NODE_STATE_MAX; s++)
        strbuf_printf(b, "meadow_nodes{state=\"%s\"} %d\n",
                      node_state_to_string((enum node_state)s),
                      (int)cluster_node_count_in(c, (enum node_state)s));
    family(b, "meadow_node_report_age_seconds", "gauge",
           "Time since the node was last heard from.");
    for (const struct node *n = cluster_nodes(c); n; n = n->hh.next)
        if (n->seen_boot_ms)
            strbuf_printf(b, "meadow_node_report_age_seconds{node=\"%s\"} %.3f\n", n->name,
                          (double)(clock_boot_ms() - n->seen_boot_ms) / 1000.0);
}

static void resource(struct strbuf *b, struct cluster *c, const char *name, const char *help,
                     int64_t (*total)(const struct resources *r), double scale)
{
    char full[64];
    (void)snprintf(full, sizeof(full), "meadow_node_%s_total", name);
    family(b, full, "gauge", help);
    for (const struct node *n = cluster_nodes(c); n; n = n->hh.next)
        strbuf_printf(b, "%s{node=\"%s\"} %g\n", full, n->name, (double)total(&n->total) * scale);
    (void)snprintf(full, sizeof(full), "meadow_node_%s_reserved", name);
    family(b, full, "gauge", "Of that, reserved by tasks.");
    for (const struct node *n = cluster_nodes(c); n; n = n->hh.next)
        strbuf_printf(b, "%s{node=\"%s\"} %g\n", full, n->name,
                      (double)total(&n->reserved) * scale);
}

static int64_t cpu(const struct resources *r)
{
    return r->cpu_milli;
}

static int64_t memory(const struct resources *r)
{
    return r->memory;
}

static int64_t gpu(const struct resources *r)
{
    return r->gpu;
}

static void sealed(struct strbuf *b, const struct api *a)
{
    struct sealed_stats s;
    sealed_get_stats(a, &s);
    family(b, "meadow_sealed_rsa_operations_total", "counter",
           "Private RSA operations for sealed requests.");
    strbuf_printf(b, "meadow_sealed_rsa_operations_total %llu\n",
                  (unsigned long long)s.rsa_operations);
    family(b, "meadow_sealed_requests_total", "counter", "Sealed requests by what became of them.");
    strbuf_printf(b,
                  "meadow_sealed_requests_total{result=\"opened\"} %llu\n"
                  "meadow_sealed_requests_total{result=\"refused\"} %llu\n"
                  "meadow_sealed_requests_total{result=\"queue_full\"} %llu\n",
                  (unsigned long long)s.opened, (unsigned long long)s.refused,
                  (unsigned long long)s.full);
}

static void front_now(struct strbuf *b, const struct http_server_stats *s)
{
    family(b, "meadow_http_connections", "gauge", "Connections by kind.");
    strbuf_printf(b,
                  "meadow_http_connections{kind=\"agent\"} %u\n"
                  "meadow_http_connections{kind=\"people_idle\"} %u\n"
                  "meadow_http_connections{kind=\"people_busy\"} %u\n"
                  "meadow_http_connections{kind=\"local\"} %u\n"
                  "meadow_http_connections{kind=\"handshake\"} %u\n"
                  "meadow_http_connections{kind=\"lingering\"} %u\n",
                  s->agents, s->people_idle, s->people_busy, s->local, s->handshakes, s->lingering);
}

static void counter(struct strbuf *b, const char *name, const char *help, uint64_t value)
{
    family(b, name, "counter", help);
    strbuf_printf(b, "%s %llu\n", name, (unsigned long long)value);
}

static void front(struct strbuf *b, const struct api *a)
{
    struct http_server_stats s = {0};
    struct limits_counts l = limits_counts(a->limits);
    if (a->server)
        http_server_stats(a->server, &s);
    front_now(b, &s);
    counter(b, "meadow_http_accepts_total", "Calls of accept.", s.accepts);
    counter(b, "meadow_http_accept_pauses_total",
            "Times that a listener rested for want of a place or a descriptor.", s.accept_pauses);
    counter(b, "meadow_loop_turns_total", "Turns of the master's loop.", s.turns);
    family(b, "meadow_http_handshakes_total", "counter", "TLS handshakes by their end.");
    strbuf_printf(b,
                  "meadow_http_handshakes_total{end=\"done\"} %llu\n"
                  "meadow_http_handshakes_total{end=\"failed\"} %llu\n"
                  "meadow_http_handshakes_total{end=\"evicted\"} %llu\n",
                  (unsigned long long)s.handshakes_done, (unsigned long long)s.handshakes_failed,
                  (unsigned long long)s.handshakes_evicted);
    family(b, "meadow_http_refused_total", "counter",
           "Connections and requests that the limits refused, and idle connections that were ended "
           "to make room.");
    strbuf_printf(b,
                  "meadow_http_refused_total{why=\"address_connections\"} %llu\n"
                  "meadow_http_refused_total{why=\"connections\"} %llu\n"
                  "meadow_http_refused_total{why=\"idle\"} %llu\n"
                  "meadow_http_refused_total{why=\"malformed\"} %llu\n"
                  "meadow_http_refused_total{why=\"descriptors\"} %llu\n"
                  "meadow_http_refused_total{why=\"address_rate\"} %llu\n"
                  "meadow_http_refused_total{why=\"identity_rate\"} %llu\n",
                  (unsigned long long)s.refused_address, (unsigned long long)s.refused_full,
                  (unsigned long long)s.evicted_idle, (unsigned long long)s.bad_requests,
                  (unsigned long long)s.starved, (unsigned long long)l.by_address,
                  (unsigned long long)l.by_identity);
}

static void days_left(struct strbuf *b, const char *kind, const char *node, int64_t until_ms)
{
    double days = (double)(until_ms - clock_real_ms()) / 86400000.0;
    strbuf_printf(b, "meadow_certificate_days_left{certificate=\"%s\",node=\"%s\"} %.4f\n", kind,
                  node, days);
}

static void certificates(struct strbuf *b, const struct api *a)
{
    const struct server_cert *s = a->settings.server_cert;
    family(b, "meadow_certificate_days_left", "gauge", "Until the certificate is over.");
    if (s) {
        days_left(b, "ca", "", server_cert_ca_until_ms(s));
        days_left(b, "server", "", server_cert_until_ms(s));
    }
    for (const struct node *n = cluster_nodes(a->cluster); n; n = n->hh.next)
        if (n->identity.cert_until_ms)
            days_left(b, "node", n->name, n->identity.cert_until_ms);
    family(b, "meadow_node_clock_skew_seconds", "gauge", "The node's clock minus the master's.");
    for (const struct node *n = cluster_nodes(a->cluster); n; n = n->hh.next)
        if (n->identity.skew_known)
            strbuf_printf(b, "meadow_node_clock_skew_seconds{node=\"%s\"} %.3f\n", n->name,
                          (double)n->identity.skew_ms / 1000.0);
}

void metrics_get(struct call *call)
{
    struct strbuf b = {0};
    struct api *a = call->api;
    const char *reason;
    family(&b, "meadow_build_info", "gauge", "Version of this master.");
    strbuf_printf(&b, "meadow_build_info{version=\"%s\"} 1\n", MEADOW_VERSION);
    nodes(&b, a->cluster);
    resource(&b, a->cluster, "cpu_cores", "CPU cores of the node.", cpu, 0.001);
    resource(&b, a->cluster, "memory_bytes", "Memory of the node.", memory, 1);
    resource(&b, a->cluster, "gpus", "GPUs of the node.", gpu, 1);
    certificates(&b, a);
    family(&b, "meadow_jobs", "gauge", "Jobs by state.");
    for (int s = 0; s < JOB_STATE_MAX; s++)
        strbuf_printf(&b, "meadow_jobs{state=\"%s\"} %u\n", job_state_to_string((enum job_state)s),
                      cluster_job_count_in(a->cluster, (enum job_state)s));
    family(&b, "meadow_events_total", "counter", "Events so far.");
    strbuf_printf(&b, "meadow_events_total %lld\n", (long long)cluster_last_event(a->cluster));
    family(&b, "meadow_store_up", "gauge", "Whether the store takes changes.");
    strbuf_printf(&b, "meadow_store_up %d\n", store_ok(a->store, &reason) ? 1 : 0);
    family(&b, "meadow_store_lost_commits", "gauge",
           "Commits that nodes have seen and the store had no more at the last start.");
    strbuf_printf(&b, "meadow_store_lost_commits %lld\n",
                  (long long)cluster_lost_commits(a->cluster));
    family(&b, "meadow_store_commits_total", "counter",
           "Durable batches since the cluster was made.");
    strbuf_printf(&b, "meadow_store_commits_total %lld\n",
                  (long long)store_commit_number(a->store));
    sealed(&b, a);
    front(&b, a);
    if (b.failed)
        api_problem(call, 503, "out of memory");
    else
        http_respond(call->req, 200, "text/plain; version=0.0.4", b.data, b.len);
    strbuf_reset(&b);
}
