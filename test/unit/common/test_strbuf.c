// SPDX-License-Identifier: Apache-2.0
// The growing buffer: always terminated, grows over many sizes, gives bytes and memory away.
#include "common/strbuf.h"

#include "test/unit/suite.h"

#include <string.h>

START_TEST(appends)
    {
        cleanup_strbuf struct strbuf b = {0};

        strbuf_puts(&b, "one");
        strbuf_append(&b, " two\0x", 4);
        strbuf_printf(&b, " %d%s", 3, "!");
        ck_assert_str_eq(b.data, "one two 3!");
        ck_assert_uint_eq(b.len, 10);
        ck_assert(!b.failed);
        strbuf_append(&b, NULL, 0);
        ck_assert_uint_eq(b.len, 10);
    }
END_TEST

START_TEST(grows)
    {
        cleanup_strbuf struct strbuf b = {0};

        for (int i = 0; i < 20000; i++)
            strbuf_printf(&b, "%d,", i % 10);
        ck_assert_uint_eq(b.len, 40000);
        ck_assert_uint_eq(strlen(b.data), b.len);
        ck_assert_uint_gt(b.capacity, b.len);
    }
END_TEST

START_TEST(consumes_from_the_front)
    {
        cleanup_strbuf struct strbuf b = {0};

        strbuf_consume(&b, 0);
        strbuf_puts(&b, "abcdef");
        strbuf_consume(&b, 2);
        ck_assert_str_eq(b.data, "cdef");
        strbuf_consume(&b, 4);
        ck_assert_uint_eq(b.len, 0);
        ck_assert_str_eq(b.data, "");
    }
END_TEST

START_TEST(takes_and_resets)
    {
        struct strbuf b = {0};
        char *empty = strbuf_take(&b);

        ck_assert_str_eq(empty, "");
        free(empty);
        strbuf_puts(&b, "x");
        char *text = strbuf_take(&b);
        ck_assert_str_eq(text, "x");
        ck_assert_ptr_null(b.data);
        free(text);
        strbuf_puts(&b, "again");
        strbuf_reset(&b);
        ck_assert_uint_eq(b.len, 0);
        ck_assert_ptr_null(b.data);
    }
END_TEST

START_TEST(failure_sticks)
    {
        struct strbuf b = {.failed = true};

        strbuf_puts(&b, "x");
        strbuf_printf(&b, "x");
        ck_assert_uint_eq(b.len, 0);
        ck_assert_ptr_null(strbuf_take(&b));
        ck_assert(!b.failed);
    }
END_TEST

RUN_SUITE("strbuf", 10, appends, grows, consumes_from_the_front, takes_and_resets, failure_sticks)
