// SPDX-License-Identifier: Apache-2.0
// Plain sockets to the test's server, for clients that do not behave.
#pragma once

#include "test/unit/common/http_util.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

struct raw {
    int fd;
    uv_poll_t poll;
    struct reply got; // all bytes until the end
    bool some;
    bool closed;
};

static inline void on_raw_closed(uv_handle_t *handle)
{
    struct raw *r = handle->data;
    (void)close(r->fd);
    r->closed = true;
    happened();
}

static inline void on_raw(uv_poll_t *poll, int status, int events)
{
    struct raw *r = poll->data;
    char buffer[4096];
    ssize_t n;
    (void)events;
    // After an error libuv has stopped polling: all that is left is read now.
    while ((n = recv(r->fd, buffer, sizeof(buffer), MSG_DONTWAIT)) > 0) {
        r->got.body = realloc(r->got.body, r->got.len + (size_t)n + 1);
        memcpy(r->got.body + r->got.len, buffer, (size_t)n);
        r->got.len += (size_t)n;
        r->got.body[r->got.len] = '\0';
        r->some = true;
    }
    if (n < 0 && errno == EAGAIN && status == 0)
        return;
    r->got.done = true;
    (void)uv_poll_stop(poll);
}

static inline void raw_open(struct site *x, struct raw *r, bool tcp)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(x->port)};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    memset(r, 0, sizeof(*r));
    (void)snprintf(un.sun_path, sizeof(un.sun_path), "%s", x->path);
    r->fd = socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int c = tcp ? connect(r->fd, (struct sockaddr *)&in, sizeof(in))
                : connect(r->fd, (struct sockaddr *)&un, sizeof(un));
    ck_assert_int_eq(c, 0);
    ck_assert_int_eq(uv_poll_init(&x->loop, &r->poll, r->fd), 0);
    r->poll.data = r;
    (void)uv_poll_start(&r->poll, UV_READABLE, on_raw);
}

static inline void raw_send(struct raw *r, const char *text)
{
    ck_assert_int_eq(send(r->fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static inline void raw_end(struct site *x, struct raw *r)
{
    free(r->got.body);
    r->got.body = NULL;
    uv_close((uv_handle_t *)&r->poll, on_raw_closed);
    await(x, &r->closed);
}
