// SPDX-License-Identifier: Apache-2.0
// See fake_master.h. Assignments are always sent whole; a sync is held until something moves or the
// hold is over.
#include "test/lib/fake_master.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/pki.h"
#include "proto/version.h"

#include <check.h>
#include <endian.h>
#include <string.h>

#define CLUSTER "ctestcluster0"

static void answer_json(struct http_request *req, int status, json_t *stolen)
{
    cleanup_json json_t *j = stolen;
    cleanup_free char *text = json_text(j);
    ck_assert_ptr_nonnull(text);
    http_respond(req, status, "application/json", text, strlen(text));
}

static void answer_problem(struct http_request *req, int status, const char *detail)
{
    json_t *j = json_object();
    json_put_i64(j, "status", status);
    json_put_str(j, "detail", detail);
    answer_json(req, status, j);
}

// --- renewal
// --------------------------------------------------------------------------------------

static void renew(struct fake_master *m, struct http_request *req, const json_t *body)
{
    cleanup_free char *cert = NULL;
    struct err e;

    m->renewals++;
    if (m->refuse_renewals) {
        m->refuse_renewals--;
        answer_problem(req, 503, "not now");
        return;
    }
    ck_assert_msg(pki_node_cert(m->ca_cert, m->ca_key, json_opt_str(body, "csr", ""),
                                "ntestnode0000", 30 * PKI_DAY_S, &cert, &e) == 0,
                  "%s", e.text);
    json_t *j = json_object();
    json_put_str(j, "certificate", cert);
    json_put_str(j, "ca", m->ca_cert);
    answer_json(req, 200, j);
}

// --- join ----------------------------------------------------------------------------------------

static void join(struct fake_master *m, struct http_request *req, const json_t *body)
{
    cleanup_free char *cert = NULL;
    struct err e;

    m->joins++;
    if (m->refuse_join) {
        answer_problem(req, 409, m->refuse_join);
        return;
    }
    if (strcmp(json_opt_str(body, "token", ""), m->token) != 0) {
        answer_problem(req, 401, "wrong token");
        return;
    }
    ck_assert_msg(pki_node_cert(m->ca_cert, m->ca_key, json_opt_str(body, "csr", ""),
                                "ntestnode0000", 30 * PKI_DAY_S, &cert, &e) == 0,
                  "%s", e.text);
    json_t *j = json_object();
    json_put_str(j, "cluster_id", CLUSTER);
    json_put_str(j, "cluster_name", "test");
    json_put_str(j, "node_id", "ntestnode0000");
    json_put_str(j, "name", json_opt_str(body, "name", ""));
    json_put_str(j, "certificate", cert);
    json_put_str(j, "ca", m->ca_cert);
    answer_json(req, 200, j);
}

// --- sync ----------------------------------------------------------------------------------------

static void answer_held(struct fake_master *m)
{
    struct sync_answer a = {
        .protocol = MEADOW_PROTOCOL, .epoch = 1, .commit = m->generation, .acked = m->acked};
    struct http_request *req = m->held;

    if (!req)
        return;
    m->held = NULL;
    (void)uv_timer_stop(&m->hold);
    a.sync_interval_ms = m->hold_ms;
    a.time_ms = clock_real_ms();
    a.has_assignment = a.assignment_full = true;
    a.position = (struct sync_position){1, m->generation};
    a.entries = calloc(FAKE_ATTEMPTS, sizeof(*a.entries));
    ck_assert_ptr_nonnull(a.entries);
    for (size_t i = 0; i < m->n_attempts; i++)
        if (!m->attempts[i].removed)
            a.entries[a.n_entries++] =
                (struct assignment_entry){m->attempts[i].spec, m->attempts[i].desired};
    answer_json(req, 200, sync_answer_to_json(&a));
    free(a.entries);
}

static void hold_cb(uv_timer_t *timer)
{
    answer_held(timer->data);
}

static struct fake_attempt *find(struct fake_master *m, const char *id)
{
    for (size_t i = 0; i < m->n_attempts; i++)
        if (strcmp(m->attempts[i].spec->id, id) == 0)
            return &m->attempts[i];
    return NULL;
}

static void take_status(struct fake_master *m, const struct attempt_status *s)
{
    struct fake_attempt *a = find(m, s->id);

    if (s->change > m->acked)
        m->acked = s->change;
    if (!a || (a->reported && s->change <= a->status.change))
        return;
    ck_assert_msg(!(a->reported && a->status.state == ATTEMPT_ENDED && s->state != ATTEMPT_ENDED),
                  "attempt %s came back from its end", s->id);
    a->running_reports += s->state == ATTEMPT_RUNNING;
    a->reported = true;
    a->status = *s;
}

static void take_request(struct fake_master *m, struct sync_request *q)
{
    bool same = strcmp(m->instance, q->instance) == 0;

    if (!same) {
        m->acked = 0;
        for (size_t i = 0; i < m->n_attempts; i++)
            m->attempts[i].status.change = 0; // each instance counts from 1
        memcpy(m->instance, q->instance, sizeof(m->instance));
    }
    for (size_t i = 0; i < q->n_statuses; i++)
        take_status(m, &q->statuses[i]);
    if (q->has_inventory) {
        m->inventories++;
        m->complete = q->inventory_complete;
        m->inventory_n = q->n_statuses;
    }
    if (q->node) {
        json_decref(m->node);
        m->node = json_incref(q->node);
    }
    if (q->usage) {
        json_decref(m->usage);
        m->usage = json_incref(q->usage);
    }
}

static void report(struct fake_master *m, struct http_request *req)
{
    struct sync_answer a = {
        .protocol = MEADOW_PROTOCOL, .epoch = 1, .commit = m->generation, .acked = m->acked};

    m->reports++;
    a.sync_interval_ms = m->hold_ms;
    answer_json(req, 200, sync_answer_to_json(&a));
}

static void held_gone(struct http_request *req, void *userdata)
{
    struct fake_master *m = userdata;
    if (m->held == req)
        m->held = NULL;
}

static void take_sync(struct fake_master *m, struct http_request *req, const json_t *body,
                      bool is_sync)
{
    struct sync_request q;
    struct err e;

    ck_assert_msg(http_request_peer(req)->has_cert, "no client certificate");
    ck_assert_str_eq(http_request_peer(req)->cert_cn, "ntestnode0000");
    ck_assert_msg(sync_request_from_json(body, &q, &e) == 0, "%s", e.text);
    if (m->silent || m->refuse_sync) {
        answer_problem(req, m->silent ? 503 : 409, "not now");
        sync_request_reset(&q);
        return;
    }
    bool moved = q.applied.generation != m->generation || q.applied.epoch != 1 || q.n_statuses > 0;
    take_request(m, &q);
    sync_request_reset(&q);
    if (!is_sync) {
        report(m, req);
        return;
    }
    m->syncs++;
    m->held = req;
    http_request_on_gone(req, held_gone, m);
    if (moved)
        answer_held(m);
    else
        (void)uv_timer_start(&m->hold, hold_cb, m->hold_ms, 0);
}

// --- logs ----------------------------------------------------------------------------------------

static void take_logs(struct fake_attempt *a, int stream, uint64_t offset, const char *at,
                      size_t len)
{
    while (len >= 12) {
        uint32_t n;
        memcpy(&n, at + 8, 4);
        n = le32toh(n);
        ck_assert_uint_le(n, len - 12);
        if (offset >= a->next[stream]) {
            strbuf_append(&a->logs[stream], at + 12, n);
            a->next[stream] = offset + n;
        }
        offset += n;
        at += 12 + n;
        len -= 12 + n;
    }
}

static void logs(struct fake_master *m, struct http_request *req, const char *id)
{
    size_t len;
    const char *body = http_request_body(req, &len);
    const char *stream = http_request_query(req, "stream");
    const char *offset = http_request_query(req, "offset");
    struct fake_attempt *a = find(m, id);

    ck_assert(stream && offset);
    if (!a) {
        answer_problem(req, 404, "no such attempt");
        return;
    }
    int index = strcmp(stream, "stderr") == 0;
    take_logs(a, index, strtoull(offset, NULL, 10), body, len);
    json_t *j = json_object();
    json_put_i64(j, "next", (int64_t)a->next[index]);
    answer_json(req, 200, j);
}

// --- routes --------------------------------------------------------------------------------------

static void ready(struct http_request *req, void *userdata)
{
    static const char log_path[] = "/v1/agent/logs/";
    struct fake_master *m = userdata;
    const char *path = http_request_path(req);
    size_t len;
    const char *text = http_request_body(req, &len);
    cleanup_json json_t *body = NULL;

    if (strcmp(path, "/v1/ca") == 0)
        http_respond(req, 200, "text/plain", m->ca_cert, strlen(m->ca_cert));
    else if (strncmp(path, log_path, strlen(log_path)) == 0)
        logs(m, req, path + strlen(log_path));
    else if (json_parse(text, len, &body, NULL) < 0)
        answer_problem(req, 400, "no JSON");
    else if (strcmp(path, "/v1/join") == 0)
        join(m, req, body);
    else if (strcmp(path, "/v1/agent/renew") == 0)
        renew(m, req, body);
    else
        take_sync(m, req, body, strcmp(path, "/v1/agent/sync") == 0);
    if (m->changed)
        m->changed(m, m->userdata);
}

// --- public --------------------------------------------------------------------------------------

static void make_pki(struct fake_master *m)
{
    static const char *const names[] = {"127.0.0.1", NULL};
    char fingerprint[65];
    struct err e;

    ck_assert_msg(pki_key_new(&m->ca_key, &e) == 0 &&
                      pki_ca_new(m->ca_key, CLUSTER, 30 * PKI_DAY_S, &m->ca_cert, &e) == 0 &&
                      pki_key_new(&m->key, &e) == 0 &&
                      pki_server_cert(m->ca_cert, m->ca_key, m->key, names, 30 * PKI_DAY_S,
                                      &m->cert, &e) == 0 &&
                      pki_cert_fingerprint(m->ca_cert, fingerprint, &e) == 0,
                  "%s", e.text);
    (void)snprintf(m->token, sizeof(m->token), "mjoin_%s_sesame", fingerprint);
}

void fake_master_start(struct fake_master *m, uv_loop_t *loop)
{
    static const struct http_handlers handlers = {.ready = ready};
    struct err e;

    m->loop = loop;
    m->generation = 1;
    m->hold_ms = 2000;
    make_pki(m);
    struct http_server_options o = {.loop = loop,
                                    .handlers = &handlers,
                                    .userdata = m,
                                    .body_limit = 8u << 20,
                                    .header_timeout_ms = 10000,
                                    .body_timeout_ms = 10000,
                                    .idle_timeout_ms = 60000,
                                    .max_connections = 100};
    struct tls_server_options tls = {.cert_pem = m->cert, .key_pem = m->key, .ca_pem = m->ca_cert};
    ck_assert_msg(http_server_new(&o, &m->server, &e) == 0, "%s", e.text);
    ck_assert_msg(http_server_listen_tls(m->server, "127.0.0.1", 0, &tls, &m->port, &e) == 0, "%s",
                  e.text);
    (void)snprintf(m->url, sizeof(m->url), "https://127.0.0.1:%u", m->port);
    ck_assert_int_eq(uv_timer_init(loop, &m->hold), 0);
    m->hold.data = m;
}

static void moved(struct fake_master *m)
{
    m->generation++;
    answer_held(m);
}

struct fake_attempt *fake_master_assign(struct fake_master *m, struct attempt_spec *spec)
{
    ck_assert_uint_lt(m->n_attempts, FAKE_ATTEMPTS);
    struct fake_attempt *a = &m->attempts[m->n_attempts++];
    a->spec = spec;
    moved(m);
    return a;
}

void fake_master_stop_attempt(struct fake_master *m, struct fake_attempt *a)
{
    a->desired = DESIRED_STOP;
    moved(m);
}

void fake_master_remove(struct fake_master *m, struct fake_attempt *a)
{
    a->removed = true;
    moved(m);
}

struct attempt_spec *fake_master_spec(const struct fake_master *m, const char *id,
                                      const char *script)
{
    struct attempt_spec *s = calloc(1, sizeof(*s));

    ck_assert_ptr_nonnull(s);
    (void)snprintf(s->id, sizeof(s->id), "%s", id);
    (void)snprintf(s->issued_to, sizeof(s->issued_to), "%s", m->instance);
    s->job = strdup("jtestjob00000");
    s->job_name = strdup("test");
    s->user = strdup("tester");
    s->component = strdup("main");
    s->attempt = 1;
    s->command = calloc(4, sizeof(*s->command));
    ck_assert_ptr_nonnull(s->command);
    s->command[0] = strdup("/bin/sh");
    s->command[1] = strdup("-c");
    s->command[2] = strdup(script);
    s->stop_signal = 15;
    s->grace_ms = 2000;
    s->lease_ms = 60000;
    return s;
}

void fake_master_close(struct fake_master *m)
{
    m->held = NULL;
    m->changed = NULL;
    uv_close((uv_handle_t *)&m->hold, NULL);
    http_server_close(m->server, NULL, NULL);
}

void fake_master_free(struct fake_master *m)
{
    for (size_t i = 0; i < m->n_attempts; i++) {
        attempt_spec_free(m->attempts[i].spec);
        strbuf_reset(&m->attempts[i].logs[0]);
        strbuf_reset(&m->attempts[i].logs[1]);
    }
    json_decref(m->node);
    json_decref(m->usage);
    free(m->ca_key);
    free(m->ca_cert);
    free(m->key);
    free(m->cert);
}
