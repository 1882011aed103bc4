// SPDX-License-Identifier: Apache-2.0
#include "common/cleanup.h"
#include "common/json.h"
#include "common/json_pool.h"
#include "test/unit/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static json_t *parsed(const char *text)
{
    json_t *j = NULL;
    struct err e;
    ck_assert_int_eq(json_parse(text, strlen(text), &j, &e), 0);
    return j;
}

static char *document(int n)
{
    cleanup_json json_t *j = json_object();
    for (int i = 0; i < n; i++) {
        char key[600];
        memset(key, 'k', sizeof(key));
        key[(i * 7) % 590 + 1] = '\0'; // pieces of every class, and larger ones
        json_t *x = json_pack("{s:i,s:s,s:[i,i]}", "n", i, "text", key, "list", i, -i);
        char name[16];
        (void)snprintf(name, sizeof(name), "m%d", i);
        json_put(j, name, x);
    }
    return json_text(j);
}

START_TEST(test_round_trips)
    {
        // Texts come from the pool and go back by free(); trees go back by the pool.
        for (int round = 0; round < 50; round++) {
            cleanup_free char *text = document(100 + round);
            cleanup_json json_t *a = parsed(text);
            cleanup_json json_t *b = json_deep_copy(a);
            cleanup_free char *again = json_text(b);
            ck_assert(json_equal(a, b));
            ck_assert_str_eq(text, again);
        }
    }
END_TEST

START_TEST(test_live_pieces_are_apart)
    {
        json_t *all[400];
        for (int i = 0; i < 400; i++)
            all[i] = json_pack("{s:i}", "i", i);
        for (int i = 0; i < 400; i += 2)
            json_decref(all[i]);
        for (int i = 0; i < 400; i += 2)
            all[i] = json_pack("{s:i}", "i", i);
        for (int i = 0; i < 400; i++) {
            ck_assert_int_eq(json_opt_i64(all[i], "i", -1), i);
            json_decref(all[i]);
        }
    }
END_TEST

START_TEST(test_more_than_is_kept)
    {
        // Twice what a thread keeps at most: the rest goes to malloc.
        json_t *list = json_array();
        for (int i = 0; i < 200000; i++)
            (void)json_array_append_new(list, json_pack("{s:i}", "i", i));
        json_decref(list);
        cleanup_json json_t *after = parsed("{\"a\":[1,2,3]}");
        ck_assert_uint_eq(json_array_size(json_object_get(after, "a")), 3);
    }
END_TEST

int main(void)
{
    json_pool_start();
    TCase *t = tcase_create("json_pool");
    tcase_add_test(t, test_round_trips);
    tcase_add_test(t, test_live_pieces_are_apart);
    tcase_add_test(t, test_more_than_is_kept);
    return run_case("json_pool", t);
}
