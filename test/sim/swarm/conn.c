// SPDX-License-Identifier: Apache-2.0
#include "test/sim/swarm/conn.h"

#include "common/cleanup.h"
#include "common/strbuf.h"

#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define READ_BYTES 16384

struct conn {
    struct conn_options o;
    int fd;
    SSL *ssl;
    uv_poll_t poll;
    bool shaken; // the handshake is done
    bool busy;   // a request is under way
    bool closed;
    int want; // what the loop waits for
    struct strbuf out, in;
};

void *conn_userdata(const struct conn *c)
{
    return c->o.userdata;
}

bool conn_is_shaken(const struct conn *c)
{
    return c->shaken;
}

static void fail(struct conn *c, const char *what)
{
    char text[256] = "";
    unsigned long first = ERR_get_error();
    if (first)
        ERR_error_string_n(first, text, sizeof(text));
    ERR_clear_error();
    if (!c->closed)
        c->o.failed(c, text[0] ? text : what);
}

static void on_poll(uv_poll_t *poll, int status, int events);

static void watch(struct conn *c, int events)
{
    if (c->want == events || c->closed)
        return;
    c->want = events;
    (void)uv_poll_start(&c->poll, events, on_poll);
}

// --- an answer ---

// Length of a whole answer at the front of `in`; 0 = not all there; -1 = none that we understand.
static long answer_length(struct conn *c, size_t *ret_head)
{
    char *end = c->in.data ? strstr(c->in.data, "\r\n\r\n") : NULL;
    if (!end)
        return 0;
    *end = '\0';
    char *line = strcasestr(c->in.data, "\r\ncontent-length:");
    long length = line ? strtol(line + 17, NULL, 10) : -1;
    *end = '\r';
    *ret_head = (size_t)(end - c->in.data) + 4;
    if (length < 0)
        return -1;
    return c->in.len >= *ret_head + (size_t)length ? (long)*ret_head + length : 0;
}

static void take_answer(struct conn *c)
{
    size_t head = 0;
    long length = answer_length(c, &head);
    if (length == 0)
        return;
    int status = c->in.len > 12 ? atoi(c->in.data + 9) : 0;
    if (length < 0 || status < 100 || !c->busy) {
        fail(c, "not an answer");
        return;
    }
    struct strbuf answer = c->in;
    c->in = (struct strbuf){0};
    c->busy = false;
    c->o.answered(c, status, answer.data + head, (size_t)length - head);
    strbuf_reset(&answer);
}

// --- bytes ---

static void send_out(struct conn *c)
{
    while (c->out.len > 0) {
        int n = SSL_write(c->ssl, c->out.data, (int)c->out.len);
        if (n > 0) {
            strbuf_consume(&c->out, (size_t)n);
            continue;
        }
        int why = SSL_get_error(c->ssl, n);
        if (why == SSL_ERROR_WANT_WRITE) {
            watch(c, UV_READABLE | UV_WRITABLE);
            return;
        }
        if (why != SSL_ERROR_WANT_READ) {
            fail(c, "can't send");
            return;
        }
        break;
    }
    if (c->out.len == 0)
        strbuf_reset(&c->out);
    watch(c, UV_READABLE);
}

static void receive(struct conn *c)
{
    static char bytes[READ_BYTES];
    int n;
    while ((n = SSL_read(c->ssl, bytes, sizeof(bytes))) > 0)
        strbuf_append(&c->in, bytes, (size_t)n);
    int why = SSL_get_error(c->ssl, n);
    if (c->in.failed) {
        fail(c, "out of memory");
        return;
    }
    take_answer(c);
    if (!c->closed && why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
        fail(c, "the master closed the connection");
}

static void shake(struct conn *c)
{
    int n = SSL_do_handshake(c->ssl);
    if (n == 1) {
        c->shaken = true;
        if (c->o.shaken)
            c->o.shaken(c);
        if (!c->closed)
            send_out(c);
        return;
    }
    int why = SSL_get_error(c->ssl, n);
    if (why == SSL_ERROR_WANT_READ)
        watch(c, UV_READABLE);
    else if (why == SSL_ERROR_WANT_WRITE)
        watch(c, UV_WRITABLE);
    else
        fail(c, "no connection");
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct conn *c = container_of(poll, struct conn, poll);
    if (status < 0) {
        fail(c, uv_strerror(status));
        return;
    }
    if (!c->shaken) {
        shake(c);
        return;
    }
    if (events & UV_READABLE)
        receive(c);
    if (!c->closed && c->out.len > 0)
        send_out(c);
}

// --- life ---

static void on_closed(uv_handle_t *handle)
{
    struct conn *c = container_of((uv_poll_t *)handle, struct conn, poll);
    SSL_free(c->ssl);
    (void)close(c->fd);
    strbuf_reset(&c->out);
    strbuf_reset(&c->in);
    free(c);
}

void conn_close(struct conn *c)
{
    if (!c || c->closed)
        return;
    c->closed = true;
    uv_close((uv_handle_t *)&c->poll, on_closed);
}

static int start_tls(struct conn *c, struct err *e)
{
    c->ssl = SSL_new(c->o.tls);
    if (!c->ssl || SSL_set_fd(c->ssl, c->fd) != 1)
        return err_set(e, -ENOMEM, "out of memory");
    if (c->o.cert &&
        (SSL_use_certificate(c->ssl, c->o.cert) != 1 || SSL_use_PrivateKey(c->ssl, c->o.key) != 1))
        return err_set(e, -EINVAL, "the client certificate can't be used");
    if (c->o.host) {
        X509_VERIFY_PARAM *p = SSL_get0_param(c->ssl);
        SSL_set_verify(c->ssl, SSL_VERIFY_PEER, NULL);
        if (X509_VERIFY_PARAM_set1_ip_asc(p, c->o.host) != 1)
            return err_set(e, -EINVAL, "%s is no address", c->o.host);
    }
    SSL_set_connect_state(c->ssl);
    return 0;
}

int conn_open(const struct conn_options *o, struct conn **ret, struct err *e)
{
    struct conn *c = calloc(1, sizeof(*c));
    if (!c)
        return err_set(e, -ENOMEM, "out of memory");
    c->o = *o;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int r = c->fd < 0 ? err_errno(e, -errno, "socket") : 0;
    if (r == 0 && connect(c->fd, (const struct sockaddr *)o->master, sizeof(*o->master)) < 0 &&
        errno != EINPROGRESS)
        r = err_errno(e, -errno, "connect");
    if (r == 0)
        r = start_tls(c, e);
    if (r == 0 && (r = uv_poll_init(o->loop, &c->poll, c->fd)) < 0)
        r = err_errno(e, r, "poll");
    if (r < 0) {
        SSL_free(c->ssl);
        if (c->fd >= 0)
            (void)close(c->fd);
        free(c);
        return r;
    }
    watch(c, UV_WRITABLE);
    *ret = c;
    return 0;
}

int conn_request(struct conn *c, const char *method, const char *path, const char *body, size_t len)
{
    strbuf_printf(&c->out,
                  "%s %s HTTP/1.1\r\nHost: master\r\nContent-Type: application/json\r\n"
                  "Content-Length: %zu\r\n\r\n",
                  method, path, len);
    strbuf_append(&c->out, body, len);
    if (c->out.failed)
        return -ENOMEM;
    c->busy = true;
    if (c->shaken)
        watch(c, UV_READABLE | UV_WRITABLE);
    return 0;
}
