// SPDX-License-Identifier: Apache-2.0
// The server through its unix socket: held requests, deadlines, half closes, the end.
#include "test/unit/common/http_util.h"
#include "test/unit/common/raw_util.h"

static struct site site;
static struct reply reply;

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

RUN_SUITE("http_server", 60, held_request_is_answered_later, client_gone_while_held,
          half_close_is_not_gone, slow_headers_are_cut_off,
          slow_bodies_and_idle_connections_are_cut_off, close_ends_everything)
