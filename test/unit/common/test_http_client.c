// SPDX-License-Identifier: Apache-2.0
// The client against our server: bodies, streams, uploads, timeouts, errors, and calls from inside
// its own callbacks.
#include "test/unit/common/http_util.h"

static struct site site;
static struct reply reply, second;

START_TEST(uploads_from_a_file)
    {
        struct site *x = &site;
        char name[512];
        struct err e;

        site_start(x, site_defaults);
        (void)snprintf(name, sizeof(name), "%s/data", x->dir);
        must(atomic_file_write(name, x->big, BIG, 0600, &e), &e);
        int fd = open(name, O_RDONLY | O_CLOEXEC);
        struct http_call_options o = {.method = "PUT",
                                      .path = "/big",
                                      .upload_from_fd = true,
                                      .body_fd = fd,
                                      .body_fd_len = BIG};
        (void)send_call(x->tls, o, &reply);
        await(x, &reply.done);
        ck_assert_msg(reply.error == 0, "%s", reply.text);
        ck_assert_uint_eq(reply.len, BIG);
        ck_assert_int_eq(memcmp(reply.body, x->big, BIG), 0);
        o.body_fd_len = BIG + 1;
        o.path = "/upload"; // longer than the file is
        (void)send_call(x->tls, o, &reply);
        await(x, &reply.done);
        ck_assert_int_eq(reply.error, -EIO);
        ck_assert_ptr_nonnull(strstr(reply.text, "shorter"));
        (void)close(fd);
        reply_reset(&reply);
        site_stop(x);
    }
END_TEST

START_TEST(methods_and_headers)
    {
        struct site *x = &site;
        const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE"};
        const char *const headers[] = {"X-Test: 1", "Content-Type: application/json", NULL};

        site_start(x, site_defaults);
        for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
            struct http_call_options o = {
                .method = methods[i], .path = "/query?a=1", .headers = headers};
            char expected[64];
            for (int body = 0; body < 2; body++) {
                o.body = body ? "{}" : NULL;
                o.body_len = body ? 2 : 0;
                (void)send_call(x->local, o, &reply);
                await(x, &reply.done);
                (void)snprintf(expected, sizeof(expected), "%s /query a=1 b=- none=1 header=1",
                               methods[i]);
                ck_assert_str_eq(reply.body, expected);
            }
        }
        reply_reset(&reply);
        site_stop(x);
    }
END_TEST

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

START_TEST(timeouts)
    {
        struct site *x = &site;

        site_start(x, site_defaults);
        (void)send_call(x->tls, (struct http_call_options){.path = "/hold", .timeout_ms = 100},
                        &reply);
        await(x, &reply.done);
        ck_assert_int_eq(reply.error, -ETIMEDOUT);
        (void)send_call(
            x->tls, (struct http_call_options){.path = "/stream", .idle_timeout_ms = 1000}, &reply);
        await(x, &reply.done);
        ck_assert_int_eq(reply.error, -ETIMEDOUT);
        await_count(x, &x->gone, 2);
        reply_reset(&reply);
        site_stop(x);
    }
END_TEST

START_TEST(answers_have_a_limit)
    {
        struct site *x = &site;

        site_start(x, site_defaults);
        (void)send_call(x->tls, (struct http_call_options){.path = "/wide", .body_limit = BIG - 1},
                        &reply);
        await(x, &reply.done);
        ck_assert_int_eq(reply.error, -EPROTO);
        ck_assert_ptr_nonnull(strstr(reply.text, "larger than"));
        (void)send_call(x->tls, (struct http_call_options){.path = "/wide", .body_limit = BIG},
                        &reply);
        await(x, &reply.done);
        ck_assert_uint_eq(reply.len, BIG);
        reply_reset(&reply);
        site_stop(x);
    }
END_TEST

START_TEST(errors)
    {
        struct site *x = &site;
        struct http_client *c;

        site_start(x, site_defaults);
        c = client_to(x, "http://127.0.0.1:1", NULL, NULL);
        get(x, c, "/", &reply);
        ck_assert_int_eq(reply.error, -ECONNREFUSED);
        ck_assert_ptr_nonnull(strstr(reply.text, "http://127.0.0.1:1"));
        client_end(x, c);
        c = client_to(x, "http://no-such-host.invalid", NULL, NULL);
        get(x, c, "/", &reply);
        ck_assert_int_eq(reply.error, -EHOSTUNREACH);
        client_end(x, c);
        char url[64];
        (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u", x->port); // speaks TLS
        c = client_to(x, url, NULL, NULL);
        get(x, c, "/", &reply);
        ck_assert_int_lt(reply.error, 0);
        client_end(x, c);
        c = client_to(x, "ftp://127.0.0.1", NULL, NULL);
        get(x, c, "/", &reply);
        ck_assert_int_eq(reply.error, -EPROTO);
        client_end(x, c);
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

RUN_SUITE("http_client", 60, uploads_from_a_file, methods_and_headers, chunks,
          calls_from_inside_chunk, close_from_inside_done, timeouts, answers_have_a_limit, errors,
          stale_connection_is_replaced, close_completes_calls)
