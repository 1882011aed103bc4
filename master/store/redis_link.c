// SPDX-License-Identifier: Apache-2.0
// The adapter is our own because the packaged one drops poll errors: a server that dies with unread
// data is then never noticed. An error on the descriptor is handed to hiredis as "readable": it
// reads the error itself and runs its disconnect path.
#include "master/store/redis_link.h"

#include <errno.h>
#include <hiredis/async.h>
#include <stdlib.h>

struct link {
    uv_poll_t poll;
    redisAsyncContext *ctx; // NULL once hiredis has let go
    int events;
};

static void link_change(struct link *l, int events);

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct link *l = poll->data;
    if (status < 0) {
        if (l->ctx)
            redisAsyncHandleRead(l->ctx);
        events = l->events;
        l->events = 0; // libuv has stopped the handle
        if (l->ctx)
            link_change(l, events);
        return;
    }
    if (l->ctx && (events & UV_READABLE))
        redisAsyncHandleRead(l->ctx);
    if (l->ctx && (events & UV_WRITABLE))
        redisAsyncHandleWrite(l->ctx);
}

static void link_change(struct link *l, int events)
{
    if (events == l->events)
        return;
    l->events = events;
    if (events)
        (void)uv_poll_start(&l->poll, events, on_poll);
    else
        (void)uv_poll_stop(&l->poll);
}

static void add_read(void *data)
{
    link_change(data, ((struct link *)data)->events | UV_READABLE);
}

static void del_read(void *data)
{
    link_change(data, ((struct link *)data)->events & ~UV_READABLE);
}

static void add_write(void *data)
{
    link_change(data, ((struct link *)data)->events | UV_WRITABLE);
}

static void del_write(void *data)
{
    link_change(data, ((struct link *)data)->events & ~UV_WRITABLE);
}

static void on_link_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void link_cleanup(void *data)
{
    struct link *l = data;
    l->ctx = NULL;
    uv_close((uv_handle_t *)&l->poll, on_link_closed);
}

int redis_link_attach(redisAsyncContext *ctx, uv_loop_t *loop)
{
    struct link *l = calloc(1, sizeof(*l));
    if (!l)
        return -ENOMEM;
    int r = uv_poll_init(loop, &l->poll, ctx->c.fd);
    if (r < 0) {
        free(l);
        return r;
    }
    l->poll.data = l;
    l->ctx = ctx;
    ctx->ev.data = l;
    ctx->ev.addRead = add_read;
    ctx->ev.delRead = del_read;
    ctx->ev.addWrite = add_write;
    ctx->ev.delWrite = del_write;
    ctx->ev.cleanup = link_cleanup;
    return 0;
}
