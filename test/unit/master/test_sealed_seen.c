// SPDX-License-Identifier: Apache-2.0
// Replays: refused at once, after loading the records again, after the clock went back, and after
// the store was put back to an older state.
#include "test/unit/master/cluster_fixture.h"

#include "master/api/sealed_seen.h"
#include "test/unit/suite.h"

#define T0 INT64_C(1800000000)
#define KEY "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"

static struct sealed_seen *loaded(int64_t started_s)
{
    struct err e = {""};
    const char *key;
    json_t *value;
    struct sealed_seen *s = sealed_seen_new(cluster, started_s * 1000);
    json_object_foreach (queue.records, key, value) {
        const char *text = json_string_value(value);
        int r = sealed_seen_load(s, key, text, strlen(text), &e);
        ck_assert(r == 0 || r == -ENOENT);
    }
    return s;
}

static int accept_at(struct sealed_seen *s, const char *jti, int64_t now_s)
{
    int r = sealed_seen_accept(s, KEY, jti, now_s, now_s + 60, now_s);
    settle();
    return r;
}

START_TEST(once)
    {
        struct sealed_seen *s = sealed_seen_new(cluster, T0 * 1000);
        ck_assert_int_eq(accept_at(s, "one", T0), 0);
        ck_assert_int_eq(accept_at(s, "one", T0), -EEXIST);
        ck_assert_int_eq(accept_at(s, "one", T0 + 30), -EEXIST);
        ck_assert_int_eq(accept_at(s, "two", T0), 0);
        ck_assert_int_eq(sealed_seen_accept(s, "another key", "one", T0, T0 + 60, T0), 0);
        sealed_seen_free(s);
    }
END_TEST

START_TEST(after_a_restart)
    {
        struct sealed_seen *s = sealed_seen_new(cluster, T0 * 1000);
        ck_assert_int_eq(accept_at(s, "one", T0), 0);
        sealed_seen_free(s);
        s = loaded(T0); // in the same second
        ck_assert_int_eq(accept_at(s, "one", T0), -EEXIST);
        ck_assert_int_eq(accept_at(s, "two", T0), 0);
        sealed_seen_free(s);
        s = loaded(T0 + 10);
        ck_assert_int_eq(sealed_seen_accept(s, KEY, "one", T0, T0 + 60, T0 + 10), -EEXIST);
        ck_assert_int_eq(sealed_seen_accept(s, KEY, "new", T0 + 9, T0 + 60, T0 + 10), -ESTALE);
        ck_assert_int_eq(sealed_seen_accept(s, KEY, "new", T0 + 10, T0 + 60, T0 + 10), 0);
        sealed_seen_free(s);
    }
END_TEST

// What was accepted after the copy was made is not in it: refused by its age.
START_TEST(after_a_restore)
    {
        struct sealed_seen *s = sealed_seen_new(cluster, T0 * 1000);
        cleanup_json json_t *copy = json_deep_copy(queue.records);
        ck_assert_int_eq(accept_at(s, "one", T0), 0);
        sealed_seen_free(s);
        json_object_clear(queue.records);
        (void)json_object_update(queue.records, copy);
        s = loaded(T0 + 5);
        ck_assert_int_eq(sealed_seen_accept(s, KEY, "one", T0, T0 + 60, T0 + 5), -ESTALE);
        sealed_seen_free(s);
    }
END_TEST

START_TEST(the_clock_goes_back)
    {
        struct sealed_seen *s = sealed_seen_new(cluster, T0 * 1000);
        ck_assert_int_eq(accept_at(s, "one", T0), 0);
        ck_assert_int_eq(accept_at(s, "later", T0 + 61), 0); // "one" is over and forgotten
        ck_assert_uint_eq(sealed_seen_count(s), 1);
        ck_assert_int_eq(sealed_seen_accept(s, KEY, "one", T0, T0 + 60, T0), -ESTALE);
        ck_assert_int_eq(accept_at(s, "fresh", T0 + 1), 0); // expires after the watermark
        sealed_seen_free(s);
        s = loaded(T0); // and the watermark is durable
        ck_assert_int_eq(sealed_seen_accept(s, KEY, "one", T0, T0 + 60, T0), -ESTALE);
        ck_assert_int_eq(accept_at(s, "later", T0 + 61), -EEXIST);
        sealed_seen_free(s);
    }
END_TEST

START_TEST(records_do_not_pile_up)
    {
        char jti[32];
        struct sealed_seen *s = sealed_seen_new(cluster, T0 * 1000);
        for (int i = 0; i < 1000; i++) {
            (void)snprintf(jti, sizeof(jti), "jti-%d", i);
            ck_assert_int_eq(accept_at(s, jti, T0 + i), 0);
        }
        ck_assert_uint_le(sealed_seen_count(s), 61);
        sealed_seen_free(s);
    }
END_TEST

START_TEST(unreadable_records)
    {
        struct err e = {""};
        struct sealed_seen *s = sealed_seen_new(cluster, 0);
        ck_assert_int_eq(sealed_seen_load(s, "sealed:x:y", "{}", 2, &e), -EPROTO);
        ck_assert_int_eq(sealed_seen_load(s, "sealed:x:y", "{", 1, &e), -EPROTO);
        ck_assert_int_eq(sealed_seen_load(s, "token:x", "{", 1, &e), -ENOENT);
        sealed_seen_free(s);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("sealed_seen");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, once);
    tcase_add_test(t, after_a_restart);
    tcase_add_test(t, after_a_restore);
    tcase_add_test(t, the_clock_goes_back);
    tcase_add_test(t, records_do_not_pile_up);
    tcase_add_test(t, unreadable_records);
    return run_case("sealed_seen", t);
}
