// SPDX-License-Identifier: Apache-2.0
// Any bytes from a client into the real server: libmicrohttpd, our requests and answers, the table
// of routes. The first byte says whether the guard is before it (TLS) or not (unix socket), and in
// how many pieces the bytes come. With the guard the server must never see more requests than the
// guard did: that would be smuggling.
#include "common/cleanup.h"
#include "common/http_guard.h"
#include "common/http_server_internal.h"
#include "master/api/router.h"

#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#define TURNS_MAX 10000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uv_loop_t loop;
static struct http_server *server;
static unsigned seen;
static volatile size_t sink; // what is read is used

static void require(int good)
{
    if (!good)
        __builtin_trap();
}

static void use(const char *text)
{
    sink += text ? strlen(text) : 0;
}

static int on_chunk(struct http_request *req, const char *data, size_t len, void *userdata)
{
    (void)req;
    (void)userdata;
    for (size_t i = 0; i < len; i++)
        sink += (size_t)data[i];
    return 0;
}

static void begin(struct http_request *req, void *userdata)
{
    static const struct route *r;
    char params[CALL_PARAMS][256], allow[64];
    (void)userdata;
    seen++;
    use(http_request_method(req));
    use(http_request_header(req, "authorization"));
    use(http_request_header(req, "Content-Type"));
    use(http_request_query(req, "limit"));
    require(http_request_path(req)[0] == '/');
    r = router_find(api_routes, http_request_method(req), http_request_path(req), params, allow,
                    sizeof(allow));
    if (!r && allow[0])
        http_respond(req, 405, NULL, NULL, 0);
    else if (r && r->flags & ROUTE_STREAM_BODY)
        http_request_stream_body(req, on_chunk);
    else if (r)
        http_request_body_limit(req, r->body_limit);
}

static void ready(struct http_request *req, void *userdata)
{
    size_t len;
    (void)userdata;
    const char *body = http_request_body(req, &len);
    require(body[len] == '\0');
    http_respond_header(req, "X-Request-Id", "r");
    if (len % 3 == 1) {
        http_stream_begin(req, 200, "text/plain", NULL, NULL);
        (void)http_stream_write(req, body, len);
        http_stream_end(req);
    } else {
        http_respond(req, 200, "application/octet-stream", body, len);
    }
}

static const struct http_handlers handlers = {.begin = begin, .ready = ready};

static void stop(void)
{
    http_server_close(server, NULL, NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&loop);
}

static void start(void)
{
    static bool started;
    struct err e;
    const struct http_server_options o = {.loop = &loop,
                                          .handlers = &handlers,
                                          .body_limit = 4096,
                                          .header_timeout_ms = 60000,
                                          .body_timeout_ms = 60000,
                                          .idle_timeout_ms = 60000,
                                          .max_connections = 10};
    if (started)
        return;
    started = true;
    require(uv_loop_init(&loop) == 0);
    require(http_server_new(&o, &server, &e) == 0);
    (void)atexit(stop);
}

static void drain(int fd)
{
    char buffer[4096];
    while (recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT) > 0)
        ;
}

static void send_piece(int fd, const uint8_t *data, size_t size)
{
    for (size_t sent = 0; sent < size;) {
        ssize_t n = send(fd, data + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN)
            return; // the server has closed
        sent += n > 0 ? (size_t)n : 0;
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        drain(fd);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int pair[2];
    struct http_guard guard = {0};
    struct http_peer peer = {.local = true};
    start();
    if (size < 2)
        return 0;
    bool guarded = data[0] & 1;
    size_t piece = data[0] >> 1 ? (size_t)(data[0] >> 1) * 16 : SIZE_MAX;
    data++;
    size--;
    seen = 0;
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    require(server_add_connection(server, pair[0], &peer) == 0);
    while (size > 0) {
        size_t n = size < piece ? size : piece;
        if (guarded && !http_guard_feed(&guard, (const char *)data, n))
            break;
        send_piece(pair[1], data, n);
        data += n;
        size -= n;
    }
    (void)shutdown(pair[1], SHUT_WR);
    for (int i = 0; http_server_connections(server) > 0; i++) {
        require(i < TURNS_MAX);
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        drain(pair[1]);
    }
    (void)close(pair[1]);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    require(!guarded || seen <= guard.heads);
    return 0;
}
