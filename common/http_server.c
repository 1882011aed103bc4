// SPDX-License-Identifier: Apache-2.0
// libmicrohttpd without threads on a libuv loop: its epoll descriptor is polled, its timeout is a
// timer, and a prepare handle runs it when our own code resumed or added something. It has no
// listen socket: we accept (http_listen.c), so that limits, TLS and peers are ours.
#include "common/http_server_internal.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/tls_front.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <utlist.h>

#define POOL_STEP 1024u

static void drop_log(void *cls, const char *fmt, va_list ap)
{
    (void)cls;
    (void)fmt;
    (void)ap; // it complains about TCP options of socket pairs, three lines an answer
}

static void arm_timer(struct http_server *s);

static void run(struct http_server *s)
{
    s->kicked = false;
    (void)MHD_run(s->daemon);
    arm_timer(s);
}

static void on_timer(uv_timer_t *timer)
{
    run(timer->data);
}

static void arm_timer(struct http_server *s)
{
    MHD_UNSIGNED_LONG_LONG ms;
    if (MHD_get_timeout(s->daemon, &ms) == MHD_YES)
        (void)uv_timer_start(&s->timer, on_timer, ms, 0);
    else
        (void)uv_timer_stop(&s->timer);
}

static void on_epoll(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    run(poll->data);
}

static void on_prepare(uv_prepare_t *prepare)
{
    struct http_server *s = prepare->data;
    s->turns++;
    // Answers made while it runs may resume further connections.
    for (int i = 0; s->kicked && i < 4; i++)
        run(s);
}

void server_kick(struct http_server *s)
{
    s->kicked = true;
}

// --- connections ---

static void conn_handle_closed(uv_handle_t *handle)
{
    struct http_conn *c = handle->data;
    if (--c->handles > 0)
        return;
    struct http_server *s = c->server;
    DL_DELETE(s->conns, c);
    free(c->path);
    free(c);
    if (s->closing && !s->conns)
        server_kick(s);
}

static void conn_end(struct http_conn *c)
{
    struct http_server *s = c->server;
    if (c->ended)
        return;
    c->ended = true;
    s->by_fd[c->fd] = NULL;
    s->n_conns--;
    s->n_local -= c->peer.local;
    c->mhd = NULL;
    uv_close((uv_handle_t *)&c->deadline, conn_handle_closed);
    if (c->gone_open)
        uv_close((uv_handle_t *)&c->gone, conn_handle_closed);
    listeners_unpause(s);
}

static void on_deadline(uv_timer_t *timer)
{
    struct http_conn *c = timer->data;
    if (!c->ended)
        (void)shutdown(c->fd, SHUT_RDWR); // libmicrohttpd sees the end and closes
}

void conn_deadline(struct http_conn *c, unsigned ms)
{
    if (ms)
        (void)uv_timer_start(&c->deadline, on_deadline, ms, 0);
    else
        (void)uv_timer_stop(&c->deadline);
}

void conn_busy(struct http_conn *c, bool busy)
{
    if (!c->ended && !c->peer.local)
        tls_front_busy(c->server->front, c->fd, busy);
}

static void on_gone(uv_poll_t *poll, int status, int events)
{
    struct http_conn *c = poll->data;
    (void)status;
    (void)events;
    conn_watch(c, false);
    if (c->req)
        request_client_gone(c->req);
}

// UV_PRIORITIZED never happens on these sockets, but with it set libuv reports EPOLLHUP: both
// directions are over. UV_DISCONNECT would also mean a client that only shut down its sending side.
void conn_watch(struct http_conn *c, bool on)
{
    if (c->ended || on == c->watching)
        return;
    if (on && !c->gone_open) {
        if (uv_poll_init_socket(c->server->options.loop, &c->gone, c->fd) < 0)
            return;
        c->gone.data = c;
        c->gone_open = true;
        c->handles++;
    }
    c->watching = on;
    if (on)
        (void)uv_poll_start(&c->gone, UV_PRIORITIZED, on_gone);
    else
        (void)uv_poll_stop(&c->gone);
}

static void on_connection(void *cls, struct MHD_Connection *mhd, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http_server *s = cls;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
        struct http_conn *c = s->by_fd[info->connect_fd];
        c->mhd = mhd;
        *socket_context = c;
    } else if (*socket_context) {
        conn_end(*socket_context);
    }
}

// The first line of a request: its headers have a deadline from here on. The target is kept as it
// came because libmicrohttpd's own copy of the path is decoded already.
static void *on_uri(void *cls, const char *uri, struct MHD_Connection *mhd)
{
    struct http_server *s = cls;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct http_conn *c = info ? info->socket_context : NULL;
    if (!c)
        return NULL;
    conn_deadline(c, s->options.header_timeout_ms);
    free(c->path);
    c->path = strndup(uri, strcspn(uri, "?"));
    return NULL;
}

static int remember(struct http_server *s, struct http_conn *c)
{
    size_t fd = (size_t)c->fd;
    if (fd >= s->by_fd_size) {
        size_t size = (fd + 64) * 2;
        struct http_conn **x = realloc(s->by_fd, size * sizeof(*x));
        if (!x)
            return -ENOMEM;
        memset(x + s->by_fd_size, 0, (size - s->by_fd_size) * sizeof(*x));
        s->by_fd = x;
        s->by_fd_size = size;
    }
    s->by_fd[fd] = c;
    return 0;
}

int server_add_connection(struct http_server *s, int fd, const struct http_peer *peer)
{
    static const struct sockaddr address = {.sa_family = AF_UNIX};
    struct http_conn *c = calloc(1, sizeof(*c));
    if (!c) {
        (void)close(fd);
        return -ENOMEM;
    }
    c->server = s;
    c->fd = fd;
    c->peer = *peer;
    if (remember(s, c) < 0 || uv_timer_init(s->options.loop, &c->deadline) < 0) {
        free(c);
        (void)close(fd);
        return -ENOMEM;
    }
    c->deadline.data = c;
    c->handles = 1;
    DL_APPEND(s->conns, c);
    s->n_conns++;
    s->n_local += c->peer.local;
    conn_deadline(c, s->options.header_timeout_ms);
    server_kick(s);
    if (MHD_add_connection(s->daemon, fd, &address, sizeof(address)) != MHD_YES) {
        conn_end(c); // it has closed the descriptor
        return -EIO;
    }
    return 0;
}

// --- life ---

static int start_daemon(struct http_server *s)
{
    unsigned idle_s = (s->options.idle_timeout_ms + 999) / 1000;
    s->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ERROR_LOG, 0,
        NULL, NULL, request_access, s, MHD_OPTION_EXTERNAL_LOGGER, drop_log, NULL,
        MHD_OPTION_NOTIFY_COMPLETED, request_completed, s, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, s, MHD_OPTION_URI_LOG_CALLBACK, on_uri, s, MHD_OPTION_CONNECTION_TIMEOUT,
        idle_s, MHD_OPTION_CONNECTION_LIMIT, s->options.max_connections + s->options.max_local + 64,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)LIMIT_HEAD_POOL,
        MHD_OPTION_CONNECTION_MEMORY_INCREMENT, (size_t)POOL_STEP, MHD_OPTION_END);
    return s->daemon ? 0 : -EIO;
}

// OpenSSL writes to sockets without MSG_NOSIGNAL.
static void ignore_sigpipe(void)
{
    struct sigaction now;
    if (sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
        (void)signal(SIGPIPE, SIG_IGN);
}

int http_server_new(const struct http_server_options *o, struct http_server **ret, struct err *e)
{
    struct http_server *s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(e, -ENOMEM, "out of memory");
    s->options = *o;
    if (s->options.max_local == 0)
        s->options.max_local = o->max_connections;
    ignore_sigpipe();
    if (start_daemon(s) < 0) {
        free(s);
        return err_set(e, -EIO, "libmicrohttpd can't be started");
    }
    int fd = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    int r = uv_poll_init(o->loop, &s->epoll, fd);
    if (r < 0) {
        MHD_stop_daemon(s->daemon);
        free(s);
        return err_errno(e, r, "polling libmicrohttpd");
    }
    (void)uv_timer_init(o->loop, &s->timer); // these two can't fail
    (void)uv_prepare_init(o->loop, &s->kick);
    s->epoll.data = s->timer.data = s->kick.data = s;
    s->handles = 3;
    (void)uv_poll_start(&s->epoll, UV_READABLE, on_epoll);
    (void)uv_prepare_start(&s->kick, on_prepare);
    *ret = s;
    return 0;
}

unsigned http_server_connections(const struct http_server *s)
{
    return s->n_conns;
}

void http_server_stats(const struct http_server *s, struct http_server_stats *ret)
{
    struct tls_front_stats f = {0};
    *ret = (struct http_server_stats){.local = s->n_local,
                                      .accepts = s->accepts,
                                      .accept_pauses = s->accept_pauses,
                                      .turns = s->turns};
    if (s->front)
        tls_front_counts(s->front, &f, ret);
    ret->handshakes_done = f.handshakes;
    ret->handshakes_failed = f.handshakes_failed;
    ret->handshakes_evicted = f.handshakes_evicted;
    ret->refused_address = f.refused_address;
    ret->refused_full = f.refused_full;
    ret->evicted_idle = f.evicted_idle;
    ret->bad_requests = f.bad_requests;
    ret->starved = f.starved;
}

static void server_free(struct http_server *s)
{
    void (*closed)(void *userdata) = s->closed;
    void *userdata = s->closed_userdata;
    free(s->by_fd);
    free(s);
    if (closed)
        closed(userdata);
}

void server_handle_closed(struct http_server *s)
{
    if (--s->handles == 0)
        server_free(s);
}

static void on_handle_closed(uv_handle_t *handle)
{
    server_handle_closed(handle->data);
}

// All connections are gone: the daemon can stop, and its handles close.
static void stop(struct http_server *s)
{
    if (s->stopped)
        return;
    s->stopped = true;
    uv_close((uv_handle_t *)&s->epoll, on_handle_closed);
    uv_close((uv_handle_t *)&s->timer, on_handle_closed);
    uv_close((uv_handle_t *)&s->kick, on_handle_closed);
    MHD_stop_daemon(s->daemon);
    s->daemon = NULL;
}

static void on_closing(uv_prepare_t *prepare)
{
    struct http_server *s = prepare->data;
    if (!s->conns && tls_front_idle(s->front)) {
        tls_front_free(s->front);
        s->front = NULL;
        stop(s);
        return;
    }
    run(s);
}

void http_server_close(struct http_server *s, void (*closed)(void *userdata), void *userdata)
{
    if (s->closing)
        return;
    s->closing = true;
    s->closed = closed;
    s->closed_userdata = userdata;
    listeners_close(s);
    struct http_conn *c, *next;
    for (c = s->conns; c; c = next) {
        next = c->next;
        if (c->ended)
            continue;
        conn_watch(c, false);
        (void)shutdown(c->fd, SHUT_RDWR);
        if (c->req)
            request_client_gone(c->req);
    }
    tls_front_close_all(s->front);
    (void)uv_prepare_stop(&s->kick);
    (void)uv_prepare_start(&s->kick, on_closing);
    (void)uv_timer_start(&s->timer, on_timer, 0, 0); // so that the loop turns
}
