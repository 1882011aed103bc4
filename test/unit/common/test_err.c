// SPDX-License-Identifier: Apache-2.0
// Error texts: code passes through, wrapping puts context in front, long texts are cut.
#include "common/err.h"

#include "test/unit/suite.h"

#include <string.h>

START_TEST(set_wrap_errno)
    {
        struct err e;

        ck_assert_int_eq(err_set(&e, -EINVAL, "port %d", 7), -EINVAL);
        ck_assert_str_eq(e.text, "port 7");
        ck_assert_int_eq(err_wrap(&e, -EPROTO, "line %d", 3), -EPROTO);
        ck_assert_str_eq(e.text, "line 3: port 7");
        ck_assert_int_eq(err_errno(&e, -ENOENT, "%s", "/x"), -ENOENT);
        ck_assert_str_eq(e.text, "/x: No such file or directory");
    }
END_TEST

START_TEST(null_is_allowed)
    {
        ck_assert_int_eq(err_set(NULL, -EIO, "x"), -EIO);
        ck_assert_int_eq(err_wrap(NULL, -EIO, "x"), -EIO);
        ck_assert_int_eq(err_errno(NULL, -EIO, "x"), -EIO);
    }
END_TEST

START_TEST(long_texts_are_cut)
    {
        struct err e;
        char text[2000];

        memset(text, 'a', sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        (void)err_set(&e, -EIO, "%s", text);
        ck_assert_uint_eq(strlen(e.text), sizeof(e.text) - 1);
        (void)err_wrap(&e, -EIO, "%s", text);
        ck_assert_uint_eq(strlen(e.text), sizeof(e.text) - 1);
        (void)err_errno(&e, -EIO, "%s", text);
        ck_assert_uint_eq(strlen(e.text), sizeof(e.text) - 1);
    }
END_TEST

RUN_SUITE("err", 10, set_wrap_errno, null_is_allowed, long_texts_are_cut)
