// SPDX-License-Identifier: Apache-2.0
// Tokens: made once, checked, expired, revoked, loaded again; their secrets are nowhere in the
// records.
#include "test/unit/master/cluster_fixture.h"

#include "common/clock.h"
#include "master/api/tokens.h"
#include "test/unit/suite.h"

static char text[TOKEN_TEXT_BYTES], id[ID_BYTES];

static void create(struct tokens *t, enum role role, int64_t ttl_ms)
{
    struct err e = {""};
    struct user u;
    user_init(&u, "ann", ROLE_ADMIN);
    ck_assert_int_eq(cluster_user_put(cluster, &u, &e), 0);
    ck_assert_int_eq(tokens_create(t, "ann", role, "laptop", ttl_ms, text, id, &e), 0);
}

START_TEST(test_check)
    {
        struct principal who = {0};
        struct tokens *t = tokens_new(cluster);
        create(t, ROLE_OPERATOR, 60000);
        ck_assert(tokens_check(t, text, &who));
        ck_assert_int_eq(who.role, ROLE_OPERATOR);
        ck_assert_str_eq(who.user, "ann");
        ck_assert_str_eq(who.token_id, id);
        for (size_t i = 0; i < strlen(text); i++) { // every single wrong character is refused
            char wrong[TOKEN_TEXT_BYTES];
            memcpy(wrong, text, sizeof(wrong));
            wrong[i] = wrong[i] == 'a' ? 'b' : 'a';
            ck_assert(!tokens_check(t, wrong, &who));
            wrong[i] = '\0';
            ck_assert(!tokens_check(t, wrong, &who));
        }
        ck_assert(!tokens_check(t, "", &who));
        tokens_free(t);
    }
END_TEST

START_TEST(test_expired_and_revoked)
    {
        struct principal who = {0};
        struct tokens *t = tokens_new(cluster);
        create(t, ROLE_USER, -1); // ended a millisecond ago
        int64_t then = clock_real_ms();
        while (clock_real_ms() == then)
            ;
        ck_assert(!tokens_check(t, text, &who));
        create(t, ROLE_USER, 60000);
        ck_assert(tokens_check(t, text, &who));
        ck_assert_int_eq(tokens_revoke(t, id), 0);
        ck_assert_int_eq(tokens_revoke(t, id), -ENOENT);
        ck_assert(!tokens_check(t, text, &who));
        tokens_free(t);
    }
END_TEST

START_TEST(test_records_hold_no_secret_and_load_again)
    {
        struct err e = {""};
        struct principal who = {0};
        const char *key;
        json_t *record;
        struct tokens *t = tokens_new(cluster);
        create(t, ROLE_VIEWER, 60000);
        settle();
        tokens_free(t);
        t = tokens_new(cluster);
        json_object_foreach (queue.records, key, record) {
            const char *json = json_string_value(record);
            ck_assert_ptr_null(strstr(json, strrchr(text, '_') + 1));
            if (strncmp(key, "user:", 5) != 0)
                ck_assert_int_eq(tokens_load(t, key, json, strlen(json), &e), 0);
        }
        ck_assert_int_eq(tokens_load(t, "job:x", "{}", 2, &e), -ENOENT);
        ck_assert(tokens_check(t, text, &who));
        ck_assert_int_eq(who.role, ROLE_VIEWER);
        tokens_free(t);
    }
END_TEST

START_TEST(test_join_tokens_are_used_up)
    {
        struct err e = {""};
        bool approved = false;
        int64_t expires;
        struct principal who = {0};
        struct tokens *t = tokens_new(cluster);
        ck_assert_int_eq(tokens_join_create(t, "fingerprint", 2, 60000, true, text, &expires, &e),
                         0);
        ck_assert(!tokens_check(t, text, &who)); // no person's token
        ck_assert_int_eq(tokens_join_use(t, text, JOIN_KNOWN, &approved, &e), 0);
        ck_assert(approved);
        ck_assert_int_eq(tokens_join_use(t, text, JOIN_SPEND, &approved, &e), 0);
        ck_assert_int_eq(tokens_join_use(t, text, JOIN_SPEND, &approved, &e), 0);
        ck_assert_int_eq(tokens_join_use(t, text, JOIN_SPEND, &approved, &e), -EACCES);
        ck_assert_int_eq(tokens_join_use(t, "mjoin_x", JOIN_SPEND, &approved, &e), -EACCES);
        ck_assert_int_eq(tokens_join_use(t, "", JOIN_SPEND, &approved, &e), -EACCES);
        tokens_free(t);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("tokens");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, test_check);
    tcase_add_test(t, test_expired_and_revoked);
    tcase_add_test(t, test_records_hold_no_secret_and_load_again);
    tcase_add_test(t, test_join_tokens_are_used_up);
    return run_case("tokens", t);
}
