// SPDX-License-Identifier: Apache-2.0
// hiredis in the libuv loop. The adapter is our own because the packaged one drops poll errors: a
// server that dies with unread data is then never noticed. An error on the descriptor is handed to
// hiredis as "readable": it reads the error itself and runs its disconnect path. One timer watches
// the oldest unanswered command (answers come in order); when it fires the context is freed, which
// completes all pending commands with an unknown outcome.
//
// A context belongs to hiredis, which frees it after its connect callback (failure) or disconnect
// callback; `ctx` is cleared right there. "Up" is later than "connected": a server that still loads
// its file answers LOADING.
#include "master/store/redis_conn.h"

#include "common/backoff.h"

#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#define DEFAULT_TIMEOUT_MS 5000
#define CALL_ARGS_MAX 16

enum conn_state {
    CONN_STOPPED,
    CONN_WAITING,
    CONN_CONNECTING,
    CONN_GREETING,
    CONN_UP,
    CONN_CLOSING
};

struct redis_conn {
    uv_loop_t *loop;
    char *path;
    uint64_t timeout_ms;
    void (*up)(void *userdata);
    void (*down)(const char *reason, void *userdata);
    void *userdata;

    enum conn_state state;
    bool wanted; // between start and stop
    redisAsyncContext *ctx;
    size_t pending;
    uv_timer_t retry;  // next try to connect, or to greet a server that loads
    uv_timer_t answer; // oldest pending command is overdue
    struct backoff backoff;
    char reason[200];
    int open_handles;
    void (*closed)(void *userdata);
    void *closed_userdata;
};

// --- the adapter: one uv_poll per context ---

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

static int link_attach(redisAsyncContext *ctx, uv_loop_t *loop)
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

// --- connecting ---

static void on_retry(uv_timer_t *timer);
static void greet(struct redis_conn *c);

static void set_reason(struct redis_conn *c, const char *text)
{
    (void)snprintf(c->reason, sizeof(c->reason), "%s",
                   text && text[0] ? text : "connection closed");
}

// The context is gone: tell, and wait for the next try.
static void gone(struct redis_conn *c)
{
    bool was_up = c->state == CONN_UP;
    c->pending = 0;
    (void)uv_timer_stop(&c->answer);
    (void)uv_timer_stop(&c->retry);
    if (c->state == CONN_CLOSING)
        return;
    c->state = CONN_STOPPED;
    if (c->wanted) {
        c->state = CONN_WAITING;
        (void)uv_timer_start(&c->retry, on_retry, backoff_fail(&c->backoff), 0);
    }
    if (was_up)
        c->down(c->reason, c->userdata);
}

static void drop_context(struct redis_conn *c)
{
    redisAsyncContext *ctx = c->ctx;
    if (!ctx)
        return;
    // Cleared first: hiredis calls pending callbacks and the disconnect callback from inside (or
    // right after the callback that we are in), and none of them may find a context to send on.
    c->ctx = NULL;
    ctx->data = NULL;
    redisAsyncFree(ctx);
    gone(c);
}

static void on_connect(const redisAsyncContext *ctx, int status)
{
    struct redis_conn *c = ctx->data;
    if (!c || c->ctx != ctx)
        return;
    if (status != REDIS_OK) {
        c->ctx = NULL;
        set_reason(c, ctx->errstr);
        gone(c);
        return;
    }
    c->state = CONN_GREETING;
    greet(c);
}

static void on_disconnect(const redisAsyncContext *ctx, int status)
{
    struct redis_conn *c = ctx->data;
    if (!c || c->ctx != ctx)
        return;
    c->ctx = NULL;
    set_reason(c, status == REDIS_OK ? NULL : ctx->errstr);
    gone(c);
}

static int open_context(struct redis_conn *c)
{
    redisAsyncContext *ctx = redisAsyncConnectUnix(c->path);
    if (!ctx)
        return -ENOMEM;
    int r = ctx->err ? -ECONNREFUSED : link_attach(ctx, c->loop);
    if (r < 0) {
        set_reason(c, ctx->err ? ctx->errstr : strerror(-r));
        redisAsyncFree(ctx);
        return r;
    }
    ctx->data = c;
    c->ctx = ctx;
    (void)redisAsyncSetDisconnectCallback(ctx, on_disconnect);
    (void)redisAsyncSetConnectCallback(ctx, on_connect); // arms the descriptor
    return 0;
}

static void try_now(struct redis_conn *c)
{
    c->state = CONN_CONNECTING;
    if (open_context(c) < 0)
        gone(c);
}

static void on_retry(uv_timer_t *timer)
{
    struct redis_conn *c = timer->data;
    if (c->state == CONN_GREETING)
        greet(c);
    else
        try_now(c);
}

void redis_conn_start(struct redis_conn *c)
{
    if (c->wanted || c->state == CONN_CLOSING)
        return;
    c->wanted = true;
    (void)backoff_reset(&c->backoff);
    try_now(c);
}

void redis_conn_stop(struct redis_conn *c)
{
    if (!c->wanted || c->state == CONN_CLOSING)
        return;
    c->wanted = false;
    (void)uv_timer_stop(&c->retry);
    if (!c->ctx)
        c->state = CONN_STOPPED;
    redis_conn_drop(c, "server ended");
}

void redis_conn_drop(struct redis_conn *c, const char *reason)
{
    if (!c->ctx)
        return;
    set_reason(c, reason);
    drop_context(c);
}

void redis_conn_settled(struct redis_conn *c)
{
    (void)backoff_reset(&c->backoff);
}

bool redis_conn_is_up(const struct redis_conn *c)
{
    return c->state == CONN_UP;
}

const char *redis_conn_reason(const struct redis_conn *c)
{
    return c->reason;
}

// --- commands ---

struct command {
    struct redis_conn *conn;
    redis_reply_fn *fn;
    void *userdata;
};

static void on_overdue(uv_timer_t *timer)
{
    struct redis_conn *c = timer->data;
    char text[100];
    (void)snprintf(text, sizeof(text), "no answer within %llu ms",
                   (unsigned long long)c->timeout_ms);
    redis_conn_drop(c, text);
}

static void on_reply(redisAsyncContext *ctx, void *reply, void *privdata)
{
    struct command command = *(struct command *)privdata;
    struct redis_conn *c = command.conn;
    free(privdata);
    if (c->ctx == ctx && reply && --c->pending > 0)
        (void)uv_timer_start(&c->answer, on_overdue, c->timeout_ms, 0);
    else if (c->ctx == ctx && reply)
        (void)uv_timer_stop(&c->answer);
    // What hiredis still hands over for a context that was dropped counts as unknown.
    command.fn(c->ctx == ctx ? reply : NULL, command.userdata);
}

static int send_command(struct redis_conn *c, int argc, const char **argv, const size_t *lengths,
                        redis_reply_fn *fn, void *userdata)
{
    if (!c->ctx)
        return -ENOTCONN;
    struct command *command = malloc(sizeof(*command));
    if (!command)
        return -ENOMEM;
    *command = (struct command){c, fn, userdata};
    if (redisAsyncCommandArgv(c->ctx, on_reply, command, argc, argv, lengths) != REDIS_OK) {
        free(command);
        bool torn_down = c->ctx->c.flags & (REDIS_DISCONNECTING | REDIS_FREEING);
        return torn_down ? -ENOTCONN : -ENOMEM; // down() is about to come
    }
    if (c->pending++ == 0)
        (void)uv_timer_start(&c->answer, on_overdue, c->timeout_ms, 0);
    return 0;
}

int redis_conn_command(struct redis_conn *c, int argc, const char **argv, const size_t *lengths,
                       redis_reply_fn *fn, void *userdata)
{
    return c->state == CONN_UP ? send_command(c, argc, argv, lengths, fn, userdata) : -ENOTCONN;
}

int redis_conn_call(struct redis_conn *c, redis_reply_fn *fn, void *userdata, ...)
{
    const char *argv[CALL_ARGS_MAX];
    size_t lengths[CALL_ARGS_MAX];
    int argc = 0;
    va_list ap;

    va_start(ap, userdata);
    for (const char *a = va_arg(ap, const char *); a && argc < CALL_ARGS_MAX;
         a = va_arg(ap, const char *)) {
        argv[argc] = a;
        lengths[argc++] = strlen(a);
    }
    va_end(ap);
    return redis_conn_command(c, argc, argv, lengths, fn, userdata);
}

// --- greeting: a server that loads accepts connections and refuses commands ---

static void on_pong(const struct redisReply *reply, void *userdata)
{
    struct redis_conn *c = userdata;
    if (!reply || c->state != CONN_GREETING)
        return;
    if (reply_kind(reply) != REPLY_ERROR) {
        c->state = CONN_UP;
        c->up(c->userdata);
    } else if (reply_is_error(reply, "LOADING") || reply_is_error(reply, "BUSY")) {
        set_reason(c, reply_text(reply, NULL));
        (void)uv_timer_start(&c->retry, on_retry, backoff_fail(&c->backoff), 0);
    } else {
        redis_conn_drop(c, reply_text(reply, NULL));
    }
}

static void greet(struct redis_conn *c)
{
    static const char *argv[] = {"PING"};
    static const size_t lengths[] = {4};
    // Not dropped here: hiredis's connect callback, where we may be, mustn't free its context.
    if (send_command(c, 1, argv, lengths, on_pong, c) < 0)
        (void)uv_timer_start(&c->retry, on_retry, backoff_fail(&c->backoff), 0);
}

// --- life ---

int redis_conn_new(const struct redis_conn_options *o, struct redis_conn **ret, struct err *e)
{
    if (strlen(o->path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
        return err_set(e, -ENAMETOOLONG, "%s: longer than a socket's path may be", o->path);
    struct redis_conn *c = calloc(1, sizeof(*c));
    if (!c || !(c->path = strdup(o->path))) {
        free(c);
        return err_set(e, -ENOMEM, "out of memory");
    }
    c->loop = o->loop;
    c->timeout_ms = o->timeout_ms ? o->timeout_ms : DEFAULT_TIMEOUT_MS;
    c->up = o->up;
    c->down = o->down;
    c->userdata = o->userdata;
    set_reason(c, "not connected yet");
    backoff_init(&c->backoff, 4, 250);
    (void)uv_timer_init(c->loop, &c->retry); // never fails
    (void)uv_timer_init(c->loop, &c->answer);
    c->retry.data = c->answer.data = c;
    *ret = c;
    return 0;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct redis_conn *c = handle->data;
    if (--c->open_handles > 0)
        return;
    if (c->closed)
        c->closed(c->closed_userdata);
    free(c->path);
    free(c);
}

void redis_conn_close(struct redis_conn *c, void (*closed)(void *userdata), void *userdata)
{
    c->closed = closed;
    c->closed_userdata = userdata;
    c->wanted = false;
    c->state = CONN_CLOSING;
    set_reason(c, "closed");
    drop_context(c);
    c->open_handles = 2;
    uv_close((uv_handle_t *)&c->retry, on_handle_closed);
    uv_close((uv_handle_t *)&c->answer, on_handle_closed);
}

// --- replies ---

enum reply_kind reply_kind(const struct redisReply *r)
{
    switch (r->type) {
    case REDIS_REPLY_INTEGER:
        return REPLY_INTEGER;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
        return REPLY_TEXT;
    case REDIS_REPLY_ERROR:
        return REPLY_ERROR;
    case REDIS_REPLY_ARRAY:
        return REPLY_LIST;
    default:
        return REPLY_NIL;
    }
}

const char *reply_text(const struct redisReply *r, size_t *ret_len)
{
    enum reply_kind kind = reply_kind(r);
    const bool has = kind == REPLY_TEXT || kind == REPLY_ERROR;
    if (ret_len)
        *ret_len = has ? (size_t)r->len : 0;
    return has ? r->str : "";
}

int reply_integer(const struct redisReply *r, int64_t *ret)
{
    if (reply_kind(r) == REPLY_INTEGER) {
        *ret = r->integer;
        return 0;
    }
    char *end;
    const char *text = reply_text(r, NULL);
    errno = 0;
    int64_t value = strtoll(text, &end, 10);
    if (reply_kind(r) != REPLY_TEXT || errno || end == text || *end)
        return -EPROTO;
    *ret = value;
    return 0;
}

size_t reply_count(const struct redisReply *r)
{
    return reply_kind(r) == REPLY_LIST ? (size_t)r->elements : 0;
}

const struct redisReply *reply_item(const struct redisReply *r, size_t i)
{
    return i < reply_count(r) ? r->element[i] : NULL;
}

bool reply_is_error(const struct redisReply *r, const char *code)
{
    size_t len = strlen(code);
    const char *text = reply_text(r, NULL);
    return reply_kind(r) == REPLY_ERROR && strncmp(text, code, len) == 0 &&
           (text[len] == ' ' || !text[len]);
}
