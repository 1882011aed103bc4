// SPDX-License-Identifier: Apache-2.0
// A server with known paths, its certificates, clients for both listeners, and waiting for events
// with a bound. For the suites of the HTTP and TLS modules.
#pragma once

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/http_client.h"
#include "common/http_server.h"
#include "test/unit/suite.h"
#include "test/unit/common/pki_util.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define WAIT_MS 40000
#ifndef BIG_MIB // less of it for valgrind
#define BIG_MIB 10
#endif
#define BIG ((size_t)BIG_MIB << 20)

struct site { // what a test works with
    uv_loop_t loop;
    uv_timer_t watchdog;
    unsigned turns; // of the loop while waiting
    char dir[64], path[96], url[64];
    struct identity ca, server_id, node;
    struct http_server *server;
    uint16_t port;
    bool closed;
    struct http_client *tls, *local;
    unsigned clients_open;
    // what the handlers saw
    struct http_request *held, *stream;
    unsigned begun, ready, gone, drained;
    size_t streamed;
    char *big;
    size_t stream_limit; // refuse a streamed body after this much
};

struct reply {
    bool done;
    int error, status;
    char text[512];
    char type[64];
    char *body;
    size_t len;
};

// --- the loop ---

static uv_loop_t *waiting;

// Said by whatever a test may wait for: in a turn of the loop timers come before the wait for the
// next event, which would be in vain then.
static inline void happened(void)
{
    if (waiting)
        uv_stop(waiting);
}

static inline void on_watchdog(uv_timer_t *timer)
{
    (void)timer;
    ck_abort_msg("nothing happened in time");
}

static inline void await(struct site *x, const bool *flag)
{
    ck_assert_int_eq(uv_timer_start(&x->watchdog, on_watchdog, WAIT_MS, 0), 0);
    waiting = &x->loop;
    while (!*flag) {
        (void)uv_run(&x->loop, UV_RUN_ONCE);
        x->turns++;
    }
    (void)uv_timer_stop(&x->watchdog);
}

static inline void await_count(struct site *x, const unsigned *count, unsigned least)
{
    ck_assert_int_eq(uv_timer_start(&x->watchdog, on_watchdog, WAIT_MS, 0), 0);
    waiting = &x->loop;
    while (*count < least) {
        (void)uv_run(&x->loop, UV_RUN_ONCE);
        x->turns++;
    }
    (void)uv_timer_stop(&x->watchdog);
}

static inline void on_pause(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
    happened();
}

// Lets the loop run for a while: for tests that nothing happens.
static inline void run_for(struct site *x, unsigned ms)
{
    uv_timer_t timer;
    bool over = false;
    ck_assert_int_eq(uv_timer_init(&x->loop, &timer), 0);
    timer.data = &over;
    (void)uv_timer_start(&timer, on_pause, ms, 0);
    await(x, &over);
    uv_close((uv_handle_t *)&timer, NULL);
    (void)uv_run(&x->loop, UV_RUN_NOWAIT);
}

static inline size_t open_fds(void)
{
    size_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d))
        n++;
    (void)closedir(d);
    return n;
}

// --- handlers ---

static inline void text_answer(struct http_request *req, int status, const char *text)
{
    http_respond(req, status, "text/plain", text, strlen(text));
}

static inline void site_gone(struct http_request *req, void *userdata)
{
    struct site *x = userdata;
    x->gone++;
    happened();
    if (req == x->held)
        x->held = NULL;
    if (req == x->stream)
        x->stream = NULL;
}

static inline void site_drained(struct http_request *req, void *userdata)
{
    struct site *x = userdata;
    (void)req;
    x->drained++;
    happened();
}

static inline int site_chunk(struct http_request *req, const char *data, size_t len, void *userdata)
{
    struct site *x = userdata;
    (void)data;
    x->streamed += len;
    if (!x->stream_limit || x->streamed <= x->stream_limit)
        return 0;
    text_answer(req, 507, "full\n");
    return -ENOSPC;
}

static inline void site_begin(struct http_request *req, void *userdata)
{
    struct site *x = userdata;
    const char *path = http_request_path(req);
    x->begun++;
    http_request_on_gone(req, site_gone, x);
    if (strcmp(path, "/begin") == 0)
        text_answer(req, 401, "not you\n");
    else if (strcmp(path, "/small") == 0)
        http_request_body_limit(req, 10);
    else if (strcmp(path, "/big") == 0)
        http_request_body_limit(req, BIG);
    else if (strcmp(path, "/upload") == 0)
        http_request_stream_body(req, site_chunk);
}

static inline void answer_peer(struct http_request *req)
{
    char text[512];
    const struct http_peer *p = http_request_peer(req);
    (void)snprintf(text, sizeof(text), "local=%d uid=%d pid=%d address=%s cert=%d cn=%s sha=%s",
                   p->local, p->local ? (int)p->uid : -1, p->local ? (int)p->pid : -1, p->address,
                   p->has_cert, p->cert_cn, p->cert_sha256);
    text_answer(req, 200, text);
}

static inline void answer_query(struct http_request *req)
{
    char text[512];
    const char *a = http_request_query(req, "a"), *b = http_request_query(req, "b");
    const char *header = http_request_header(req, "x-test");
    (void)snprintf(text, sizeof(text), "%s %s a=%s b=%s none=%d header=%s",
                   http_request_method(req), http_request_path(req), a ? a : "-", b ? b : "-",
                   !http_request_query(req, "none"), header ? header : "-");
    http_respond_header(req, "X-Answer", "yes");
    text_answer(req, 200, text);
}

static inline void answer_file(struct site *x, struct http_request *req)
{
    char name[160];
    struct err e;
    (void)snprintf(name, sizeof(name), "%s/file", x->dir);
    ck_assert_msg(atomic_file_write(name, x->big, BIG, 0600, &e) == 0, "%s", e.text);
    http_respond_file(req, 200, "application/octet-stream", open(name, O_RDONLY | O_CLOEXEC), 100,
                      BIG - 100);
}

static inline void site_ready(struct http_request *req, void *userdata)
{
    struct site *x = userdata;
    const char *path = http_request_path(req);
    size_t len;
    const char *body = http_request_body(req, &len);
    x->ready++;
    happened();
    if (strcmp(path, "/hold") == 0) {
        x->held = req;
    } else if (strcmp(path, "/stream") == 0) {
        x->stream = req;
        http_stream_begin(req, 200, "text/event-stream", site_drained, x);
    } else if (strcmp(path, "/upload") == 0) {
        text_answer(req, 200, "stored\n");
    } else if (strcmp(path, "/peer") == 0) {
        answer_peer(req);
    } else if (strncmp(path, "/query", 6) == 0) {
        answer_query(req);
    } else if (strcmp(path, "/file") == 0) {
        answer_file(x, req);
    } else if (strcmp(path, "/wide") == 0) {
        http_respond(req, 200, "application/octet-stream", x->big, BIG);
    } else {
        http_respond(req, 200, "text/plain", len ? body : "hello\n", len ? len : 6);
    }
}

static const struct http_handlers site_handlers = {site_begin, site_ready};

// --- clients ---

static inline struct http_client *client_to(struct site *x, const char *url, const char *ca,
                                            const struct identity *id)
{
    struct http_client *c;
    struct err e;
    const struct http_client_options o = {.loop = &x->loop,
                                          .base_url = url,
                                          .ca_pem = ca,
                                          .cert_pem = id ? id->cert : NULL,
                                          .key_pem = id ? id->key : NULL,
                                          .connect_timeout_ms = WAIT_MS};
    must(http_client_new(&o, &c, &e), &e);
    x->clients_open++;
    return c;
}

static inline struct http_client *client_local(struct site *x)
{
    struct http_client *c;
    struct err e;
    const struct http_client_options o = {
        .loop = &x->loop, .base_url = "http://local", .unix_socket = x->path};
    must(http_client_new(&o, &c, &e), &e);
    x->clients_open++;
    return c;
}

static inline void client_closed(void *userdata)
{
    struct site *x = userdata;
    x->clients_open--;
}

static inline void client_end(struct site *x, struct http_client *c)
{
    http_client_close(c, client_closed, x);
}

static inline void on_reply(const struct http_result *r, void *userdata)
{
    struct reply *reply = userdata;
    ck_assert(!reply->done);
    reply->done = true;
    happened();
    reply->error = r->error;
    reply->status = r->status;
    (void)snprintf(reply->text, sizeof(reply->text), "%s", r->error ? r->err.text : "");
    (void)snprintf(reply->type, sizeof(reply->type), "%s", r->content_type ? r->content_type : "");
    reply->len = r->len;
    reply->body = malloc(r->len + 1);
    memcpy(reply->body, r->body, r->len + 1);
}

static inline void reply_reset(struct reply *r)
{
    free(r->body);
    *r = (struct reply){0};
}

static inline struct http_call *send_call(struct http_client *c, struct http_call_options o,
                                          struct reply *r)
{
    struct http_call *call = NULL;
    struct err e;
    reply_reset(r);
    o.method = o.method ? o.method : "GET";
    o.done = on_reply;
    o.userdata = r;
    must(http_call_start(c, &o, &call, &e), &e);
    ck_assert(!r->done);
    return call;
}

// One GET, waited for.
static inline void get(struct site *x, struct http_client *c, const char *path, struct reply *r)
{
    (void)send_call(c, (struct http_call_options){.path = path}, r);
    await(x, &r->done);
}

// --- the site ---

static inline void site_listen(struct site *x)
{
    struct err e;
    const struct tls_server_options tls = {x->server_id.cert, x->server_id.key, x->ca.cert, false};
    must(http_server_listen_unix(x->server, x->path, 0600, (gid_t)-1, &e), &e);
    must(http_server_listen_tls(x->server, "127.0.0.1", 0, &tls, &x->port, &e), &e);
    (void)snprintf(x->url, sizeof(x->url), "https://127.0.0.1:%u", x->port);
}

static inline void site_start(struct site *x, struct http_server_options o)
{
    struct err e;
    memset(x, 0, sizeof(*x));
    (void)snprintf(x->dir, sizeof(x->dir), "/tmp/meadow-http-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(x->dir));
    (void)snprintf(x->path, sizeof(x->path), "%s/sock", x->dir);
    ck_assert_int_eq(uv_loop_init(&x->loop), 0);
    ck_assert_int_eq(uv_timer_init(&x->loop, &x->watchdog), 0);
    x->ca = make_ca();
    x->server_id = make_server_id(&x->ca, "127.0.0.1");
    x->node = make_node(&x->ca, "n1", DAYS);
    x->big = malloc(BIG);
    for (size_t i = 0; i < BIG; i++)
        x->big[i] = (char)(i * 7 + i / 4093);
    o.loop = &x->loop;
    o.handlers = &site_handlers;
    o.userdata = x;
    must(http_server_new(&o, &x->server, &e), &e);
    site_listen(x);
    x->tls = client_to(x, x->url, x->ca.cert, &x->node);
    x->local = client_local(x);
}

static const struct http_server_options site_defaults = {.body_limit = 65536,
                                                         .header_timeout_ms = 60000,
                                                         .body_timeout_ms = 60000,
                                                         .idle_timeout_ms = 60000,
                                                         .max_connections = 500};

static inline void site_closed(void *userdata)
{
    ((struct site *)userdata)->closed = true;
    happened();
}

static inline void site_close_server(struct site *x)
{
    http_server_close(x->server, site_closed, x);
    await(x, &x->closed);
    x->server = NULL;
}

// Closes what is left; nothing of it may stay in the loop.
static inline void site_stop(struct site *x)
{
    struct err e;
    if (x->tls)
        client_end(x, x->tls);
    if (x->local)
        client_end(x, x->local);
    if (x->server)
        site_close_server(x);
    uv_close((uv_handle_t *)&x->watchdog, NULL);
    (void)uv_run(&x->loop, UV_RUN_DEFAULT);
    ck_assert_uint_eq(x->clients_open, 0);
    ck_assert_int_eq(uv_loop_close(&x->loop), 0);
    waiting = NULL;
    ck_assert_int_ne(access(x->path, F_OK), 0);
    identity_free(&x->ca);
    identity_free(&x->server_id);
    identity_free(&x->node);
    free(x->big);
    must(remove_tree(x->dir, &e), &e);
}
