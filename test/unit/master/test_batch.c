// SPDX-License-Identifier: Apache-2.0
// Cutting batches and laying them out as a script's arguments.
#include "master/store/batch.h"
#include "test/unit/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static char *text_of(size_t len)
{
    char *text = malloc(len + 1);
    ck_assert_ptr_nonnull(text);
    memset(text, 'x', len);
    text[len] = '\0';
    return text;
}

static struct store_batch batch_of(size_t n)
{
    struct store_batch b = {calloc(n, sizeof(struct store_op)), n};
    ck_assert_ptr_nonnull(b.ops);
    return b;
}

static void set(struct store_batch *b, size_t i, const char *key, char *json, int64_t ttl_ms)
{
    b->ops[i] =
        (struct store_op){.kind = STORE_SET, .key = strdup(key), .json = json, .ttl_ms = ttl_ms};
}

START_TEST(pieces_are_bounded_by_count_and_bytes)
    {
        struct store_batch b = batch_of(2500);
        for (size_t i = 0; i < b.count; i++)
            set(&b, i, "k", text_of(2), 0);
        ck_assert_uint_eq(batch_piece_end(&b, 0), 1000);
        ck_assert_uint_eq(batch_piece_end(&b, 1000), 2000);
        ck_assert_uint_eq(batch_piece_end(&b, 2000), 2500);
        ck_assert_uint_eq(batch_piece_end(&b, 2500), 2500);
        store_batch_free(&b);

        b = batch_of(4);
        set(&b, 0, "k", text_of(BATCH_BYTES_MAX + 10), 0); // goes alone
        set(&b, 1, "k", text_of(BATCH_BYTES_MAX / 2), 0);
        set(&b, 2, "k", text_of(BATCH_BYTES_MAX / 2 - 10), 0);
        set(&b, 3, "k", text_of(100), 0);
        ck_assert_uint_eq(batch_piece_end(&b, 0), 1);
        ck_assert_uint_eq(batch_piece_end(&b, 1), 3);
        ck_assert_uint_eq(batch_piece_end(&b, 3), 4);
        store_batch_free(&b);
        ck_assert_ptr_null(b.ops);
    }
END_TEST

static void expect(const struct batch_args *a, const char *const *wanted)
{
    size_t i = 0;
    for (; wanted[i]; i++) {
        ck_assert_uint_lt(i, a->count);
        ck_assert_msg(a->lengths[i] == strlen(wanted[i]) &&
                          memcmp(a->argv[i], wanted[i], a->lengths[i]) == 0,
                      "argument %zu is %.*s, not %s", i, (int)a->lengths[i], a->argv[i], wanted[i]);
    }
    ck_assert_uint_eq(i, a->count);
}

START_TEST(neighbours_of_one_kind_share_a_group)
    {
        struct batch_args a = {0};
        struct store_batch b = batch_of(9);
        set(&b, 0, "a", strdup("1"), 0);
        set(&b, 1, "b", strdup("2"), 0);
        b.ops[2] = (struct store_op){.kind = STORE_DEL, .key = strdup("a")};
        set(&b, 3, "a", strdup("3"), 0);
        set(&b, 4, "t", strdup("4"), 86400000);
        b.ops[5] = (struct store_op){
            .kind = STORE_APPEND, .key = strdup("e"), .json = strdup("5"), .id = 7, .max_len = 10};
        b.ops[6] = (struct store_op){
            .kind = STORE_APPEND, .key = strdup("e"), .json = strdup("6"), .id = 8, .max_len = 10};
        b.ops[7] = (struct store_op){
            .kind = STORE_APPEND, .key = strdup("f"), .json = strdup("7"), .id = 1, .max_len = 10};
        b.ops[8] = (struct store_op){.kind = STORE_DEL, .key = strdup("z")};
        ck_assert_int_eq(batch_args_begin(&a, "p:", &b, 0, b.count, 2), 0);
        batch_args_text(&a, "HEAD", 4);
        batch_args_number(&a, INT64_MAX);
        batch_args_ops(&a, "p:", &b, 0, b.count);
        const char *const wanted[] = {"HEAD",     "9223372036854775807",
                                      "S",        "2",
                                      "p:a",      "1",
                                      "p:b",      "2",
                                      "D",        "1",
                                      "p:a",      "S",
                                      "1",        "p:a",
                                      "3",        "T",
                                      "1",        "p:t",
                                      "86400000", "4",
                                      "A",        "2",
                                      "p:e",      "10",
                                      "7",        "5",
                                      "8",        "6",
                                      "A",        "1",
                                      "p:f",      "10",
                                      "1",        "7",
                                      "D",        "1",
                                      "p:z",      NULL};
        expect(&a, wanted);

        // Used again, for a part only.
        ck_assert_int_eq(batch_args_begin(&a, "", &b, 2, 4, 0), 0);
        batch_args_ops(&a, "", &b, 2, 4);
        const char *const part[] = {"D", "1", "a", "S", "1", "a", "3", NULL};
        expect(&a, part);
        store_batch_free(&b);
        batch_args_free(&a);
    }
END_TEST

START_TEST(numbers)
    {
        struct batch_args a = {0};
        struct store_batch b = {0};
        ck_assert_int_eq(batch_args_begin(&a, "", &b, 0, 0, 4), 0);
        batch_args_number(&a, 0);
        batch_args_number(&a, -1);
        batch_args_number(&a, INT64_MIN);
        batch_args_number(&a, 1000);
        const char *const wanted[] = {"0", "-1", "-9223372036854775808", "1000", NULL};
        expect(&a, wanted);
        batch_args_free(&a);
    }
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    tcase_add_test(all, pieces_are_bounded_by_count_and_bytes);
    tcase_add_test(all, neighbours_of_one_kind_share_a_group);
    tcase_add_test(all, numbers);
    return run_case("batch", all);
}
