// SPDX-License-Identifier: Apache-2.0
// The server through its unix socket: answers, held requests, streams, limits and deadlines, ends.
#include "test/unit/common/http_util.h"

static struct site site;
static struct reply reply;

START_TEST(answers)
    {
        struct site *x = &site;
        const char *const headers[] = {"X-Test: seen", NULL};

        site_start(x, site_defaults);
        get(x, x->local, "/", &reply);
        ck_assert_msg(reply.error == 0, "%s", reply.text);
        ck_assert_int_eq(reply.status, 200);
        ck_assert_str_eq(reply.body, "hello\n");
        ck_assert_str_eq(reply.type, "text/plain");
        (void)send_call(x->local,
                        (struct http_call_options){.method = "PUT",
                                                   .path = "/query%2Fx/y?a=1%202+3&b&c=%",
                                                   .headers = headers},
                        &reply);
        await(x, &reply.done);
        ck_assert_str_eq(reply.body, "PUT /query%2Fx/y a=1 2 3 b= none=1 header=seen");
        (void)send_call(x->local, (struct http_call_options){.method = "HEAD", .path = "/"},
                        &reply);
        await(x, &reply.done);
        ck_assert_int_eq(reply.status, 200);
        ck_assert_uint_eq(reply.len, 0);
        get(x, x->local, "/peer", &reply);
        char expected[96];
        (void)snprintf(expected, sizeof(expected), "local=1 uid=%d pid=%d address= cert=0",
                       (int)getuid(), (int)getpid());
        ck_assert_msg(strncmp(reply.body, expected, strlen(expected)) == 0, "%s", reply.body);
        reply_reset(&reply);
        site_stop(x);
    }
END_TEST

START_TEST(held_request_is_answered_later)
    {
        struct site *x = &site;

        site_start(x, site_defaults);
        (void)send_call(x->local, (struct http_call_options){.path = "/hold"}, &reply);
        await_count(x, &x->ready, 1);
        run_for(x, 50);
        ck_assert(!reply.done);
        ck_assert_ptr_nonnull(x->held);
        text_answer(x->held, 202, "late\n");
        await(x, &reply.done);
        ck_assert_int_eq(reply.status, 202);
        ck_assert_str_eq(reply.body, "late\n");
        ck_assert_uint_eq(x->gone, 0);
        get(x, x->local, "/", &reply);
        ck_assert_uint_eq(http_server_connections(x->server), 1); // the same connection
        reply_reset(&reply);
        site_stop(x);
    }
END_TEST

START_TEST(client_gone_while_held)
    {
        struct site *x = &site;

        site_start(x, site_defaults);
        struct http_call *call =
            send_call(x->local, (struct http_call_options){.path = "/hold"}, &reply);
        await_count(x, &x->ready, 1);
        http_call_cancel(call);
        ck_assert_int_eq(reply.error, -ECANCELED);
        await_count(x, &x->gone, 1);
        run_for(x, 20);
        ck_assert_uint_eq(x->gone, 1);
        ck_assert_uint_eq(http_server_connections(x->server), 0);
        reply_reset(&reply);
        site_stop(x);
        ck_assert_uint_eq(x->gone, 1);
    }
END_TEST

START_TEST(half_close_is_not_gone)
    {
        struct site *x = &site;
        struct raw raw;

        site_start(x, site_defaults);
        raw_open(x, &raw, false);
        raw_send(&raw, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
        ck_assert_int_eq(shutdown(raw.fd, SHUT_WR), 0);
        await_count(x, &x->ready, 1);
        x->turns = 0;
        run_for(x, 50);
        ck_assert_uint_lt(x->turns, 5);
        ck_assert_uint_eq(x->gone, 0);
        text_answer(x->held, 200, "still here\n");
        await(x, &raw.got.done);
        ck_assert_ptr_nonnull(strstr(raw.got.body, "still here\n"));
        raw_end(x, &raw);
        site_stop(x);
    }
END_TEST

START_TEST(body_limits)
    {
        struct site *x = &site;
        char body[100];

        memset(body, 'b', sizeof(body));
        site_start(x, site_defaults);
        struct http_call_options o = {
            .method = "POST", .path = "/small", .body = body, .body_len = 10};
        (void)send_call(x->local, o, &reply);
        await(x, &reply.done);
        ck_assert_int_eq(reply.status, 200);
        ck_assert_uint_eq(reply.len, 10);
        o.body_len = 11;
        (void)send_call(x->local, o, &reply);
        await(x, &reply.done);
        ck_assert_int_eq(reply.status, 413);
        ck_assert_str_eq(reply.type, "application/problem+json");
        ck_assert_str_eq(reply.body,
                         "{\"type\":\"about:blank\",\"title\":\"Content Too Large\","
                         "\"status\":413,\"detail\":\"the body may have at most 10 bytes\"}");
        ck_assert_uint_eq(x->ready, 1);
        o = (struct http_call_options){
            .method = "POST", .path = "/x", .body = x->big, .body_len = BIG};
        (void)send_call(x->local, o, &reply); // refused from its headers
        await(x, &reply.done);
        ck_assert_int_eq(reply.status, 413);
        const char *const chunked[] = {"Transfer-Encoding: chunked", NULL};
        o = (struct http_call_options){
            .method = "POST", .path = "/small", .body = body, .body_len = 100, .headers = chunked};
        (void)send_call(x->local, o, &reply); // length not announced
        await(x, &reply.done);
        ck_assert_int_eq(reply.status, 413);
        ck_assert_uint_eq(x->gone, 0);
        reply_reset(&reply);
        site_stop(x);
    }
END_TEST

START_TEST(answer_before_the_body)
    {
        struct site *x = &site;

        site_start(x, site_defaults);
        get(x, x->local, "/begin", &reply);
        ck_assert_int_eq(reply.status, 401);
        get(x, x->local, "/begin", &reply);
        ck_assert_int_eq(reply.status, 401);
        ck_assert_uint_eq(http_server_connections(x->server), 1);
        (void)send_call(x->local,
                        (struct http_call_options){
                            .method = "POST", .path = "/begin", .body = x->big, .body_len = BIG},
                        &reply);
        await(x, &reply.done);
        ck_assert_int_eq(reply.status, 401);
        ck_assert_uint_eq(x->ready, 0);
        reply_reset(&reply);
        site_stop(x);
    }
END_TEST

START_TEST(large_bodies)
    {
        struct site *x = &site;

        site_start(x, site_defaults);
        (void)send_call(x->local,
                        (struct http_call_options){
                            .method = "PUT", .path = "/big", .body = x->big, .body_len = BIG},
                        &reply);
        await(x, &reply.done);
        ck_assert_msg(reply.error == 0, "%s", reply.text);
        ck_assert_uint_eq(reply.len, BIG);
        ck_assert_int_eq(memcmp(reply.body, x->big, BIG), 0);
        get(x, x->local, "/file", &reply);
        ck_assert_uint_eq(reply.len, BIG - 100);
        ck_assert_int_eq(memcmp(reply.body, x->big + 100, BIG - 100), 0);
        (void)send_call(x->local,
                        (struct http_call_options){
                            .method = "PUT", .path = "/upload", .body = x->big, .body_len = BIG},
                        &reply);
        await(x, &reply.done);
        ck_assert_int_eq(reply.status, 200);
        ck_assert_uint_eq(x->streamed, BIG);
        x->streamed = 0;
        x->stream_limit = 1000;
        (void)send_call(x->local,
                        (struct http_call_options){
                            .method = "PUT", .path = "/upload", .body = x->big, .body_len = 500000},
                        &reply);
        await(x, &reply.done);
        ck_assert_int_eq(reply.status, 507);
        ck_assert_str_eq(reply.body, "full\n");
        ck_assert_uint_eq(x->gone, 0);
        reply_reset(&reply);
        site_stop(x);
    }
END_TEST

static size_t streamed_in;
static unsigned pieces;

static int on_chunk(const char *data, size_t len, void *userdata)
{
    (void)data, (void)userdata;
    streamed_in += len;
    pieces++;
    happened();
    return 0;
}

START_TEST(streams)
    {
        struct site *x = &site;

        site_start(x, site_defaults);
        streamed_in = pieces = 0;
        (void)send_call(x->local, (struct http_call_options){.path = "/stream", .chunk = on_chunk},
                        &reply);
        await_count(x, &x->ready, 1);
        for (unsigned i = 1; i <= 3; i++) {
            (void)http_stream_write(x->stream, "event\n\n", 7);
            await_count(x, &pieces, i);
            ck_assert_uint_eq(streamed_in, 7 * (size_t)i);
            x->turns = 0;
            run_for(x, 20);
            ck_assert_uint_lt(x->turns, 5); // a stream without data is at rest
        }
        ck_assert_uint_eq(http_stream_write(x->stream, x->big, BIG), BIG);
        await_count(x, &x->drained, 1);
        http_stream_end(x->stream);
        await(x, &reply.done);
        ck_assert_int_eq(reply.status, 200);
        ck_assert_uint_eq(streamed_in, BIG + 21);
        ck_assert_uint_eq(x->gone, 0);
        reply_reset(&reply);
        site_stop(x);
    }
END_TEST

START_TEST(client_gone_while_streaming)
    {
        struct site *x = &site;

        site_start(x, site_defaults);
        pieces = 0;
        struct http_call *call = send_call(
            x->local, (struct http_call_options){.path = "/stream", .chunk = on_chunk}, &reply);
        await_count(x, &x->ready, 1);
        (void)http_stream_write(x->stream, "x", 1);
        await_count(x, &pieces, 1);
        http_call_cancel(call);
        await_count(x, &x->gone, 1);
        // With bytes on their way it shows when they can't be written.
        call = send_call(x->local, (struct http_call_options){.path = "/stream", .chunk = on_chunk},
                         &reply);
        await_count(x, &x->ready, 2);
        (void)http_stream_write(x->stream, x->big, BIG);
        http_call_cancel(call);
        await_count(x, &x->gone, 2);
        reply_reset(&reply);
        site_stop(x);
        ck_assert_uint_eq(x->gone, 2);
    }
END_TEST

START_TEST(slow_headers_are_cut_off)
    {
        struct site *x = &site;
        struct raw first, second;
        struct http_server_options o = site_defaults;

        o.header_timeout_ms = 150;
        o.idle_timeout_ms = 300;
        site_start(x, o);
        raw_open(x, &first, false);
        raw_send(&first, "GET / HTTP/1.1\r\nHo");
        await(x, &first.got.done);
        ck_assert_uint_eq(first.got.len, 0);
        raw_end(x, &first);
        raw_open(x, &second, false); // the second request of a connection
        raw_send(&second, "GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHo");
        await(x, &second.got.done);
        ck_assert_ptr_nonnull(strstr(second.got.body, "hello\n"));
        ck_assert_uint_eq(x->ready, 1);
        raw_end(x, &second);
        site_stop(x);
    }
END_TEST

START_TEST(slow_bodies_and_idle_connections_are_cut_off)
    {
        struct site *x = &site;
        struct raw body, idle;
        struct http_server_options o = site_defaults;

        o.body_timeout_ms = 150;
        o.idle_timeout_ms = 200;
        site_start(x, o);
        raw_open(x, &body, false);
        raw_send(&body, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab");
        await(x, &body.got.done);
        ck_assert_uint_eq(x->gone, 1);
        ck_assert_uint_eq(x->ready, 0);
        raw_end(x, &body);
        raw_open(x, &idle, false);
        raw_send(&idle, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        await(x, &idle.got.done);
        ck_assert_ptr_nonnull(strstr(idle.got.body, "hello\n"));
        raw_end(x, &idle);
        site_stop(x);
    }
END_TEST

START_TEST(pipelining_and_bad_requests)
    {
        struct site *x = &site;
        struct raw raw;
        unsigned count = 0;

        site_start(x, site_defaults);
        raw_open(x, &raw, false);
        raw_send(&raw,
                 "GET / HTTP/1.1\r\nHost: x\r\n\r\nPOST / HTTP/1.1\r\nHost: x\r\nContent-Length: "
                 "6\r\n\r\nhello\nGET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        await(x, &raw.got.done);
        for (const char *p = raw.got.body; (p = strstr(p, "hello\n")); p++)
            count++;
        ck_assert_uint_eq(count, 3);
        raw_end(x, &raw);
        raw_open(x, &raw, false);
        raw_send(&raw, "nonsense\r\n\r\n");
        await(x, &raw.got.done);
        raw_end(x, &raw);
        char *long_header = malloc(40000);
        memset(long_header, 'x', 40000);
        memcpy(long_header, "GET / HTTP/1.1\r\nHost: x\r\nX: ", 28);
        long_header[39999] = '\0';
        raw_open(x, &raw, false);
        raw_send(&raw, long_header);
        await(x, &raw.got.done);
        ck_assert_ptr_nonnull(strstr(raw.got.body, " 431 "));
        raw_end(x, &raw);
        free(long_header);
        raw_open(x, &raw, false);
        raw_send(&raw,
                 "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
        await(x, &raw.some);
        ck_assert_ptr_nonnull(strstr(raw.got.body, "100 Continue"));
        raw.some = false;
        raw_send(&raw, "abc");
        await(x, &raw.some);
        ck_assert_ptr_nonnull(strstr(raw.got.body, " 200 "));
        raw_end(x, &raw);
        site_stop(x);
    }
END_TEST

START_TEST(close_ends_everything)
    {
        struct site *x = &site;
        struct reply other = {0};

        site_start(x, site_defaults);
        (void)send_call(x->local, (struct http_call_options){.path = "/hold"}, &reply);
        await_count(x, &x->ready, 1);
        (void)send_call(x->local, (struct http_call_options){.path = "/stream"}, &other);
        await_count(x, &x->ready, 2);
        run_for(x, 20);
        site_close_server(x);
        ck_assert_uint_eq(x->gone, 2);
        await(x, &reply.done);
        await(x, &other.done);
        ck_assert_int_eq(reply.error, -EIO);
        get(x, x->local, "/", &reply);
        ck_assert_int_eq(reply.error, -ECONNREFUSED);
        reply_reset(&reply);
        reply_reset(&other);
        site_stop(x);
    }
END_TEST

RUN_SUITE("http_server", 60, answers, held_request_is_answered_later, client_gone_while_held,
          half_close_is_not_gone, body_limits, answer_before_the_body, large_bodies, streams,
          client_gone_while_streaming, slow_headers_are_cut_off,
          slow_bodies_and_idle_connections_are_cut_off, pipelining_and_bad_requests,
          close_ends_everything)
