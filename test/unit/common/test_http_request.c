// SPDX-License-Identifier: Apache-2.0
// Requests as handlers see them: paths, queries, peers, bodies and their limits, many on one
// connection.
#include "test/unit/common/http_util.h"
#include "test/unit/common/raw_util.h"

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
        ck_assert_uint_eq(x->gone, 3); // their owner is told, once each
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
                            .method = "PUT", .path = "/upload", .body = x->big, .body_len = BIG},
                        &reply);
        await(x, &reply.done);
        ck_assert_int_eq(reply.status, 507);
        ck_assert_str_eq(reply.body, "full\n");
        ck_assert_uint_eq(x->gone, 0);
        reply_reset(&reply);
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

RUN_SUITE("http_request", 60, answers, body_limits, answer_before_the_body, large_bodies,
          pipelining_and_bad_requests)
