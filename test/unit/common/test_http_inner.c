// SPDX-License-Identifier: Apache-2.0
// Requests from inside: read like any other, answered whole or as a stream, once, or not wanted any
// more.
#include "common/http_inner.h"

#include "common/cleanup.h"
#include "test/unit/suite.h"

#include <fcntl.h>
#include <string.h>

static uv_loop_t loop;
static struct {
    int times, status, gone;
    char type[64], body[256];
    size_t len;
} got;

static void on_answered(const struct http_inner_answer *a, void *userdata)
{
    ck_assert_ptr_eq(userdata, &got);
    got.times++;
    got.status = a->status;
    got.len = a->len;
    (void)snprintf(got.type, sizeof(got.type), "%s", a->content_type ? a->content_type : "-");
    (void)snprintf(got.body, sizeof(got.body), "%.*s", (int)a->len, a->body);
}

static void on_gone(struct http_request *req, void *userdata)
{
    (void)req;
    (void)userdata;
    got.gone++;
}

static struct http_request *make(const char *target, size_t limit)
{
    static const struct http_peer peer = {.address = "192.0.2.7"};
    static const struct http_inner_header headers[] = {{"Accept", "text/plain"},
                                                       {"Content-Type", "a/b"}};
    const struct http_inner_options o = {.loop = &loop,
                                         .peer = &peer,
                                         .method = "POST",
                                         .target = target,
                                         .headers = headers,
                                         .n_headers = 2,
                                         .body = "body",
                                         .len = 4,
                                         .answer_limit = limit,
                                         .answered = on_answered,
                                         .userdata = &got};
    struct http_request *req = NULL;
    return http_inner_new(&o, &req) == 0 ? req : NULL;
}

static void setup(void)
{
    memset(&got, 0, sizeof(got));
    ck_assert_int_eq(uv_loop_init(&loop), 0);
}

static void finish(void)
{
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

START_TEST(is_read)
    {
        size_t len;
        setup();
        struct http_request *req = make("/v1/a%20b?x=1&y=a+b%21&follow&=z", 100);
        ck_assert_str_eq(http_request_method(req), "POST");
        ck_assert_str_eq(http_request_path(req), "/v1/a%20b");
        ck_assert_str_eq(http_request_query(req, "x"), "1");
        ck_assert_str_eq(http_request_query(req, "y"), "a b!");
        ck_assert_str_eq(http_request_query(req, "follow"), "");
        ck_assert_ptr_null(http_request_query(req, "X"));
        ck_assert_str_eq(http_request_header(req, "accept"), "text/plain");
        ck_assert_ptr_null(http_request_header(req, "Authorization"));
        ck_assert_str_eq(http_request_body(req, &len), "body");
        ck_assert_uint_eq(len, 4);
        ck_assert_str_eq(http_request_peer(req)->address, "192.0.2.7");
        http_respond_header(req, "X-Any", "thing");
        http_respond(req, 201, "text/plain", "made", 4);
        ck_assert_int_eq(got.times, 0); // later, from the loop
        finish();
        ck_assert_int_eq(got.times, 1);
        ck_assert_int_eq(got.status, 201);
        ck_assert_str_eq(got.type, "text/plain");
        ck_assert_str_eq(got.body, "made");
    }
END_TEST

START_TEST(malformed_queries)
    {
        setup();
        ck_assert_ptr_null(make("/?a=%", 100));
        ck_assert_ptr_null(make("/?a=%4", 100));
        ck_assert_ptr_null(make("/?a=%zz", 100));
        ck_assert_ptr_null(make("/?a=%00", 100));
        ck_assert_ptr_null(make("/?a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a", 100));
        finish();
    }
END_TEST

START_TEST(streams_are_collected)
    {
        setup();
        struct http_request *req = make("/", 100);
        http_stream_begin(req, 200, "text/x", NULL, NULL);
        ck_assert_uint_eq(http_stream_write(req, "one ", 4), 0);
        ck_assert_uint_eq(http_stream_write(req, "two", 3), 0);
        http_stream_end(req);
        finish();
        ck_assert_int_eq(got.times, 1);
        ck_assert_str_eq(got.body, "one two");
    }
END_TEST

START_TEST(too_long_answers)
    {
        setup();
        struct http_request *req = make("/", 5);
        http_respond(req, 200, NULL, "123456", 6);
        struct http_request *stream = make("/", 5);
        http_request_on_gone(stream, on_gone, NULL);
        http_stream_begin(stream, 200, NULL, NULL, NULL);
        ck_assert_uint_eq(http_stream_write(stream, "12345", 5), 0);
        ck_assert_uint_eq(http_stream_write(stream, "6", 1), SIZE_MAX); // full: stop
        finish();
        ck_assert_int_eq(got.times, 2);
        ck_assert_int_eq(got.status, 413);
        ck_assert_int_eq(got.gone, 1);
    }
END_TEST

START_TEST(files)
    {
        setup();
        int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
        http_respond_file(make("/", 100), 200, "text/plain", fd, 0, 4);
        finish();
        ck_assert_int_eq(got.status, 200);
        ck_assert_str_eq(got.body, "test");
        setup();
        fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
        http_respond_file(make("/", 3), 200, "text/plain", fd, 0, 4);
        finish();
        ck_assert_int_eq(got.status, 413);
    }
END_TEST

START_TEST(not_wanted_any_more)
    {
        setup();
        struct http_request *req = make("/", 100);
        http_request_on_gone(req, on_gone, NULL);
        http_inner_cancel(req);
        struct http_request *answered = make("/", 100);
        http_request_on_gone(answered, on_gone, NULL);
        http_respond(answered, 200, NULL, "x", 1);
        http_inner_cancel(answered);
        finish();
        ck_assert_int_eq(got.times, 0);
        ck_assert_int_eq(got.gone, 1); // only of the one that had no answer
    }
END_TEST

RUN_SUITE("http_inner", 10, is_read, malformed_queries, streams_are_collected, too_long_answers,
          files, not_wanted_any_more)
