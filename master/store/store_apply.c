// SPDX-License-Identifier: Apache-2.0
// The batch in flight: piece by piece, each with its own commit number, the next one only when the
// last is durable. A piece whose outcome is unknown is sent again with the same number; the script
// answers DUP when it had been applied. Right behind each piece the server's settings are asked
// for: what was written under wrong ones is not acknowledged.
#include "master/store/store_internal.h"

#include "common/cleanup.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define HEAD_ARGS 6 // EVALSHA name 1 meta epoch number

static void finish(struct store *s, int result)
{
    void (*done)(int result, void *userdata) = s->batch_done;
    s->batch_done = NULL;
    store_batch_free(&s->batch);
    if (done)
        done(result, s->batch_userdata); // may bring the next batch
}

void store_cancel_batch(struct store *s)
{
    finish(s, -ECANCELED);
}

static void piece_durable(struct store *s)
{
    s->commit++;
    store_mark_put(s);
    s->trouble = false;
    store_healthy(s);
    if (s->phase != STORE_RUNNING || !s->usable)
        return; // health() closed the store
    redis_server_settled(s->server);
    redis_conn_settled(s->conn);
    s->piece_start = s->piece_end;
    if (s->piece_start == s->batch.count)
        finish(s, 0);
    else
        store_send_batch(s);
}

static void on_script_again(const struct redisReply *reply, void *userdata)
{
    struct store *s = userdata;
    if (reply && s->usable && s->batch_done && store_keep_script(s, reply))
        store_send_batch(s);
}

static void refused(struct store *s, const struct redisReply *reply)
{
    char text[300];
    if (reply_is_error(reply, "NOSCRIPT")) { // somebody flushed the scripts
        if (store_load_script(s, on_script_again) < 0)
            redis_conn_drop(s->conn, "out of memory");
    } else if (store_is_busy(reply)) {
        redis_conn_drop(s->conn, reply_text(reply, NULL));
    } else {
        (void)snprintf(text, sizeof(text), "batch %lld was refused: %s", (long long)s->commit + 1,
                       reply_text(reply, NULL));
        store_fail(s, -EPROTO, text);
    }
}

static void on_applied(const struct redisReply *reply, void *userdata)
{
    struct store *s = userdata;
    if (!reply || !s->usable || !s->batch_done || s->phase != STORE_RUNNING)
        return; // outcome unknown: sent again when the store can be reached
    const char *text = reply_text(reply, NULL);
    if (reply_kind(reply) == REPLY_TEXT && (strcmp(text, "OK") == 0 || strcmp(text, "DUP") == 0))
        s->piece_applied = true;
    else
        refused(s, reply);
}

void store_confirmed(struct store *s)
{
    if (s->usable && s->batch_done && s->piece_applied && s->phase == STORE_RUNNING)
        piece_durable(s);
}

static int send_piece(struct store *s)
{
    static const char *const call[] = {"EVALSHA", NULL, "1"};
    struct batch_args *a = &s->args;
    s->piece_end = batch_piece_end(&s->batch, s->piece_start);
    int r = batch_args_begin(a, s->prefix, &s->batch, s->piece_start, s->piece_end, HEAD_ARGS);
    if (r < 0)
        return r;
    for (size_t i = 0; i < ARRAY_SIZE(call); i++) {
        const char *text = call[i] ? call[i] : s->script_sha;
        batch_args_text(a, text, strlen(text));
    }
    batch_args_text(a, s->meta_key, strlen(s->meta_key));
    batch_args_number(a, s->epoch);
    batch_args_number(a, s->commit + 1);
    batch_args_ops(a, s->prefix, &s->batch, s->piece_start, s->piece_end);
    s->piece_applied = false;
    r = redis_conn_command(s->conn, (int)a->count, a->argv, a->lengths, on_applied, s);
    return r < 0 ? r : store_ask_settings(s, true);
}

void store_send_batch(struct store *s)
{
    if (s->batch_done && s->usable && send_piece(s) == -ENOMEM)
        redis_conn_drop(s->conn, "out of memory");
}

void store_apply(struct store *s, struct store_batch *batch,
                 void (*done)(int result, void *userdata), void *userdata)
{
    assert(!s->batch_done && done && batch->count > 0);
    s->batch = *batch;
    *batch = (struct store_batch){0};
    s->piece_start = 0;
    s->batch_done = done;
    s->batch_userdata = userdata;
    store_send_batch(s);
}
