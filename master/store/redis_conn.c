// SPDX-License-Identifier: Apache-2.0
// A connection's life: resolve the name, connect, log in, wait until the server has loaded, up. One
// timer watches the oldest unanswered command (answers come in order), before that the connecting;
// when it fires the context is freed, which completes all pending commands with an unknown outcome.
//
// A context belongs to hiredis, which frees it after its connect callback (failure) or disconnect
// callback; `ctx` is cleared right there. "Up" is later than "connected": a server that still loads
// its file answers LOADING.
#include "master/store/redis_conn.h"

#include "common/backoff.h"
#include "master/store/redis_link.h"

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

struct resolving { // a name being looked up; frees itself
    uv_getaddrinfo_t request;
    struct redis_conn *conn; // NULL = nobody waits for it any more
};

struct redis_conn {
    uv_loop_t *loop;
    struct redis_address address;
    uint64_t timeout_ms;
    void (*up)(void *userdata);
    void (*down)(const char *reason, void *userdata);
    void (*failed)(const char *reason, bool refused, void *userdata);
    void *userdata;

    enum conn_state state;
    bool wanted; // between start and stop
    redisAsyncContext *ctx;
    struct resolving *resolving;
    unsigned tries; // the addresses of a name are tried in turn
    bool refused;   // by what it answered to the greeting
    size_t pending;
    uv_timer_t retry;  // next try to connect, or to greet a server that loads
    uv_timer_t answer; // oldest pending command is overdue
    struct backoff backoff;
    char reason[400];
    int open_handles;
    void (*closed)(void *userdata);
    void *closed_userdata;
};

// --- connecting ---

static void on_retry(uv_timer_t *timer);
static void log_in(struct redis_conn *c);
static void greet(struct redis_conn *c);
static void on_overdue(uv_timer_t *timer);

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
    bool refused = c->refused;
    c->refused = false;
    if (was_up)
        c->down(c->reason, c->userdata);
    else if (c->wanted && c->failed)
        c->failed(c->reason, refused, c->userdata);
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
    (void)uv_timer_stop(&c->answer);
    c->state = CONN_GREETING;
    log_in(c);
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

// `ip` NULL = by the path.
static int open_context(struct redis_conn *c, const char *ip)
{
    redisAsyncContext *ctx =
        ip ? redisAsyncConnect(ip, c->address.port) : redisAsyncConnectUnix(c->address.path);
    if (!ctx)
        return -ENOMEM;
    int r = ctx->err ? -ECONNREFUSED : redis_link_attach(ctx, c->loop);
    if (r < 0) {
        set_reason(c, ctx->err ? ctx->errstr : strerror(-r));
        redisAsyncFree(ctx);
        return r;
    }
    if (ip)
        (void)redisEnableKeepAlive(&ctx->c); // a peer that is gone is noticed when idle too
    ctx->data = c;
    c->ctx = ctx;
    (void)uv_timer_start(&c->answer, on_overdue, c->timeout_ms, 0);
    (void)redisAsyncSetDisconnectCallback(ctx, on_disconnect);
    (void)redisAsyncSetConnectCallback(ctx, on_connect); // arms the descriptor
    return 0;
}

static int connect_resolved(struct redis_conn *c, const struct addrinfo *found)
{
    char ip[INET6_ADDRSTRLEN];
    unsigned n = 0;
    for (const struct addrinfo *a = found; a; a = a->ai_next)
        n++;
    if (n == 0) {
        set_reason(c, "no address");
        return -ENOENT;
    }
    for (unsigned skip = c->tries++ % n; skip > 0; skip--)
        found = found->ai_next;
    int r = uv_ip_name(found->ai_addr, ip, sizeof(ip));
    if (r < 0) {
        set_reason(c, uv_strerror(r));
        return r;
    }
    return open_context(c, ip);
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct resolving *x = request->data;
    struct redis_conn *c = x->conn;
    free(x);
    if (c) {
        c->resolving = NULL;
        if (status < 0) {
            (void)snprintf(c->reason, sizeof(c->reason), "%.100s: %s", c->address.host,
                           uv_strerror(status));
            gone(c);
        } else if (connect_resolved(c, found) < 0) {
            gone(c);
        }
    }
    uv_freeaddrinfo(found);
}

static int resolve(struct redis_conn *c)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct resolving *x = calloc(1, sizeof(*x));
    if (!x)
        return -ENOMEM;
    x->conn = c;
    x->request.data = x;
    int r = uv_getaddrinfo(c->loop, &x->request, on_resolved, c->address.host, NULL, &hints);
    if (r < 0) {
        set_reason(c, uv_strerror(r));
        free(x);
        return r;
    }
    c->resolving = x;
    return 0;
}

static void forget_resolving(struct redis_conn *c)
{
    if (c->resolving)
        c->resolving->conn = NULL;
    c->resolving = NULL;
}

static void try_now(struct redis_conn *c)
{
    c->state = CONN_CONNECTING;
    if ((c->address.path ? open_context(c, NULL) : resolve(c)) < 0)
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
    forget_resolving(c);
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
    (void)snprintf(text, sizeof(text), "no %s within %llu ms",
                   c->state == CONN_CONNECTING ? "connection" : "answer",
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

// --- greeting: who we are, and a server that loads accepts connections and refuses commands ---

static void refuse(struct redis_conn *c, const struct redisReply *reply)
{
    c->refused = true;
    redis_conn_drop(c, reply_text(reply, NULL));
}

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
        refuse(c, reply);
    }
}

static void on_login(const struct redisReply *reply, void *userdata)
{
    struct redis_conn *c = userdata;
    if (reply && c->state == CONN_GREETING && reply_kind(reply) == REPLY_ERROR)
        refuse(c, reply);
}

static int send_texts(struct redis_conn *c, int argc, const char **argv, redis_reply_fn *fn)
{
    size_t lengths[3];
    for (int i = 0; i < argc; i++)
        lengths[i] = strlen(argv[i]);
    return send_command(c, argc, argv, lengths, fn, c);
}

// What can't be sent for want of memory is refused by the server at the next command.
static void log_in(struct redis_conn *c)
{
    const struct redis_address *a = &c->address;
    const char *auth[] = {"AUTH", a->user ? a->user : a->password, a->password};
    const char *database[] = {"SELECT", a->database};
    if (a->password)
        (void)!send_texts(c, a->user ? 3 : 2, auth, on_login);
    if (a->database[0])
        (void)!send_texts(c, 2, database, on_login);
}

static void greet(struct redis_conn *c)
{
    const char *argv[] = {"PING"};
    // Not dropped here: hiredis's connect callback, where we may be, mustn't free its context.
    if (send_texts(c, 1, argv, on_pong) < 0)
        (void)uv_timer_start(&c->retry, on_retry, backoff_fail(&c->backoff), 0);
}

// --- life ---

int redis_conn_new(const struct redis_conn_options *o, struct redis_conn **ret, struct err *e)
{
    const char *path = o->address.path;
    if (path && strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
        return err_set(e, -ENAMETOOLONG, "%s: longer than a socket's path may be", path);
    struct redis_conn *c = calloc(1, sizeof(*c));
    if (!c || redis_address_copy(&o->address, &c->address) < 0) {
        free(c);
        return err_set(e, -ENOMEM, "out of memory");
    }
    c->loop = o->loop;
    c->timeout_ms = o->timeout_ms ? o->timeout_ms : DEFAULT_TIMEOUT_MS;
    c->up = o->up;
    c->down = o->down;
    c->failed = o->failed;
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
    redis_address_free(&c->address);
    free(c);
}

void redis_conn_close(struct redis_conn *c, void (*closed)(void *userdata), void *userdata)
{
    c->closed = closed;
    c->closed_userdata = userdata;
    c->wanted = false;
    c->state = CONN_CLOSING;
    set_reason(c, "closed");
    forget_resolving(c);
    drop_context(c);
    c->open_handles = 2;
    uv_close((uv_handle_t *)&c->retry, on_handle_closed);
    uv_close((uv_handle_t *)&c->answer, on_handle_closed);
}
