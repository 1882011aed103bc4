// SPDX-License-Identifier: Apache-2.0
// The pump. Each direction holds at most one block that the other side would not take yet; while it
// does, nothing more is read, so a slow reader slows its writer down.
#include "common/tls_front_internal.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define WORK_PER_CALLBACK 65536 // bytes, so that one busy connection leaves room for the rest

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

void tls_pump_update(struct tls_conn *c)
{
    if (c->kind == TLS_CLOSING || c->kind == TLS_LINGER)
        return;
    int net = UV_DISCONNECT;
    if (!c->ready || (!c->to_inner.data && !c->client_eof && !c->inner_deaf))
        net |= UV_READABLE;
    if (c->ssl_wants_write || c->to_client.data)
        net |= UV_WRITABLE;
    wait_for(&c->net, &c->net_events, net, tls_on_net);
    if (!c->inner_open)
        return;
    int inner = (c->to_client.data || c->inner_eof ? 0 : UV_READABLE) |
                (c->to_inner.data ? UV_WRITABLE : 0);
    wait_for(&c->inner, &c->inner_events, inner, tls_on_inner);
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

void tls_block_drop(struct block *b)
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
    tls_block_drop(&c->to_inner);
}

static void flush_inner(struct tls_conn *c)
{
    if (!c->to_inner.data)
        return;
    int r = send_inner(c, c->to_inner.data, c->to_inner.len, &c->to_inner.sent);
    if (r < 0)
        inner_is_deaf(c);
    else if (r == 0)
        tls_block_drop(&c->to_inner);
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

// Requests before the bad one are answered first: the HTTP server sees them, and the client's end.
static void refuse_rest(struct tls_conn *c, const char *data)
{
    size_t done = 0;
    c->bad = true;
    c->front->stats.bad_requests++;
    (void)send_inner(c, data, c->guard.good, &done);
    inner_is_deaf(c);
    (void)shutdown(c->pair, SHUT_WR);
}

static bool read_client(struct tls_conn *c)
{
    char *buffer = c->front->scratch;
    size_t work = 0;
    while (!c->to_inner.data && !c->client_eof && !c->inner_deaf && work < WORK_PER_CALLBACK) {
        ERR_clear_error();
        int n = SSL_read(c->ssl, buffer, TLS_BLOCK);
        if (n <= 0)
            return read_stopped(c, n);
        if (!http_guard_feed(&c->guard, buffer, (size_t)n)) {
            refuse_rest(c, buffer);
            return true;
        }
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
        tls_block_drop(&c->to_client);
    return r >= 0;
}

static bool read_inner(struct tls_conn *c)
{
    char *buffer = c->front->scratch;
    size_t work = 0;
    while (!c->to_client.data && !c->inner_eof && work < WORK_PER_CALLBACK) {
        ssize_t n = recv(c->pair, buffer, TLS_BLOCK, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return true;
        if (n <= 0) {
            c->inner_eof = true;
            (void)uv_timer_start(&c->deadline, tls_on_deadline, TLS_LAST_BLOCK_MS, 0);
            break;
        }
        size_t done = 0;
        int r = send_client(c, buffer, (size_t)n, &done);
        if (r < 0 || (r == 1 && !keep(&c->to_client, buffer + done, (size_t)n - done)))
            return false;
        if (n < TLS_BLOCK)
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

void tls_pump(struct tls_conn *c)
{
    if (!pump(c))
        tls_conn_close(c);
    else if (c->inner_eof && !c->to_client.data && c->bad)
        tls_conn_refuse(c, c->guard.too_large ? 431 : 400,
                        c->guard.too_large ? "Request Header Fields Too Large" : "Bad Request",
                        c->guard.why);
    else if (c->inner_eof && !c->to_client.data)
        tls_conn_linger(c);
    else
        tls_pump_update(c);
}
