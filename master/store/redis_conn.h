// SPDX-License-Identifier: Apache-2.0
// One connection to a Redis, in the libuv loop: connects until it is told to stop, notices a
// stalled server, and calls every command's callback exactly once.
#pragma once

#include "common/err.h"
#include "master/store/redis_address.h"
#include "master/store/redis_reply.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct redis_conn;

struct redis_conn_options {
    uv_loop_t *loop;
    struct redis_address address; // borrowed
    uint64_t timeout_ms;          // connecting, or an answer, that takes longer ends it; 0 = 5000
    // The server answers, and has finished loading: commands may be sent from here on.
    void (*up)(void *userdata);
    // The connection of the last up() is gone; it is tried again by itself. Every command has had
    // its callback, or (when the connection was dropped from inside one) has it before control is
    // back in the loop.
    void (*down)(const char *reason, void *userdata);
    // A try to get up failed, and the next follows by itself. `refused`: by the server's own word
    // (a wrong password), which the next try won't change. NULL = nobody cares.
    void (*failed)(const char *reason, bool refused, void *userdata);
    void *userdata;
};

// Sets up, without connecting. -ENOMEM; -ENAMETOOLONG when no socket can have that path.
int redis_conn_new(const struct redis_conn_options *o, struct redis_conn **ret,
                   struct err *e) WARN_UNUSED;
// There is a server (again): connect now, and from then on whenever the connection is lost.
// Idempotent.
void redis_conn_start(struct redis_conn *c);
// There is no server: end the connection (down() follows if it was up) and don't try again.
// Idempotent.
void redis_conn_stop(struct redis_conn *c);
// Ends this connection because of what the server said; tried again by itself, later each time
// until redis_conn_settled().
void redis_conn_drop(struct redis_conn *c, const char *reason);
// The connection proved useful: the next loss is followed by a quick try again.
void redis_conn_settled(struct redis_conn *c);
bool redis_conn_is_up(const struct redis_conn *c);
// Why the last try failed, or the last connection ended. Never NULL; valid until the next change.
const char *redis_conn_reason(const struct redis_conn *c);

// `reply` is borrowed, and NULL when the outcome is unknown: the connection was lost, or the answer
// took too long.
typedef void redis_reply_fn(const struct redisReply *reply, void *userdata);

// Sends one command; the arguments are copied. -ENOTCONN when not up (then `fn` isn't called),
// -ENOMEM.
int redis_conn_command(struct redis_conn *c, int argc, const char **argv, const size_t *lengths,
                       redis_reply_fn *fn, void *userdata) WARN_UNUSED;
// The same for text arguments, ended by NULL.
int redis_conn_call(struct redis_conn *c, redis_reply_fn *fn, void *userdata, ...) WARN_UNUSED
    __attribute__((sentinel));

// Callbacks of pending commands come with NULL; no up/down any more; `closed` (NULL allowed) comes
// from the loop.
void redis_conn_close(struct redis_conn *c, void (*closed)(void *userdata), void *userdata);
