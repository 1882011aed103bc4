// SPDX-License-Identifier: Apache-2.0
// The pump. Each direction holds at most one block that the other side would not take yet; while it
// does, nothing more is read, so a slow reader slows its writer down.
//
// Ends: a close_notify alone is a half close, passed on to the HTTP server; answers still go out.
// TCP's end is the client's end. When the HTTP server ends first, or a handshake fails, the
// connection lingers: our side is shut, and what the client still sends is thrown away until it
// closes too, since closing with unread bytes would reset the connection and take the answer (or
// the alert) with it.
#include "common/tls_front.h"

#include "common/cleanup.h"
#include "common/tls_context.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <utlist.h>

#define BLOCK 16384
#define WORK_PER_CALLBACK 65536 // bytes, so that one busy connection leaves room for the rest
#define PAIR_BUFFER 16384
#define LINGER_MS 2000
#define LAST_BLOCK_MS 30000 // for a client to take the end of its answer

struct block {
    char *data; // NULL = empty
    size_t len, sent;
};

struct tls_conn {
    struct tls_front *front;
    int fd, pair;
    SSL *ssl;
    uv_poll_t net, inner;
    int net_events, inner_events; // what they wait for now
    bool inner_open;
    uv_timer_t deadline;
    struct http_peer peer;
    bool ready;      // handshake done
    bool client_eof; // close_notify came
    bool inner_deaf; // the HTTP server takes nothing more in; its answer still comes out
    bool inner_eof;  // the HTTP server is done: what is left is sent, then the end
    bool lingering;
    bool closing;
    bool ssl_wants_write;
    struct block to_client, to_inner;
    int handles;
    struct tls_conn *prev, *next;
};

struct tls_front {
    struct tls_front_options options;
    SSL_CTX *ctx;
    struct tls_conn *conns;
    unsigned count;
    char scratch[BLOCK];
};

static void on_net(uv_poll_t *poll, int status, int events);
static void on_inner(uv_poll_t *poll, int status, int events);
static void on_deadline(uv_timer_t *timer);

static void on_closed(uv_handle_t *handle)
{
    struct tls_conn *c = handle->data;
    struct tls_front *f = c->front;
    if (--c->handles > 0)
        return;
    DL_DELETE(f->conns, c);
    f->count--;
    SSL_free(c->ssl);
    if (c->fd >= 0)
        (void)close(c->fd);
    if (c->pair >= 0)
        (void)close(c->pair);
    free(c->to_client.data);
    free(c->to_inner.data);
    free(c);
    f->options.ended(f->options.userdata);
}

static void conn_close(struct tls_conn *c)
{
    if (c->closing)
        return;
    c->closing = true;
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

static void linger(struct tls_conn *c)
{
    ERR_clear_error();
    if (c->ready)
        (void)SSL_shutdown(c->ssl);
    ERR_clear_error();
    if (c->client_eof) {
        conn_close(c);
        return;
    }
    c->lingering = true;
    (void)shutdown(c->fd, SHUT_WR);
    if (c->inner_open)
        (void)uv_poll_stop(&c->inner);
    (void)uv_poll_start(&c->net, UV_READABLE, on_net);
    (void)uv_timer_start(&c->deadline, on_deadline, LINGER_MS, 0);
}

static void throw_away(struct tls_conn *c)
{
    for (size_t work = 0; work < WORK_PER_CALLBACK;) {
        ssize_t n = recv(c->fd, c->front->scratch, BLOCK, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n <= 0) {
            conn_close(c);
            return;
        }
        work += (size_t)n;
    }
}

// --- what to wait for ---

// libuv takes the descriptor out of epoll and back in even when the events are the same.
static void wait_for(uv_poll_t *poll, int *now, int events, uv_poll_cb cb)
{
    if (events == *now)
        return;
    *now = events;
    if (events)
        (void)uv_poll_start(poll, events, cb);
    else
        (void)uv_poll_stop(poll);
}

static void update(struct tls_conn *c)
{
    if (c->closing)
        return;
    int net = UV_DISCONNECT;
    if (!c->ready || (!c->to_inner.data && !c->client_eof && !c->inner_deaf))
        net |= UV_READABLE;
    if (c->ssl_wants_write || c->to_client.data)
        net |= UV_WRITABLE;
    wait_for(&c->net, &c->net_events, net, on_net);
    if (!c->inner_open)
        return;
    int inner = (c->to_client.data || c->inner_eof ? 0 : UV_READABLE) |
                (c->to_inner.data ? UV_WRITABLE : 0);
    wait_for(&c->inner, &c->inner_events, inner, on_inner);
}

static bool keep(struct block *b, const char *data, size_t len)
{
    b->data = malloc(len);
    if (!b->data)
        return false;
    memcpy(b->data, data, len);
    b->len = len;
    b->sent = 0;
    return true;
}

static void drop(struct block *b)
{
    free(b->data);
    *b = (struct block){0};
}

// --- client -> HTTP server ---

// 0 = all sent, 1 = would block (sent so far in *done), -1 = the other end is gone.
static int send_inner(struct tls_conn *c, const char *data, size_t len, size_t *done)
{
    while (*done < len) {
        ssize_t n = send(c->pair, data + *done, len - *done, MSG_NOSIGNAL);
        if (n > 0)
            *done += (size_t)n;
        else if (n < 0 && errno == EINTR)
            continue;
        else
            return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 1 : -1;
    }
    return 0;
}

static void inner_is_deaf(struct tls_conn *c)
{
    c->inner_deaf = true;
    drop(&c->to_inner);
}

static void flush_inner(struct tls_conn *c)
{
    if (!c->to_inner.data)
        return;
    int r = send_inner(c, c->to_inner.data, c->to_inner.len, &c->to_inner.sent);
    if (r < 0)
        inner_is_deaf(c);
    else if (r == 0)
        drop(&c->to_inner);
}

// SSL_read returned `n` <= 0. False: the connection is over.
static bool read_stopped(struct tls_conn *c, int n)
{
    switch (SSL_get_error(c->ssl, n)) {
    case SSL_ERROR_ZERO_RETURN:
        c->client_eof = true;
        (void)shutdown(c->pair, SHUT_WR);
        return true;
    case SSL_ERROR_WANT_WRITE:
        c->ssl_wants_write = true;
        return true;
    case SSL_ERROR_WANT_READ:
        return true;
    default: // an alert, TCP's end without close_notify, a reset
        return false;
    }
}

static bool read_client(struct tls_conn *c)
{
    char *buffer = c->front->scratch;
    size_t work = 0;
    while (!c->to_inner.data && !c->client_eof && !c->inner_deaf && work < WORK_PER_CALLBACK) {
        ERR_clear_error();
        int n = SSL_read(c->ssl, buffer, BLOCK);
        if (n <= 0)
            return read_stopped(c, n);
        size_t done = 0;
        int r = send_inner(c, buffer, (size_t)n, &done);
        if (r < 0)
            inner_is_deaf(c);
        else if (r == 1 && !keep(&c->to_inner, buffer + done, (size_t)n - done))
            return false;
        work += (size_t)n;
    }
    return true;
}

// --- HTTP server -> client ---

// Like send_inner, by TLS.
static int send_client(struct tls_conn *c, const char *data, size_t len, size_t *done)
{
    while (*done < len) {
        ERR_clear_error();
        int n = SSL_write(c->ssl, data + *done, (int)(len - *done));
        if (n > 0) {
            *done += (size_t)n;
            continue;
        }
        int why = SSL_get_error(c->ssl, n);
        return why == SSL_ERROR_WANT_WRITE || why == SSL_ERROR_WANT_READ ? 1 : -1;
    }
    return 0;
}

static bool flush_client(struct tls_conn *c)
{
    if (!c->to_client.data)
        return true;
    int r = send_client(c, c->to_client.data, c->to_client.len, &c->to_client.sent);
    if (r == 0)
        drop(&c->to_client);
    return r >= 0;
}

static bool read_inner(struct tls_conn *c)
{
    char *buffer = c->front->scratch;
    size_t work = 0;
    while (!c->to_client.data && !c->inner_eof && work < WORK_PER_CALLBACK) {
        ssize_t n = recv(c->pair, buffer, BLOCK, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return true;
        if (n <= 0) {
            c->inner_eof = true;
            (void)uv_timer_start(&c->deadline, on_deadline, LAST_BLOCK_MS, 0);
            break;
        }
        size_t done = 0;
        int r = send_client(c, buffer, (size_t)n, &done);
        if (r < 0 || (r == 1 && !keep(&c->to_client, buffer + done, (size_t)n - done)))
            return false;
        if (n < BLOCK)
            break; // most likely all there is; otherwise the poll handle tells at once
        work += (size_t)n;
    }
    return true;
}

// One look at everything that may move. False: the connection is broken.
static bool pump(struct tls_conn *c)
{
    c->ssl_wants_write = false;
    flush_inner(c);
    return flush_client(c) && read_client(c) && read_inner(c);
}

static void turn(struct tls_conn *c)
{
    if (!pump(c))
        conn_close(c);
    else if (c->inner_eof && !c->to_client.data)
        linger(c);
    else
        update(c);
}

static void on_inner(uv_poll_t *poll, int status, int events)
{
    struct tls_conn *c = poll->data;
    (void)events;
    if (status < 0) // it shows at the next read or write, too; libuv has stopped the handle
        c->inner_events = 0;
    turn(c);
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
    if (uv_poll_init_socket(c->front->options.loop, &c->inner, c->pair) < 0) {
        (void)close(pair[1]);
        return -EIO;
    }
    c->inner.data = c;
    c->inner_open = true;
    c->handles++;
    return c->front->options.connected(pair[1], &c->peer, c->front->options.userdata);
}

static void handshake(struct tls_conn *c)
{
    ERR_clear_error();
    int n = SSL_accept(c->ssl);
    if (n == 1) {
        c->ready = true;
        c->ssl_wants_write = false;
        (void)uv_timer_stop(&c->deadline);
        tls_context_peer(c->ssl, &c->peer);
        if (open_inner(c) < 0)
            conn_close(c);
        else
            turn(c); // the first request may have come with the last handshake bytes
        return;
    }
    int why = SSL_get_error(c->ssl, n);
    c->ssl_wants_write = why == SSL_ERROR_WANT_WRITE;
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
        update(c);
    else if (why == SSL_ERROR_SSL)
        linger(c); // the alert shall arrive
    else
        conn_close(c);
}

// After the client's close_notify, or while its bytes wait for room, only TCP's end tells that it
// is gone; otherwise what it sent before is read first.
static bool ended_by_client(const struct tls_conn *c, int events)
{
    return (events & UV_DISCONNECT) && (!c->ready || c->client_eof || !(events & UV_READABLE));
}

static void on_net(uv_poll_t *poll, int status, int events)
{
    struct tls_conn *c = poll->data;
    if (c->lingering)
        throw_away(c);
    else if (status < 0 || ended_by_client(c, events))
        conn_close(c);
    else if (c->ready)
        turn(c);
    else
        handshake(c);
}

static void on_deadline(uv_timer_t *timer)
{
    conn_close(timer->data);
}

int tls_front_accept(struct tls_front *f, int fd, const struct http_peer *peer)
{
    struct tls_conn *c = calloc(1, sizeof(*c));
    SSL *ssl = c ? SSL_new(f->ctx) : NULL;
    if (!ssl || SSL_set_fd(ssl, fd) != 1 || uv_poll_init_socket(f->options.loop, &c->net, fd) < 0) {
        SSL_free(ssl);
        free(c);
        (void)close(fd);
        return -ENOMEM;
    }
    (void)uv_timer_init(f->options.loop, &c->deadline);
    c->front = f;
    c->fd = fd;
    c->pair = -1;
    c->ssl = ssl;
    c->peer = *peer;
    c->net.data = c->deadline.data = c;
    c->handles = 2;
    DL_APPEND(f->conns, c);
    f->count++;
    (void)uv_timer_start(&c->deadline, on_deadline, f->options.handshake_timeout_ms, 0);
    update(c);
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

unsigned tls_front_connections(const struct tls_front *f)
{
    return f->count;
}

void tls_front_close_all(struct tls_front *f)
{
    struct tls_conn *c, *next;
    for (c = f ? f->conns : NULL; c; c = next) {
        next = c->next;
        conn_close(c);
    }
}

bool tls_front_idle(const struct tls_front *f)
{
    return !f || !f->conns;
}

void tls_front_free(struct tls_front *f)
{
    if (!f)
        return;
    SSL_CTX_free(f->ctx);
    free(f);
}
