// SPDX-License-Identifier: Apache-2.0
// What the guard lets through and what it refuses, whole and byte by byte.
#include "common/http_guard.h"

#include "common/cleanup.h"

#include "test/unit/suite.h"

#include <stdio.h>
#include <string.h>

#define H "Host: x\r\n"

static const char *const good[] = {
    "GET / HTTP/1.1\r\n" H "\r\n",
    "GET /a%20b?x=1&y=%2f HTTP/1.0\r\n\r\n",
    "POST /v1/jobs:validate HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nab\0\r\n",
    "POST / HTTP/1.1\r\n" H "content-length:   0  \r\nX-Empty:\r\nX-Utf: \xc3\xa4\r\n\r\n",
    "POST / HTTP/1.1\r\n" H
    "Transfer-Encoding: Chunked\r\n\r\n5;a=b\r\nab\r\nc\r\n0\r\nX: y\r\n\r\n",
    "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n00A\r\n0123456789\r\n0\r\n\r\n",
};
// The third has a NUL in its body.
static size_t good_len(size_t i)
{
    return i == 2
               ? sizeof("POST /v1/jobs:validate HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\n") - 1 + 5
               : strlen(good[i]);
}

static const struct {
    const char *text, *why;
} bad[] = {
    {"POST / HTTP/1.1\r\n" H "Content-Length: 1\r\nContent-Length: 1\r\n\r\n",
     "Content-Length twice"},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 1\r\nCONTENT-LENGTH: 2\r\n\r\n",
     "Content-Length twice"},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "beside"},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", "beside"},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n\r\n", "not chunked"},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked              x\r\n\r\n", "not chunked"},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding:\r\n\r\n", "not chunked"},
    {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "not chunked"},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
     "twice"},
    {"POST / HTTP/1.1\r\n" H "Content-Length: +1\r\n\r\n", "not a number"},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 1,1\r\n\r\n", "not a number"},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 0x1\r\n\r\n", "not a number"},
    {"POST / HTTP/1.1\r\n" H "Content-Length:\r\n\r\n", "not a number"},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 12345678901234567\r\n\r\n", "not a number"},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 1                        2\r\n\r\n", "not a number"},
    {"GET / HTTP/1.1\r\n" H "Content-Length : 1\r\n\r\n", "header name"},
    {"GET / HTTP/1.1\r\n" H "A B: 1\r\n\r\n", "header name"},
    {"GET / HTTP/1.1\r\n" H ": 1\r\n\r\n", "without a name"},
    {"GET / HTTP/1.1\r\n" H "noname\r\n\r\n", "header name"},
    {"GET / HTTP/1.1\r\n" H "X: a\r\n b\r\n\r\n", "folded"},
    {"GET / HTTP/1.1\r\n" H "X: a\r\n\tb\r\n\r\n", "folded"},
    {"GET / HTTP/1.1\r\n Host: x\r\n\r\n", "folded"},
    {"GET / HTTP/1.1\r\n" H "X: a\nY: b\r\n\r\n", "LF without CR"},
    {"GET / HTTP/1.1\r\n" H "X: a\rY: b\r\n\r\n", "CR without LF"},
    {"GET / HTTP/1.1\n" H "\r\n", "request line"},
    {"GET / HTTP/1.1\r" H "\r\n", "CR without LF"},
    {"GET / HTTP/1.1\r\n" H "\rGET", "CR without LF"},
    {"GET / HTTP/1.1\r\n" H "X: a\x01\r\n\r\n", "control"},
    {"GET / HTTP/1.1\r\n" H "X\x80: a\r\n\r\n", "header name"},
    {"GET / HTTP/1.1\r\n" H "Host: y\r\n\r\n", "Host twice"},
    {"GET / HTTP/1.1\r\n" H "Authorization: Bearer a\r\nauthorization: Bearer b\r\n\r\n",
     "Authorization twice"},
    {"GET http://x/ HTTP/1.1\r\n" H "\r\n", "not a path"},
    {"OPTIONS * HTTP/1.1\r\n" H "\r\n", "not a path"},
    {"GET  / HTTP/1.1\r\n" H "\r\n", "not a path"},
    {"GET /a\x7f HTTP/1.1\r\n" H "\r\n", "percent-encoded"},
    {"GET /a\x01 HTTP/1.1\r\n" H "\r\n", "percent-encoded"},
    {"GET /\xc3\xa4 HTTP/1.1\r\n" H "\r\n", "percent-encoded"},
    {"GET /a%00b HTTP/1.1\r\n" H "\r\n", "NUL"},
    {"GET /%00 HTTP/1.1\r\n" H "\r\n", "NUL"},
    {"GET /a b HTTP/1.1\r\n" H "\r\n", "request line"},
    {"GET / HTTP/1.1 \r\n" H "\r\n", "request line"},
    {"GET / HTTP/2.0\r\n" H "\r\n", "version"},
    {"GET /\r\n" H "\r\n", "percent-encoded"},
    {"\r\nGET / HTTP/1.1\r\n\r\n", "method"},
    {" GET / HTTP/1.1\r\n\r\n", "method"},
    {"G(T / HTTP/1.1\r\n\r\n", "method"},
    {"AVERYLONGMETHODTHATNOBODYHAS / HTTP/1.1\r\n\r\n", "method"},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n5\nabcde\r\n", "chunk"},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n\r\n", "chunk"},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n-1\r\n", "chunk"},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1234567890123\r\n", "chunk"},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1;\n\r\n", "chunk"},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", "chunk"},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1\r\na\n", "chunk"},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 5\r\n\r\n",
     "trailer"},
};

static bool feed_slowly(struct http_guard *g, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!http_guard_feed(g, data + i, 1))
            return false;
    return true;
}

START_TEST(good_requests_pass)
    {
        struct http_guard whole = {0}, slow = {0}; // one connection for all of them
        for (int round = 0; round < 2; round++)
            for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
                ck_assert_msg(http_guard_feed(&whole, good[i], good_len(i)), "%zu: %s", i,
                              whole.why);
                ck_assert_msg(feed_slowly(&slow, good[i], good_len(i)), "%zu: %s", i, slow.why);
                ck_assert_uint_eq(whole.state, 0);
                ck_assert_uint_eq(slow.state, 0);
            }
    }
END_TEST

START_TEST(bad_requests_are_refused)
    {
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
            struct http_guard whole = {0}, slow = {0};
            size_t len = strlen(bad[i].text);
            ck_assert_msg(http_guard_feed(&whole, good[0], good_len(0)), "%s", whole.why);
            ck_assert_msg(!http_guard_feed(&whole, bad[i].text, len), "%zu passed", i);
            ck_assert_msg(strstr(whole.why, bad[i].why) != NULL, "%zu: %s", i, whole.why);
            ck_assert(!feed_slowly(&slow, bad[i].text, len));
            ck_assert_str_eq(slow.why, whole.why);
            ck_assert(!http_guard_feed(&slow, good[0], good_len(0))); // it stays so
        }
    }
END_TEST

// What came before a bad request in one piece may still go on.
START_TEST(good_bytes_are_counted)
    {
        static const char both[] =
            "GET / HTTP/1.1\r\n\r\nPOST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nab";
        char text[256];
        struct http_guard g = {0};
        (void)snprintf(text, sizeof(text), "%sGET / HTTP/1.1\r\n bad", both);
        ck_assert(!http_guard_feed(&g, text, strlen(text)));
        ck_assert_uint_eq(g.good, strlen(both));
        ck_assert(!http_guard_feed(&g, both, strlen(both)));
        ck_assert_uint_eq(g.good, 0);
    }
END_TEST

START_TEST(nul_is_refused)
    {
        static const char in_value[] = "GET / HTTP/1.1\r\nX: a\0b\r\n\r\n";
        static const char in_name[] = "GET / HTTP/1.1\r\nX\0: ab\r\n\r\n";
        static const char in_target[] = "GET /\0 HTTP/1.1\r\n\r\n";
        struct http_guard a = {0}, b = {0}, c = {0};
        ck_assert(!http_guard_feed(&a, in_value, sizeof(in_value) - 1));
        ck_assert(!http_guard_feed(&b, in_name, sizeof(in_name) - 1));
        ck_assert(!http_guard_feed(&c, in_target, sizeof(in_target) - 1));
    }
END_TEST

START_TEST(header_lines_are_bounded)
    {
        struct http_guard g = {0};
        ck_assert(http_guard_feed(&g, "GET / HTTP/1.1\r\n", 16));
        int n = 0;
        while (n < 1000 && http_guard_feed(&g, "X: y\r\n", 6))
            n++;
        ck_assert_int_lt(n, 200);
        ck_assert_ptr_nonnull(strstr(g.why, "100 header lines"));
    }
END_TEST

START_TEST(heads_are_bounded_and_bodies_are_not)
    {
        struct http_guard g = {0};
        char filler[8192];
        static const char head[] = "POST / HTTP/1.1\r\nContent-Length: 8192\r\nX: ";
        memset(filler, 'x', sizeof(filler));
        for (int i = 0; i < 3; i++) { // each head and body for itself
            ck_assert(http_guard_feed(&g, head, sizeof(head) - 1));
            ck_assert(http_guard_feed(&g, filler, 8000));
            ck_assert(http_guard_feed(&g, "\r\n\r\n", 4));
            ck_assert(http_guard_feed(&g, filler, sizeof(filler)));
        }
        ck_assert(!g.too_large);
        ck_assert(http_guard_feed(&g, head, sizeof(head) - 1));
        ck_assert(!http_guard_feed(&g, filler, sizeof(filler)));
        ck_assert(g.too_large);
    }
END_TEST

int main(void)
{
    TCase *tc = tcase_create("http_guard");
    tcase_add_test(tc, good_requests_pass);
    tcase_add_test(tc, bad_requests_are_refused);
    tcase_add_test(tc, good_bytes_are_counted);
    tcase_add_test(tc, nul_is_refused);
    tcase_add_test(tc, header_lines_are_bounded);
    tcase_add_test(tc, heads_are_bounded_and_bodies_are_not);
    return run_case("http_guard", tc);
}
