// SPDX-License-Identifier: Apache-2.0
// One call: methods, bodies, uploads, limits, timeouts, and what its errors are called.
#include "test/unit/common/http_util.h"

static struct site site;
static struct reply reply;

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
        await_count(x, &x->gone, x->begun);
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

RUN_SUITE("http_call", 60, uploads_from_a_file, methods_and_headers, answers_have_a_limit, timeouts,
          errors)
