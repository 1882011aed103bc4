// SPDX-License-Identifier: Apache-2.0
// One connection to a Redis on a unix socket, in the libuv loop: connects until it is told to stop,
// notices a stalled server, and calls every command's callback exactly once.
#pragma once

#include "common/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct redis_conn;
struct redisReply; // read through the functions below only

struct redis_conn_options {
    uv_loop_t *loop;
    const char *path;    // of the socket
    uint64_t timeout_ms; // an answer that takes longer ends the connection; 0 = 5000
    // The server answers, and has finished loading: commands may be sent from here on.
    void (*up)(void *userdata);
    // The connection of the last up() is gone; it is tried again by itself. Every command has had
    // its callback, or (when the connection was dropped from inside one) has it before control is
    // back in the loop.
    void (*down)(const char *reason, void *userdata);
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

// --- replies ---

enum reply_kind { REPLY_NIL, REPLY_INTEGER, REPLY_TEXT, REPLY_ERROR, REPLY_LIST };
enum reply_kind reply_kind(const struct redisReply *r);
// The bytes of a text or error (NUL-terminated, may hold NULs), "" for the other kinds.
const char *reply_text(const struct redisReply *r, size_t *ret_len);
// An integer, or a text that is a whole decimal number. -EPROTO.
int reply_integer(const struct redisReply *r, int64_t *ret) WARN_UNUSED;
// Items of a list, 0 for the other kinds.
size_t reply_count(const struct redisReply *r);
// NULL when there is none.
const struct redisReply *reply_item(const struct redisReply *r, size_t i);
// Whether it is an error whose first word is `code` ("LOADING").
bool reply_is_error(const struct redisReply *r, const char *code);
