// SPDX-License-Identifier: Apache-2.0
// The client and its loop: chunks, calls from inside its own callbacks, stale connections, closing.
#include "test/unit/common/http_util.h"

static struct site site;
static struct reply reply, second;

static struct site *chunk_site;
static struct http_call *chunk_call;
static unsigned pieces;
static enum { COUNT, STOP, CANCEL, START, CLOSE } chunk_does;

static int on_chunk(const char *data, size_t len, void *userdata)
{
    (void)data, (void)len, (void)userdata;
    happened();
    if (pieces++ > 0)
        return 0;
    switch (chunk_does) {
    case STOP:
        return -1;
    case CANCEL:
        http_call_cancel(chunk_call);
        return 0;
    case START:
        (void)send_call(chunk_site->tls, (struct http_call_options){.path = "/"}, &second);
        return 0;
    case CLOSE:
        client_end(chunk_site, chunk_site->tls);
        chunk_site->tls = NULL;
        return 0;
    default:
        return 0;
    }
}

static void start_chunks(struct site *x, const char *path)
{
    pieces = 0;
    chunk_site = x;
    chunk_call =
        send_call(x->tls, (struct http_call_options){.path = path, .chunk = on_chunk}, &reply);
}

START_TEST(chunks)
    {
        struct site *x = &site;

        site_start(x, site_defaults);
        chunk_does = COUNT;
        start_chunks(x, "/wide");
        await(x, &reply.done);
        ck_assert_int_eq(reply.status, 200);
        ck_assert_uint_eq(reply.len, 0);
        ck_assert_uint_gt(pieces, 10);
        start_chunks(x, "/begin"); // not a 2xx answer: its body is kept
        await(x, &reply.done);
        ck_assert_int_eq(reply.status, 401);
        ck_assert_str_eq(reply.body, "not you\n");
        ck_assert_uint_eq(pieces, 0);
        chunk_does = STOP;
        start_chunks(x, "/wide");
        await(x, &reply.done);
        ck_assert_int_eq(reply.error, -ECANCELED);
        ck_assert_uint_eq(pieces, 1);
        reply_reset(&reply);
        site_stop(x);
    }
END_TEST

START_TEST(calls_from_inside_chunk)
    {
        struct site *x = &site;

        site_start(x, site_defaults);
        chunk_does = CANCEL;
        start_chunks(x, "/wide");
        await(x, &reply.done);
        ck_assert_int_eq(reply.error, -ECANCELED);
        ck_assert_uint_eq(pieces, 1);
        chunk_does = START;
        start_chunks(x, "/wide");
        await(x, &reply.done);
        await(x, &second.done);
        ck_assert_int_eq(reply.status, 200);
        ck_assert_int_eq(second.status, 200);
        chunk_does = CLOSE;
        start_chunks(x, "/wide");
        await(x, &reply.done);
        ck_assert_int_eq(reply.error, -ECANCELED);
        ck_assert_uint_eq(pieces, 1);
        reply_reset(&reply);
        reply_reset(&second);
        site_stop(x);
    }
END_TEST

static void close_in_done(const struct http_result *r, void *userdata)
{
    struct site *x = userdata;
    ck_assert_int_eq(r->error, 0);
    client_end(x, x->tls);
    x->tls = NULL;
    happened();
}

START_TEST(close_from_inside_done)
    {
        struct site *x = &site;
        struct err e;
        const struct http_call_options o = {
            .method = "GET", .path = "/", .done = close_in_done, .userdata = x};

        site_start(x, site_defaults);
        (void)send_call(x->tls, (struct http_call_options){.path = "/hold"}, &reply);
        must(http_call_start(x->tls, &o, NULL, &e), &e);
        await(x, &reply.done);
        ck_assert_int_eq(reply.error, -ECANCELED);
        reply_reset(&reply);
        site_stop(x);
    }
END_TEST

// The server closes an idle connection; the next call is sent again on a new one.
START_TEST(stale_connection_is_replaced)
    {
        struct site *x = &site;
        struct http_server_options o = site_defaults;

        o.idle_timeout_ms = 100;
        site_start(x, o);
        for (int i = 0; i < 3; i++) {
            get(x, x->local, "/", &reply);
            ck_assert_msg(reply.error == 0, "%s", reply.text);
            get(x, x->tls, "/", &reply);
            ck_assert_msg(reply.error == 0, "%s", reply.text);
            while (http_server_connections(x->server) > 0)
                (void)uv_run(&x->loop, UV_RUN_ONCE);
        }
        reply_reset(&reply);
        site_stop(x);
    }
END_TEST

START_TEST(close_completes_calls)
    {
        struct site *x = &site;

        site_start(x, site_defaults);
        (void)send_call(x->tls, (struct http_call_options){.path = "/hold"}, &reply);
        (void)send_call(x->tls, (struct http_call_options){.path = "/"}, &second);
        client_end(x, x->tls); // before the loop has turned
        x->tls = NULL;
        ck_assert_int_eq(reply.error, -ECANCELED);
        ck_assert_int_eq(second.error, -ECANCELED);
        reply_reset(&reply);
        reply_reset(&second);
        site_stop(x);
    }
END_TEST

RUN_SUITE("http_client", 60, chunks, calls_from_inside_chunk, close_from_inside_done,
          stale_connection_is_replaced, close_completes_calls)
