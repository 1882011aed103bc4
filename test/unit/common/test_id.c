// SPDX-License-Identifier: Apache-2.0
// Identifiers: shape, alphabet, and that two of them differ.
#include "common/id.h"

#include "test/unit/suite.h"

#include <string.h>

START_TEST(has_its_shape)
    {
        char id[ID_BYTES];

        ck_assert_int_eq(id_new('j', id), 0);
        ck_assert_uint_eq(strlen(id), 1 + ID_CHARS);
        ck_assert(id_is('j', id));
        ck_assert(!id_is('n', id));
        ck_assert(!id_is('j', ""));
        ck_assert(!id_is('j', "j"));
        ck_assert(!id_is('j', "jmfrggzdfmztwx"));
        ck_assert(!id_is('j', "jmfrggzdfmzt1"));
        ck_assert(!id_is('j', "jMFRGGZDFMZTW"));
    }
END_TEST

START_TEST(random_of_any_length)
    {
        char text[201];
        size_t seen[256] = {0};

        ck_assert_int_eq(id_random(text, 0), 0);
        ck_assert_str_eq(text, "");
        for (int i = 0; i < 50; i++) {
            ck_assert_int_eq(id_random(text, 200), 0);
            ck_assert_uint_eq(strlen(text), 200);
            for (size_t k = 0; k < 200; k++)
                seen[(unsigned char)text[k]]++;
        }
        for (const char *c = "abcdefghijklmnopqrstuvwxyz234567"; *c; c++)
            ck_assert_uint_gt(seen[(unsigned char)*c], 100); // 312 expected
    }
END_TEST

START_TEST(no_two_are_equal)
    {
        char ids[200][ID_BYTES];

        for (size_t i = 0; i < 200; i++) {
            ck_assert_int_eq(id_new('n', ids[i]), 0);
            for (size_t k = 0; k < i; k++)
                ck_assert_str_ne(ids[i], ids[k]);
        }
    }
END_TEST

RUN_SUITE("id", 10, has_its_shape, random_of_any_length, no_two_are_equal)
