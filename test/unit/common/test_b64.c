// SPDX-License-Identifier: Apache-2.0
// base64url: the vectors of RFC 4648 section 10, and one spelling for each value.
#include "common/jose/b64.h"

#include "common/cleanup.h"
#include "test/unit/suite.h"

#include <string.h>

START_TEST(vectors)
    {
        static const char *const pairs[][2] = {{"", ""},
                                               {"f", "Zg"},
                                               {"fo", "Zm8"},
                                               {"foo", "Zm9v"},
                                               {"foob", "Zm9vYg"},
                                               {"fooba", "Zm9vYmE"},
                                               {"foobar", "Zm9vYmFy"},
                                               {"\xff\xef\xbe", "_---"}};
        for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
            cleanup_strbuf struct strbuf b = {0};
            cleanup_free unsigned char *back = NULL;
            size_t len = 0;
            b64_append(&b, pairs[i][0], strlen(pairs[i][0]));
            ck_assert_str_eq(b.data ? b.data : "", pairs[i][1]);
            ck_assert_int_eq(b64_decode_alloc(pairs[i][1], strlen(pairs[i][1]), &back, &len), 0);
            ck_assert_uint_eq(len, strlen(pairs[i][0]));
            ck_assert_str_eq((char *)back, pairs[i][0]);
        }
    }
END_TEST

START_TEST(refused)
    {
        static const char *const wrong[] = {"Z",
                                            "Zm9vY",
                                            "Zg==",
                                            "Zm 9v",
                                            "Zm9+",
                                            "Zm9/",
                                            "Zh",
                                            "Zm9",
                                            "Z\n",
                                            "\xc3\xa9"
                                            "aa"};
        char out[16];
        size_t len;
        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
            ck_assert_int_eq(b64_decode(wrong[i], strlen(wrong[i]), out, sizeof(out), &len),
                             -EPROTO);
        ck_assert_int_eq(b64_decode("Zg\0=", 4, out, sizeof(out), &len), -EPROTO);
        ck_assert_int_eq(b64_decode("Zm9vYmFy", 8, out, 5, &len), -EFBIG);
        ck_assert_int_eq(b64_decode("Zm9vYmFy", 8, out, 6, &len), 0);
    }
END_TEST

RUN_SUITE("b64", 10, vectors, refused)
