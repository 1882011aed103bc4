// SPDX-License-Identifier: Apache-2.0
// Accepting connections: the unix socket with its peers' credentials, and TCP in front of the TLS
// pump. Without a descriptor or a place for a further connection a listener rests until one ends;
// it never spins.
#include "common/cleanup.h"
#include "common/http_address.h"
#include "common/http_server_internal.h"
#include "common/tls_front.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <utlist.h>

#define ACCEPTS_PER_CALLBACK 64
#define RETRY_MS 1000
#define TCP_IDLE_S 30 // then a probe each TCP_INTERVAL_S, three of them
#define TCP_INTERVAL_S 10
#define TCP_PROBES 3

static void on_listener_closed(uv_handle_t *handle)
{
    struct http_listener *l = handle->data;
    struct http_server *s = l->server;
    if (--l->handles > 0)
        return;
    (void)close(l->fd);
    free(l->path);
    free(l);
    server_handle_closed(s); // may be the last: libuv closes the newest first
}

void listeners_close(struct http_server *s)
{
    struct http_listener *l, *next;
    for (l = s->listeners; l; l = next) {
        next = l->next;
        DL_DELETE(s->listeners, l);
        if (l->path)
            (void)unlink(l->path);
        uv_close((uv_handle_t *)&l->poll, on_listener_closed);
        uv_close((uv_handle_t *)&l->retry, on_listener_closed);
    }
}

// The limit is for each kind by itself: a flood from outside does not lock local callers out.
static bool has_room(const struct http_listener *l, unsigned *ret_ms)
{
    const struct http_server *s = l->server;
    *ret_ms = 0;
    return l->tls ? tls_front_room(s->front, ret_ms) : s->n_local < s->options.max_local;
}

static void on_acceptable(uv_poll_t *poll, int status, int events);

static void unpause(struct http_listener *l)
{
    if (!l->paused)
        return;
    l->paused = false;
    (void)uv_timer_stop(&l->retry);
    (void)uv_poll_start(&l->poll, UV_READABLE, on_acceptable);
}

void listeners_unpause(struct http_server *s)
{
    for (struct http_listener *l = s->listeners; l; l = l->next)
        unpause(l);
}

static void on_retry(uv_timer_t *timer)
{
    unpause(timer->data);
}

// The end of a connection of ours wakes the listener (listeners_unpause). When accept itself lacked
// something, the end of anything may help, so it is also tried again after a while.
static void pause_listener(struct http_listener *l, unsigned retry_ms)
{
    l->paused = true;
    l->server->accept_pauses++;
    (void)uv_poll_stop(&l->poll);
    if (retry_ms)
        (void)uv_timer_start(&l->retry, on_retry, retry_ms, 0);
}

static void unix_peer(int fd, struct http_peer *peer)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
        return;
    peer->local = true;
    peer->uid = cred.uid;
    peer->gid = cred.gid;
    peer->pid = cred.pid;
}

// Held requests and streams send nothing for long: probes find peers that vanished.
static void tcp_options(int fd)
{
    const int one = 1, idle = TCP_IDLE_S, interval = TCP_INTERVAL_S, probes = TCP_PROBES;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

static void take(struct http_listener *l, int fd, const struct sockaddr_storage *from)
{
    struct http_peer peer = {0};
    int r;
    if (l->tls) {
        http_address_text(from, peer.address);
        tcp_options(fd);
        r = tls_front_accept(l->server->front, fd, &peer);
    } else {
        unix_peer(fd, &peer);
        r = peer.local ? server_add_connection(l->server, fd, &peer) : (close(fd), -EACCES);
    }
    (void)r; // the connection is closed then, and the client sees that
}

static void on_acceptable(uv_poll_t *poll, int status, int events)
{
    struct http_listener *l = poll->data;
    (void)status;
    (void)events;
    for (int i = 0; i < ACCEPTS_PER_CALLBACK; i++) {
        struct sockaddr_storage from = {0};
        socklen_t len = sizeof(from);
        unsigned retry_ms;
        if (!has_room(l, &retry_ms)) {
            pause_listener(l, retry_ms);
            return;
        }
        l->server->accepts++;
        int fd = accept4(l->fd, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            take(l, fd, &from);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            (void)tls_front_evict_idle(l->server->front);
            pause_listener(l, RETRY_MS);
            return;
        }
    }
}

// Takes fd and path (may be NULL).
static int listener_new(struct http_server *s, int fd, bool tls, char *path, struct err *e)
{
    struct http_listener *l = calloc(1, sizeof(*l));
    int r = l ? uv_poll_init_socket(s->options.loop, &l->poll, fd) : -ENOMEM;
    if (r < 0) {
        free(l);
        free(path);
        (void)close(fd);
        return err_errno(e, r, "listening");
    }
    l->server = s;
    l->fd = fd;
    l->tls = tls;
    l->path = path;
    (void)uv_timer_init(s->options.loop, &l->retry);
    l->poll.data = l->retry.data = l;
    l->handles = 2;
    s->handles++;
    DL_APPEND(s->listeners, l);
    (void)uv_poll_start(&l->poll, UV_READABLE, on_acceptable);
    return 0;
}

// A socket file is stale when nobody accepts on it.
static int remove_stale(const char *path, const struct sockaddr_un *address, struct err *e)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : err_errno(e, -errno, "%s", path);
    if (!S_ISSOCK(st.st_mode))
        return err_set(e, -EADDRINUSE, "%s: exists and is not a socket", path);
    // Non-blocking: with a full backlog connect() would wait; it says EAGAIN then.
    cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_errno(e, -errno, "socket");
    if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 ||
        errno != ECONNREFUSED)
        return err_set(e, -EADDRINUSE, "%s: another process listens there", path);
    return unlink(path) < 0 && errno != ENOENT ? err_errno(e, -errno, "%s", path) : 0;
}

int http_server_listen_unix(struct http_server *s, const char *path, mode_t mode, gid_t gid,
                            struct err *e)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= 100)
        return err_set(e, -ENAMETOOLONG,
                       "%s: a socket's path has at most 99 characters; choose a shorter folder",
                       path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    int r = remove_stale(path, &address, e);
    if (r < 0)
        return r;
    cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    mode_t mask = umask(0777); // nobody gets in before the mode is right
    r = fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
    (void)umask(mask);
    // Its group is ours already as a rule, and a hardened service may not even ask for another one.
    bool other_group = gid != (gid_t)-1 && gid != getegid();
    if (r == 0 && ((other_group && chown(path, (uid_t)-1, gid) < 0) || chmod(path, mode) < 0 ||
                   listen(fd, 1024) < 0))
        r = -errno;
    if (r < 0)
        return err_errno(e, r, "%s", path);
    char *copy = strdup(path);
    return copy ? listener_new(s, TAKE_FD(fd), false, copy, e)
                : err_set(e, -ENOMEM, "out of memory");
}

static int front_connected(int fd, const struct http_peer *peer, void *userdata)
{
    return server_add_connection(userdata, fd, peer);
}

static void front_ended(void *userdata)
{
    struct http_server *s = userdata;
    listeners_unpause(s);
    server_kick(s);
}

static int bind_tcp(const char *address, uint16_t port, uint16_t *ret_port, struct err *e)
{
    struct sockaddr_storage a = {0};
    struct sockaddr_in *v4 = (struct sockaddr_in *)&a;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&a;
    socklen_t len = sizeof(*v4);
    int one = 1, zero = 0;
    if (inet_pton(AF_INET, address, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
    } else if (inet_pton(AF_INET6, address, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
        len = sizeof(*v6);
    } else {
        return err_set(e, -EINVAL, "listen address %s: expected an IPv4 or IPv6 address", address);
    }
    cleanup_close int fd = socket(a.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_errno(e, -errno, "socket");
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (a.ss_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
    if (bind(fd, (struct sockaddr *)&a, len) < 0 || listen(fd, 4096) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) < 0)
        return err_errno(e, -errno, "%s port %u", address, port);
    *ret_port = ntohs(a.ss_family == AF_INET ? v4->sin_port : v6->sin6_port);
    return TAKE_FD(fd);
}

int http_server_listen_tls(struct http_server *s, const char *address, uint16_t port,
                           const struct tls_server_options *tls, uint16_t *ret_port, struct err *e)
{
    const struct tls_front_options o = {.loop = s->options.loop,
                                        .connected = front_connected,
                                        .ended = front_ended,
                                        .userdata = s,
                                        .connections = s->options.max_connections,
                                        .limits = s->options.limits,
                                        .limits_userdata = s->options.userdata};
    int r = s->front ? 0 : tls_front_new(&o, tls, &s->front, e);
    if (r < 0)
        return r;
    int fd = bind_tcp(address, port, ret_port, e);
    return fd < 0 ? fd : listener_new(s, fd, true, NULL, e);
}

int http_server_set_tls(struct http_server *s, const struct tls_server_options *tls, struct err *e)
{
    return s->front ? tls_front_set(s->front, tls, e)
                    : err_set(e, -EINVAL, "there is no TLS listener");
}
