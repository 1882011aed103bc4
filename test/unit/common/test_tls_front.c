// SPDX-License-Identifier: Apache-2.0
// The server through TLS: who may come in, big bodies both ways, half handshakes, crowds, ends.
#include "test/unit/common/http_util.h"
#include "test/unit/common/raw_util.h"

#include "common/tls_front.h"

static struct site site;
static struct reply reply;

START_TEST(client_certificate_is_seen)
    {
        struct site *x = &site;
        char sha[65], expected[256];
        struct err e;

        site_start(x, site_defaults);
        get(x, x->tls, "/peer", &reply);
        ck_assert_msg(reply.error == 0, "%s", reply.text);
        must(pki_cert_fingerprint(x->node.cert, sha, &e), &e);
        (void)snprintf(expected, sizeof(expected),
                       "local=0 uid=-1 pid=-1 address=127.0.0.1 cert=1 cn=n1 sha=%s", sha);
        ck_assert_str_eq(reply.body, expected);
        struct http_client *nobody = client_to(x, x->url, x->ca.cert, NULL);
        get(x, nobody, "/peer", &reply);
        ck_assert_str_eq(reply.body, "local=0 uid=-1 pid=-1 address=127.0.0.1 cert=0 cn= sha=");
        client_end(x, nobody);
        reply_reset(&reply);
        site_stop(x);
    }
END_TEST

START_TEST(one_that_is_over_is_told)
    {
        struct site *x = &site;
        site_start(x, site_defaults);
        struct identity over = make_node(&x->ca, "n1", 0);
        struct http_client *c = client_to(x, x->url, x->ca.cert, &over);
        get(x, c, "/peer", &reply); // the handshake is done: whoever relies on it compares the time
        ck_assert_int_eq(reply.error, 0);
        ck_assert_ptr_nonnull(strstr(reply.body, "cert=1 cn=n1"));
        client_end(x, c);
        reply_reset(&reply);
        identity_free(&over);
        site_stop(x);
    }
END_TEST

START_TEST(strangers_are_refused)
    {
        struct site *x = &site;
        struct identity other = make_ca();
        struct identity foreign = make_node(&other, "n1", DAYS);

        site_start(x, site_defaults);
        struct identity server = make_server_id(&x->ca, "n1");
        struct http_client *c = client_to(x, x->url, other.cert, NULL); // pins another CA
        get(x, c, "/", &reply);
        ck_assert_int_eq(reply.error, -EACCES);
        ck_assert_ptr_nonnull(strstr(reply.text, "does not match the CA"));
        client_end(x, c);
        const struct identity *bad[] = {&foreign, &server};
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
            c = client_to(x, x->url, x->ca.cert, bad[i]);
            get(x, c, "/", &reply);
            ck_assert_msg(reply.error == -EACCES, "%zu: %d %s", i, reply.error, reply.text);
            client_end(x, c);
        }
        char url[64];
        (void)snprintf(url, sizeof(url), "https://127.0.0.2:%u", x->port); // not in the certificate
        c = client_to(x, url, x->ca.cert, NULL);
        get(x, c, "/", &reply);
        ck_assert_int_lt(reply.error, 0);
        client_end(x, c);
        ck_assert_uint_eq(x->begun, 0);
        reply_reset(&reply);
        identity_free(&other);
        identity_free(&foreign);
        identity_free(&server);
        site_stop(x);
    }
END_TEST

START_TEST(nothing_is_verified_on_request_only)
    {
        struct site *x = &site;
        struct http_client *c;
        struct err e;

        site_start(x, site_defaults);
        struct http_client_options o = {.loop = &x->loop, .base_url = x->url, .no_verify = true};
        must(http_client_new(&o, &c, &e), &e);
        x->clients_open++;
        get(x, c, "/", &reply);
        ck_assert_int_eq(reply.status, 200);
        client_end(x, c);
        c = client_to(x, x->url, NULL, NULL); // without a CA nobody is trusted
        get(x, c, "/", &reply);
        ck_assert_int_eq(reply.error, -EACCES);
        client_end(x, c);
        reply_reset(&reply);
        site_stop(x);
    }
END_TEST

START_TEST(certificate_is_replaced)
    {
        struct site *x = &site;
        struct identity other = make_ca();
        struct identity server = make_server_id(&other, "127.0.0.1");
        struct err e;

        site_start(x, site_defaults);
        get(x, x->tls, "/", &reply);
        ck_assert_int_eq(reply.status, 200);
        const struct tls_server_options bad = {server.cert, x->server_id.key, other.cert, false};
        ck_assert_int_eq(http_server_set_tls(x->server, &bad, &e), -EINVAL);
        const struct tls_server_options tls = {server.cert, server.key, other.cert, false};
        must(http_server_set_tls(x->server, &tls, &e), &e);
        get(x, x->tls, "/", &reply); // the old connection goes on
        ck_assert_int_eq(reply.status, 200);
        struct http_client *c = client_to(x, x->url, other.cert, NULL);
        get(x, c, "/", &reply);
        ck_assert_int_eq(reply.status, 200);
        client_end(x, c);
        c = client_to(x, x->url, x->ca.cert, NULL);
        get(x, c, "/", &reply);
        ck_assert_int_eq(reply.error, -EACCES);
        client_end(x, c);
        reply_reset(&reply);
        identity_free(&other);
        identity_free(&server);
        site_stop(x);
    }
END_TEST

START_TEST(large_bodies)
    {
        struct site *x = &site;
        const struct http_call_options put = {
            .method = "PUT", .path = "/big", .body = NULL, .body_len = BIG};

        site_start(x, site_defaults);
        struct http_call_options o = put;
        o.body = x->big;
        (void)send_call(x->tls, o, &reply);
        await(x, &reply.done);
        ck_assert_msg(reply.error == 0, "%s", reply.text);
        ck_assert_uint_eq(reply.len, BIG);
        ck_assert_int_eq(memcmp(reply.body, x->big, BIG), 0);
        get(x, x->tls, "/file", &reply);
        ck_assert_uint_eq(reply.len, BIG - 100);
        ck_assert_int_eq(memcmp(reply.body, x->big + 100, BIG - 100), 0);
        o.path = "/x"; // refused from its headers while the client sends
        (void)send_call(x->tls, o, &reply);
        await(x, &reply.done);
        ck_assert_msg(reply.error == 0, "%s", reply.text);
        ck_assert_int_eq(reply.status, 413);
        ck_assert_uint_eq(x->gone, 1); // its owner is told, and is told once
        reply_reset(&reply);
        site_stop(x);
    }
END_TEST

START_TEST(held_request_costs_nothing)
    {
        struct site *x = &site;

        site_start(x, site_defaults);
        (void)send_call(x->tls, (struct http_call_options){.path = "/hold"}, &reply);
        await_count(x, &x->ready, 1);
        x->turns = 0;
        run_for(x, 100);
        ck_assert_uint_lt(x->turns, 5);
        text_answer(x->held, 200, "ok");
        await(x, &reply.done);
        ck_assert_int_eq(reply.status, 200);
        reply_reset(&reply);
        site_stop(x);
    }
END_TEST

// The client lives on a loop of its own, which stands still for a while.
START_TEST(slow_reader_stops_the_writer)
    {
        struct site *x = &site;
        static struct site other;

        site_start(x, site_defaults);
        ck_assert_int_eq(uv_loop_init(&other.loop), 0);
        struct http_client *c = client_to(&other, x->url, x->ca.cert, NULL);
        (void)send_call(c, (struct http_call_options){.path = "/stream"}, &reply);
        while (!x->stream) {
            (void)uv_run(&other.loop, UV_RUN_NOWAIT);
            (void)uv_run(&x->loop, UV_RUN_NOWAIT);
        }
        (void)http_stream_write(x->stream, x->big, BIG);
        for (int i = 0; i < 100 && (i == 0 || x->turns > 4); i++) {
            x->turns = 0;
            run_for(x, 50); // until all buffers between the two are full
        }
        ck_assert_uint_lt(x->turns, 5);
        ck_assert_uint_gt(http_stream_write(x->stream, "", 0), BIG / 2);
        http_stream_end(x->stream);
        while (!reply.done) {
            (void)uv_run(&other.loop, UV_RUN_NOWAIT);
            (void)uv_run(&x->loop, UV_RUN_NOWAIT);
        }
        ck_assert_uint_eq(reply.len, BIG);
        ck_assert_int_eq(memcmp(reply.body, x->big, BIG), 0);
        client_end(&other, c);
        (void)uv_run(&other.loop, UV_RUN_DEFAULT);
        ck_assert_int_eq(uv_loop_close(&other.loop), 0);
        reply_reset(&reply);
        site_stop(x);
    }
END_TEST

START_TEST(client_gone_while_held)
    {
        struct site *x = &site;

        site_start(x, site_defaults);
        struct http_call *call =
            send_call(x->tls, (struct http_call_options){.path = "/hold"}, &reply);
        await_count(x, &x->ready, 1);
        http_call_cancel(call);
        await_count(x, &x->gone, 1);
        call = send_call(x->tls, (struct http_call_options){.path = "/stream"}, &reply);
        await_count(x, &x->ready, 2);
        http_call_cancel(call);
        await_count(x, &x->gone, 2);
        get(x, x->tls, "/", &reply);
        ck_assert_int_eq(reply.status, 200);
        reply_reset(&reply);
        site_stop(x);
    }
END_TEST

START_TEST(half_handshake_does_not_spin)
    {
        struct site *x = &site;
        struct raw half, silent, plain;

        site_start(x, site_defaults);
        raw_open(x, &half, true);
        ck_assert_int_eq(send(half.fd, "\x16\x03\x01\x02\x00", 5, MSG_NOSIGNAL), 5);
        raw_open(x, &silent, true);
        raw_open(x, &plain, true);
        raw_send(&plain, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        await(x, &plain.got.done);
        run_for(x, 50);
        x->turns = 0;
        run_for(x, 300);
        ck_assert_uint_lt(x->turns, 5);
        ck_assert_uint_eq(x->begun, 0);
        raw_end(x, &half);
        raw_end(x, &silent);
        raw_end(x, &plain);
        site_stop(x);
    }
END_TEST

#ifndef CROWD // fewer under valgrind
#define CROWD 200
#endif

START_TEST(crowd)
    {
        struct site *x = &site;
        static struct reply replies[CROWD];
        static struct http_client *clients[CROWD];

        site_start(x, site_defaults);
        for (size_t i = 0; i < CROWD; i++) {
            clients[i] = client_to(x, x->url, x->ca.cert, NULL);
            (void)send_call(clients[i], (struct http_call_options){.path = "/"}, &replies[i]);
        }
        for (size_t i = 0; i < CROWD; i++) {
            await(x, &replies[i].done);
            ck_assert_msg(replies[i].error == 0, "%s", replies[i].text);
            ck_assert_int_eq(replies[i].status, 200);
        }
        ck_assert_uint_eq(http_server_connections(x->server), CROWD);
        for (size_t i = 0; i < CROWD; i++) {
            client_end(x, clients[i]);
            reply_reset(&replies[i]);
        }
        site_stop(x);
    }
END_TEST

START_TEST(excess_waits_for_room)
    {
        struct site *x = &site;
        static struct reply replies[4];
        struct http_client *clients[4];
        struct http_server_options o = site_defaults;

        o.max_connections = 3;
        site_start(x, o);
        for (size_t i = 0; i < 4; i++) {
            clients[i] = client_to(x, x->url, x->ca.cert, NULL);
            (void)send_call(clients[i], (struct http_call_options){.path = "/"}, &replies[i]);
        }
        for (size_t i = 0; i < 3; i++)
            await(x, &replies[i].done);
        run_for(x, 50);
        x->turns = 0;
        run_for(x, 100);
        ck_assert_uint_lt(x->turns, 5);
        ck_assert(!replies[3].done);
        get(x, x->local, "/", &reply); // local callers have a room of their own
        ck_assert_int_eq(reply.status, 200);
        client_end(x, clients[0]);
        await(x, &replies[3].done);
        ck_assert_int_eq(replies[3].status, 200);
        for (size_t i = 0; i < 4; i++) {
            if (i)
                client_end(x, clients[i]);
            reply_reset(&replies[i]);
        }
        reply_reset(&reply);
        site_stop(x);
    }
END_TEST

START_TEST(descriptors_do_not_grow)
    {
        struct site *x = &site;

        site_start(x, site_defaults);
        get(x, x->tls, "/", &reply);
        get(x, x->local, "/", &reply);
        size_t before = open_fds();
        for (unsigned i = 0; i < 500; i++) {
            get(x, x->tls, "/", &reply);
            ck_assert_int_eq(reply.status, 200);
        }
        ck_assert_uint_eq(open_fds(), before);
        ck_assert_uint_eq(http_server_connections(x->server), 2);
        for (unsigned i = 0; i < 30; i++) {
            struct http_client *c = client_to(x, x->url, x->ca.cert, NULL);
            get(x, c, "/", &reply);
            ck_assert_int_eq(reply.status, 200);
            client_end(x, c);
        }
        while (http_server_connections(x->server) > 2)
            (void)uv_run(&x->loop, UV_RUN_ONCE);
        run_for(x, 50);
        ck_assert_uint_eq(open_fds(), before);
        reply_reset(&reply);
        site_stop(x);
    }
END_TEST

START_TEST(close_ends_everything)
    {
        struct site *x = &site;
        struct reply other = {0};
        struct raw half;

        site_start(x, site_defaults);
        raw_open(x, &half, true);
        (void)send_call(x->tls, (struct http_call_options){.path = "/hold"}, &reply);
        await_count(x, &x->ready, 1);
        (void)send_call(x->tls, (struct http_call_options){.path = "/stream"}, &other);
        await_count(x, &x->ready, 2);
        site_close_server(x);
        ck_assert_uint_eq(x->gone, 2);
        await(x, &reply.done);
        await(x, &other.done);
        await(x, &half.got.done);
        raw_end(x, &half);
        reply_reset(&reply);
        reply_reset(&other);
        site_stop(x);
    }
END_TEST

RUN_SUITE("tls_front", 90, client_certificate_is_seen, strangers_are_refused,
          one_that_is_over_is_told, nothing_is_verified_on_request_only, certificate_is_replaced,
          large_bodies, held_request_costs_nothing, slow_reader_stops_the_writer,
          client_gone_while_held, half_handshake_does_not_spin, crowd, excess_waits_for_room,
          descriptors_do_not_grow, close_ends_everything)
