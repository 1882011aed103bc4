// SPDX-License-Identifier: Apache-2.0
// The master's parts and their order. Start: lock and identity, store (loads every record into its
// owner), then commit queue, cluster, listeners. Stop, in reverse: listeners, held answers, commit
// queue, cluster, store.
#include "master/master.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/daemon.h"
#include "common/log.h"
#include "master/api/agents.h"
#include "master/api/api.h"
#include "master/api/audit.h"
#include "master/api/limits.h"
#include "master/api/idempotency.h"
#include "master/api/sealed.h"
#include "master/api/backup.h"
#include "master/api/echo.h"
#include "master/api/tokens.h"
#include "master/backup/backup.h"
#include "master/cluster/secret.h"
#include "master/front.h"
#include "master/farewell.h"
#include "master/identity.h"
#include "master/logs/log_store.h"
#include "master/server_cert.h"

#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EVENT_PAGE 1000

struct master {
    uv_loop_t *loop;
    const struct master_config *config;
    void (*ended)(int result, void *userdata);
    void *userdata;
    struct daemon *daemon;
    int lock, result;
    struct identity identity;
    struct server_cert *cert;
    struct store *store;
    struct commit *commit;
    struct cluster *cluster;
    struct http_server *server;
    struct api api;
    int64_t last_event;
    size_t events_in_page;
    char url[300];
    bool started, stopping, failed;
};

static void close_listeners(struct master *m);

static void fail(struct master *m, int code, const char *what, const struct err *e)
{
    log_error("master", "%s: %s", what, e->text);
    m->result = code;
    master_stop(m);
}

// --- listeners ---

static gid_t socket_group(const struct master_config *c)
{
    const struct group *g = c->socket_group ? getgrnam(c->socket_group) : NULL;
    return g ? g->gr_gid : (gid_t)-1;
}

static int listen_all(struct master *m, struct err *e)
{
    char path[128];
    uint16_t port = 0;
    struct http_server_options o = {0};
    front_options(m->config, m->loop, &m->api, &o);
    const struct tls_server_options tls = server_cert_tls(m->cert);
    (void)snprintf(path, sizeof(path), "%s/master.sock", m->config->run_dir);
    int r = http_server_new(&o, &m->server, e);
    m->api.server = m->server;
    if (r == 0)
        r = http_server_listen_tls(m->server, m->config->listen_address,
                                   (uint16_t)m->config->listen_port, &tls, &port, e);
    if (r < 0)
        return r;
    front_url(m->config, port, m->url, sizeof(m->url));
    return http_server_listen_unix(m->server, path, 0660, socket_group(m->config), e);
}

// --- the store's callbacks ---

static void on_record(const char *key, const char *json, size_t len, void *userdata)
{
    struct err e = {""};
    struct master *m = userdata;
    int r = cluster_load(m->cluster, key, json, len, &e);
    if (r == -ENOENT)
        r = tokens_load(m->api.tokens, key, json, len, &e);
    if (r == -ENOENT)
        r = idempotency_load(m->api.idempotency, key, json, len, &e);
    if (r == -ENOENT)
        r = sealed_load(&m->api, key, json, len, &e);
    if (r < 0 && r != -ENOENT && !m->failed) {
        m->failed = true; // else it would become a cluster that has forgotten something
        fail(m, r, "loading the state", &e);
    }
}

static void work(struct master *m)
{
    struct err e = {""};
    m->commit = commit_new(m->loop, m->store, cluster_collect, m->cluster);
    int r = m->commit ? 0 : err_set(&e, -ENOMEM, "out of memory");
    if (r == 0)
        r = tokens_adopt(m->api.tokens, &e);
    if (r == 0)
        r = cluster_start(m->cluster, m->commit, store_epoch(m->store), m->last_event, &e);
    if (r == 0 && log_store_count(m->api.logs, m->loop, cluster_logs_found, m->cluster) < 0)
        r = err_set(&e, -ENOMEM, "out of memory");
    if (r == 0)
        r = backup_open(&m->api, m->config, &e);
    if (r == 0)
        r = listen_all(m, &e);
    if (r < 0) {
        fail(m, r, "start", &e);
        return;
    }
    echo_start(&m->api);
    m->started = true;
    log_info("master", "cluster %s (%s): %u jobs, %u nodes, epoch %lld, API at %s", m->config->name,
             m->identity.id, cluster_job_count(m->cluster), cluster_node_count(m->cluster),
             (long long)store_epoch(m->store), m->url);
    daemon_ready(m->daemon, m->url);
}

static void on_event(int64_t id, const char *json, size_t len, void *userdata)
{
    struct master *m = userdata;
    m->last_event = id;
    m->events_in_page++;
    cluster_load_event(m->cluster, id, json, len);
}

// A page was read: the next one, or all is loaded.
static void on_events(int result, void *userdata)
{
    struct master *m = userdata;
    struct err e = {""};
    if (m->stopping)
        return;
    if (result == 0 && m->events_in_page < EVENT_PAGE) {
        work(m);
        return;
    }
    m->events_in_page = 0;
    if (result == 0)
        result = store_read(m->store, "events", m->last_event, EVENT_PAGE, on_event, on_events, m);
    if (result < 0)
        fail(m, err_errno(&e, result, "events"), "loading the state", &e);
}

static void on_ready(int error, const struct err *e, void *userdata)
{
    struct master *m = userdata;
    if (m->stopping)
        return;
    m->events_in_page = EVENT_PAGE;
    if (error < 0)
        fail(m, error, "store", e);
    else
        on_events(0, m);
}

static void on_health(bool ok, const char *reason, void *userdata)
{
    struct master *m = userdata;
    if (ok)
        log_info("store", "available again");
    else
        log_warn("store", "not available: %s", reason);
    daemon_status(m->daemon, ok ? "%s" : "store not available: %s", ok ? m->url : reason);
}

static void on_lost(const char *reason, void *userdata)
{
    (void)userdata;
    log_error("store", "%s: this master ends", reason);
    // Nothing may leave this process any more, not even a clean goodbye.
    _exit(EXIT_FAILURE);
}

static void on_assignment(struct node *node, void *userdata)
{
    (void)userdata;
    agents_wake(node);
}

static void on_logs_complete(const char *attempt_id, void *userdata)
{
    struct master *m = userdata;
    int r = log_store_finish(m->api.logs, attempt_id);
    if (r < 0)
        log_warn("logs", "attempt %s: its log is not marked as complete: %s", attempt_id,
                 strerror(-r));
}

static void on_forget_logs(const char *attempt_id, void *userdata)
{
    log_store_delete(((struct master *)userdata)->api.logs, attempt_id);
}

static int64_t on_logs_kept(void *userdata)
{
    return log_store_bytes(((struct master *)userdata)->api.logs);
}

// --- start ---

static void on_signal(void *userdata)
{
    log_info("master", "stopping");
    master_stop(userdata);
}

static void on_reload(void *userdata)
{
    struct master *m = userdata;
    daemon_reloading(m->daemon);
    server_cert_reload(m->cert);
    master_config_reload(m->config);
    daemon_reloaded(m->daemon);
}

static int prepare_folders(struct master *m, struct err *e)
{
    char path[300];
    const struct master_config *c = m->config;
    int r = make_dirs(c->data_dir, 0700, e);
    if (r == 0 && chmod(c->data_dir, 0700) < 0) // systemd made it open, with the shared data
        r = err_errno(e, -errno, "close %s to others", c->data_dir);
    if (r == 0)
        r = make_dirs(c->run_dir, 0755, e);
    if (r == 0)
        r = make_dirs(c->shared_data, 0755, e);
    if (r < 0)
        return r;
    (void)snprintf(path, sizeof(path), "%s/lock", c->data_dir);
    r = lock_file(path, &m->lock, e);
    return r == -EWOULDBLOCK ? err_set(e, r, "%s: another master uses this folder", c->data_dir)
                             : r;
}

static void on_settled(void *userdata)
{
    backup_settled(((struct master *)userdata)->config);
}

// New connections get the new certificate; those that are there go on.
static int on_cert(const struct tls_server_options *tls, void *userdata, struct err *e)
{
    struct master *m = userdata;
    return m->server && m->started ? http_server_set_tls(m->server, tls, e) : 0;
}

static int open_identity(struct master *m, struct err *e)
{
    const struct server_cert_options o = {m->loop, m->config, &m->identity, on_cert, m};
    int r = identity_open(m->config->data_dir, &m->identity, e);
    return r < 0 ? r : server_cert_new(&o, &m->cert, e);
}

static int make_parts(struct master *m, struct err *e)
{
    char logs[300], audit[300], keys[300];
    const struct master_config *c = m->config;
    const struct cluster_options o = {
        .loop = m->loop,
        .id = m->identity.id,
        .name = c->name,
        .sync_interval_ms = c->sync_interval_ms,
        .lease_ms = c->lease_ms,
        .stop_lease_ms = c->stop_lease_ms,
        .orphans_ms = c->orphans_ms,
        .log_limit = c->log_limit,
        .disk_warn_percent = c->disk_warn_percent,
        .disk_full_percent = c->disk_full_percent,
        .longest_lease_ms = c->lease_ms > c->stop_lease_ms ? c->lease_ms : c->stop_lease_ms,
        .restored = backup_restored(c),
        .settled = on_settled,
        .default_resources = {c->default_cpu, c->default_memory, 0},
        .history = {c->history_jobs, c->history_age_ms, c->history_logs},
        .scheduling = c->scheduling,
        .aside = {c->aside_failures, c->aside_pause_ms, c->aside_max_pause_ms},
        .assignment_moved = on_assignment,
        .logs_complete = on_logs_complete,
        .logs_kept = on_logs_kept,
        .forget_logs = on_forget_logs,
        .userdata = m};
    (void)snprintf(logs, sizeof(logs), "%s/logs", c->data_dir);
    m->cluster = cluster_new(&o);
    m->api = (struct api){.settings = {.loop = m->loop,
                                       .shared_data = c->shared_data,
                                       .data_dir = c->data_dir,
                                       .ca_cert_pem = m->identity.ca_cert,
                                       .ca_key_pem = m->identity.ca_key,
                                       .node_cert_life_s = c->node_cert_ms / 1000,
                                       .server_cert = m->cert,
                                       .url = m->url,
                                       .socket_group = socket_group(c),
                                       .started_ms = clock_real_ms()},
                          .cluster = m->cluster,
                          .tokens = m->cluster ? tokens_new(m->cluster) : NULL,
                          .idempotency = idempotency_new()};
    if (!m->cluster || !m->api.tokens || !m->api.idempotency)
        return err_set(e, -ENOMEM, "out of memory");
    (void)snprintf(keys, sizeof(keys), "%s/identity", c->data_dir);
    int r = cluster_secrets_open(m->cluster, keys, e);
    (void)snprintf(audit, sizeof(audit), "%s/audit", c->data_dir);
    const struct audit_options a = {.loop = m->loop, .folder = audit};
    if (r == 0)
        r = audit_open(&a, &m->api.audit, e);
    if (r == 0)
        r = front_limits(c, &m->api.limits, e);
    return r < 0 ? r : log_store_open(logs, (uint64_t)c->log_limit, &m->api.logs, e);
}

static int open_store(struct master *m, struct err *e)
{
    const struct master_config *c = m->config;
    const struct store_options o = {.loop = m->loop,
                                    .redis_url = c->redis_url,
                                    .data_dir = c->data_dir,
                                    .run_dir = c->run_dir,
                                    .log_path = c->redis_log,
                                    .pid_path = c->redis_pid_file,
                                    .server_path = c->redis_server,
                                    .cluster_id = m->identity.id,
                                    .ready = on_ready,
                                    .record = on_record,
                                    .health = on_health,
                                    .lost = on_lost,
                                    .userdata = m};
    int r = store_open(&o, &m->store, e);
    m->api.store = m->store;
    return r;
}

int master_start(uv_loop_t *loop, const struct master_config *config,
                 void (*ended)(int result, void *userdata), void *userdata, struct master **ret,
                 struct err *e)
{
    struct master *m = calloc(1, sizeof(*m));
    if (!m)
        return err_set(e, -ENOMEM, "out of memory");
    m->loop = loop;
    m->config = config;
    m->ended = ended;
    m->userdata = userdata;
    m->lock = -1;
    const struct daemon_options d = {loop, config->pid_file, on_signal, on_reload, m};
    int r = prepare_folders(m, e);
    if (r == 0)
        r = open_identity(m, e);
    if (r == 0)
        r = make_parts(m, e);
    if (r == 0)
        r = sealed_open(&m->api, config->data_dir, config->sealed_rate, e);
    if (r == 0)
        r = daemon_new(&d, &m->daemon, e);
    if (r == 0)
        r = open_store(m, e);
    if (r < 0) {
        audit_close(m->api.audit);
        server_cert_close(m->cert);
        daemon_close(m->daemon);
        m->daemon = NULL;
        master_free(m);
        return r;
    }
    *ret = m;
    return 0;
}

// --- stop ---

static void on_store_closed(void *userdata)
{
    struct master *m = userdata;
    audit_close(m->api.audit);
    m->api.audit = NULL;
    server_cert_close(m->cert);
    daemon_close(m->daemon);
    m->daemon = NULL;
    m->ended(m->result, m->userdata);
}

static void close_store(struct master *m)
{
    store_close(m->store, on_store_closed, m);
}

static void on_cluster_closed(void *userdata)
{
    close_store(userdata);
}

static void on_commit_closed(void *userdata)
{
    struct master *m = userdata;
    cluster_close(m->cluster, on_cluster_closed, m);
}

static void close_commit(struct master *m)
{
    if (m->commit)
        commit_close(m->commit, on_commit_closed, m);
    else
        cluster_close(m->cluster, on_cluster_closed, m);
}

static void on_server_closed(void *userdata)
{
    close_commit(userdata);
}

static void on_last_line(int result, void *userdata)
{
    (void)result;
    close_listeners(userdata);
}

// What was accepted is durable, and on record, before the last connection goes.
static void on_last_batch(int result, void *userdata)
{
    struct master *m = userdata;
    cluster_grant_durable(m->cluster, result == 0);
    if (audit_synced(m->api.audit) || audit_then(m->api.audit, on_last_line, m) < 0)
        close_listeners(m);
}

static void release_all(struct master *m)
{
    agents_release(&m->api);
    api_release_held(&m->api);
    events_release(&m->api);
    logs_release(&m->api);
    sealed_release(&m->api);
}

static void end_connections(void *userdata)
{
    struct master *m = userdata;
    release_all(m); // what came meanwhile
    http_server_close(m->server, on_server_closed, m);
}

static void close_listeners(struct master *m)
{
    backup_close(m->api.backup);
    m->api.backup = NULL;
    release_all(m);
    farewell(m->loop, end_connections, m);
}

void master_stop(struct master *m)
{
    if (m->stopping)
        return;
    m->stopping = true;
    m->api.closing = true;
    log_store_count_stop(m->api.logs);
    cluster_grant(m->cluster, m->started ? m->config->stop_lease_ms : 0);
    if (!m->server)
        close_commit(m);
    else if (!m->commit || commit_then(m->commit, 2000, on_last_batch, m) < 0)
        close_listeners(m);
}

void master_free(struct master *m)
{
    if (!m)
        return;
    tokens_free(m->api.tokens);
    idempotency_free(m->api.idempotency);
    sealed_free(&m->api);
    limits_free(m->api.limits);
    if (m->api.logs)
        log_store_close(m->api.logs);
    cluster_free(m->cluster);
    identity_free(&m->identity);
    if (m->lock >= 0)
        (void)close(m->lock);
    free(m);
}
