// SPDX-License-Identifier: Apache-2.0
// Life of a connection: handshake, socket pair, end.
//
// Ends: a close_notify alone is a half close, passed on to the HTTP server; answers still go out.
// TCP's end is the client's end. When the HTTP server ends first, or a handshake fails, the
// connection lingers: our side is shut, and what the client still sends is thrown away until it
// closes too, since closing with unread bytes would reset the connection and take the answer (or
// the alert) with it.
#include "common/clock.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "common/tls_context.h"
#include "common/tls_front_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define WORK_PER_CALLBACK 65536
#define PAIR_BUFFER 16384
#define LINGER_MS 2000
#define HANDSHAKE_MS 10000 // when the owner gave no other

static void retry_starved(struct tls_front *f);

static void on_closed(uv_handle_t *handle)
{
    struct tls_conn *c = handle->data;
    struct tls_front *f = c->front;
    if (--c->handles > 0)
        return;
    tls_room_leave(c);
    SSL_free(c->ssl);
    if (c->fd >= 0)
        (void)close(c->fd);
    if (c->pair >= 0)
        (void)close(c->pair);
    tls_block_drop(&c->to_client);
    tls_block_drop(&c->to_inner);
    free(c);
    retry_starved(f);
    f->options.ended(f->options.userdata);
}

void tls_conn_close(struct tls_conn *c)
{
    if (c->kind == TLS_CLOSING)
        return;
    tls_room_move(c, TLS_CLOSING);
    tls_room_unpair(c);
    ERR_clear_error();
    // The peer and the HTTP server see the end at once; the descriptors themselves go when the
    // handles are closed.
    (void)uv_poll_stop(&c->net);
    (void)shutdown(c->fd, SHUT_RDWR);
    if (c->pair >= 0)
        (void)shutdown(c->pair, SHUT_RDWR);
    uv_close((uv_handle_t *)&c->net, on_closed);
    uv_close((uv_handle_t *)&c->deadline, on_closed);
    if (c->inner_open)
        uv_close((uv_handle_t *)&c->inner, on_closed);
}

// --- lingering ---

// The pair goes now: only its client is waited for, and others may need the descriptors.
static void on_inner_closed(uv_handle_t *handle)
{
    struct tls_conn *c = handle->data;
    (void)close(c->pair);
    c->pair = -1;
    on_closed(handle);
}

static void bound_lingering(struct tls_front *f)
{
    unsigned max = f->options.limits.handshakes;
    while (max && f->counts[TLS_LINGER] > max)
        tls_conn_close(f->lists[TLS_LINGER]);
}

void tls_conn_linger(struct tls_conn *c)
{
    ERR_clear_error();
    if (c->ready)
        (void)SSL_shutdown(c->ssl);
    ERR_clear_error();
    if (c->client_eof) {
        tls_conn_close(c);
        return;
    }
    (void)shutdown(c->fd, SHUT_WR);
    if (c->inner_open) {
        c->inner_open = false;
        (void)shutdown(c->pair, SHUT_RDWR);
        uv_close((uv_handle_t *)&c->inner, on_inner_closed);
    }
    tls_room_unpair(c);
    tls_room_move(c, TLS_LINGER);
    (void)uv_poll_start(&c->net, UV_READABLE, tls_on_net);
    (void)uv_timer_start(&c->deadline, tls_on_deadline, LINGER_MS, 0);
    bound_lingering(c->front);
}

static void throw_away(struct tls_conn *c)
{
    for (size_t work = 0; work < WORK_PER_CALLBACK;) {
        ssize_t n = recv(c->fd, c->front->scratch, TLS_BLOCK, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n <= 0) {
            tls_conn_close(c);
            return;
        }
        work += (size_t)n;
    }
}

void tls_conn_refuse(struct tls_conn *c, int status, const char *title, const char *detail)
{
    char text[1024];
    json_t *p = json_pack("{s:s, s:s, s:i, s:s}", "type", "about:blank", "title", title, "status",
                          status, "detail", detail);
    cleanup_free char *body = p ? json_dumps(p, JSON_COMPACT) : NULL;
    json_decref(p);
    int n = snprintf(text, sizeof(text),
                     "HTTP/1.1 %d %s\r\nContent-Type: application/problem+json\r\n%s"
                     "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
                     status, title, status == 400 ? "" : "Retry-After: 2\r\n",
                     body ? strlen(body) : 0, body ? body : "");
    ERR_clear_error();
    // It fits into the socket's buffer, or the client does not read: then it has no answer.
    if (n > 0 && (size_t)n < sizeof(text))
        (void)SSL_write(c->ssl, text, n);
    tls_conn_linger(c);
}

// --- handshake ---

static int open_inner(struct tls_conn *c)
{
    int pair[2];
    int size = PAIR_BUFFER;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    (void)setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    (void)setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    c->pair = pair[0];
    if (tls_room_pair(c, pair[1]) < 0 ||
        uv_poll_init_socket(c->front->options.loop, &c->inner, c->pair) < 0) {
        (void)close(pair[1]);
        return -EIO;
    }
    c->inner.data = c;
    c->inner_open = true;
    c->handles++;
    return c->front->options.connected(pair[1], &c->peer, c->front->options.userdata);
}

// The handshake is done and the connection has its place. Without descriptors it waits for the end
// of another one, within the handshake's deadline.
static void connect_inner(struct tls_conn *c)
{
    int r = open_inner(c);
    if (r == -EMFILE || r == -ENFILE) {
        if (c->kind != TLS_STARVED)
            c->front->stats.starved++;
        tls_room_move(c, TLS_STARVED);
        c->net_events = UV_DISCONNECT;
        (void)uv_poll_start(&c->net, UV_DISCONNECT, tls_on_net);
        (void)tls_front_evict_idle(c->front);
    } else if (r < 0) {
        tls_conn_close(c);
    } else {
        tls_room_settle(c);
        (void)uv_timer_stop(&c->deadline);
        tls_pump(c); // the first request may have come with the last handshake bytes
    }
}

static void retry_starved(struct tls_front *f)
{
    if (f->lists[TLS_STARVED])
        connect_inner(f->lists[TLS_STARVED]);
}

static void handshake(struct tls_conn *c)
{
    ERR_clear_error();
    int n = SSL_accept(c->ssl);
    if (n == 1) {
        c->ready = true;
        c->ssl_wants_write = false;
        c->front->stats.handshakes++;
        tls_context_peer(c->ssl, &c->peer);
        if (tls_room_admit(c))
            connect_inner(c);
        return;
    }
    int why = SSL_get_error(c->ssl, n);
    c->ssl_wants_write = why == SSL_ERROR_WANT_WRITE;
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
        tls_pump_update(c);
        return;
    }
    c->front->stats.handshakes_failed++;
    if (why == SSL_ERROR_SSL)
        tls_conn_linger(c); // the alert shall arrive
    else
        tls_conn_close(c);
}

// After the client's close_notify, or while its bytes wait for room, only TCP's end tells that it
// is gone; otherwise what it sent before is read first.
static bool ended_by_client(const struct tls_conn *c, int events)
{
    return (events & UV_DISCONNECT) && (!c->ready || c->client_eof || !(events & UV_READABLE));
}

void tls_on_net(uv_poll_t *poll, int status, int events)
{
    struct tls_conn *c = poll->data;
    if (c->kind == TLS_LINGER)
        throw_away(c);
    else if (status < 0 || ended_by_client(c, events))
        tls_conn_close(c);
    else if (!c->ready)
        handshake(c);
    else if (c->kind != TLS_STARVED)
        tls_pump(c);
}

void tls_on_inner(uv_poll_t *poll, int status, int events)
{
    struct tls_conn *c = poll->data;
    (void)events;
    if (status < 0) // it shows at the next read or write, too; libuv has stopped the handle
        c->inner_events = 0;
    tls_pump(c);
}

void tls_on_deadline(uv_timer_t *timer)
{
    struct tls_conn *c = timer->data;
    if (c->kind == TLS_HANDSHAKE)
        c->front->stats.handshakes_failed++;
    tls_conn_close(c);
}

static int conn_new(struct tls_front *f, int fd, const struct http_peer *peer,
                    struct tls_conn **ret)
{
    struct tls_conn *c = calloc(1, sizeof(*c));
    SSL *ssl = c ? SSL_new(f->ctx) : NULL;
    if (!ssl || SSL_set_fd(ssl, fd) != 1 || uv_poll_init_socket(f->options.loop, &c->net, fd) < 0) {
        SSL_free(ssl);
        free(c);
        (void)close(fd);
        return -ENOMEM;
    }
    // Not OpenSSL's own look at the machine's clock, which somebody may have set wrong.
    X509_VERIFY_PARAM_set_time(SSL_get0_param(ssl), clock_real_ms() / 1000);
    (void)uv_timer_init(f->options.loop, &c->deadline);
    c->front = f;
    c->fd = fd;
    c->pair = c->inner_fd = -1;
    c->ssl = ssl;
    c->peer = *peer;
    c->net.data = c->deadline.data = c;
    c->handles = 2;
    *ret = c;
    return 0;
}

// A place before the handshake is taken by tls_front_room.
int tls_front_accept(struct tls_front *f, int fd, const struct http_peer *peer)
{
    unsigned ms = f->options.limits.handshake_timeout_ms;
    struct tls_conn *c = NULL;
    int r = conn_new(f, fd, peer, &c);
    if (r < 0)
        return r;
    r = tls_room_enter(c, peer->address);
    if (r < 0) {
        tls_conn_close(c);
        return r;
    }
    (void)uv_timer_start(&c->deadline, tls_on_deadline, ms ? ms : HANDSHAKE_MS, 0);
    tls_pump_update(c);
    return 0;
}

// --- the front ---

int tls_front_set(struct tls_front *f, const struct tls_server_options *tls, struct err *e)
{
    SSL_CTX *ctx = NULL;
    int r = tls_context_new(tls, &ctx, e);
    if (r < 0)
        return r;
    SSL_CTX_free(f->ctx);
    f->ctx = ctx;
    return 0;
}

int tls_front_new(const struct tls_front_options *o, const struct tls_server_options *tls,
                  struct tls_front **ret, struct err *e)
{
    struct tls_front *f = calloc(1, sizeof(*f));
    if (!f)
        return err_set(e, -ENOMEM, "out of memory");
    f->options = *o;
    int r = tls_front_set(f, tls, e);
    if (r < 0) {
        free(f);
        return r;
    }
    *ret = f;
    return 0;
}

void tls_front_close_all(struct tls_front *f)
{
    for (int kind = 0; f && kind < TLS_CLOSING; kind++)
        while (f->lists[kind])
            tls_conn_close(f->lists[kind]);
}

void tls_front_free(struct tls_front *f)
{
    if (!f)
        return;
    SSL_CTX_free(f->ctx);
    free(f->by_inner);
    free(f);
}
