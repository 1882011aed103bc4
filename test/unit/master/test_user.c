// SPDX-License-Identifier: Apache-2.0
// Users: names, rights, records that load again, and those that tokens of an older store bring.
#include "test/unit/master/cluster_fixture.h"

#include "master/api/tokens.h"
#include "master/cluster/user.h"
#include "test/unit/suite.h"

static struct err e;

static const struct user *put(const char *name, enum role role)
{
    struct user u;
    user_init(&u, name, role);
    ck_assert_int_eq(cluster_user_put(cluster, &u, &e), 0);
    return cluster_user_find(cluster, name);
}

START_TEST(test_names)
    {
        static const char *const good[] = {"ann", "_x", "A.b-c@d", "0", "uid-1000"};
        static const char *const bad[] = {"",    ".a",   "-a",       "a b",           "a/b",
                                          "a:b", "a\nb", "\xc3\xa4", "a\xe2\x80\xae", "*"};
        char longest[NAME_BYTES + 1];
        for (size_t i = 0; i < ARRAY_SIZE(good); i++)
            ck_assert_msg(user_name_ok(good[i]), "%s", good[i]);
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
            ck_assert_msg(!user_name_ok(bad[i]), "%s", bad[i]);
        memset(longest, 'a', sizeof(longest));
        longest[NAME_BYTES] = '\0';
        ck_assert(!user_name_ok(longest));
        longest[NAME_BYTES - 1] = '\0';
        ck_assert(user_name_ok(longest));
    }
END_TEST

START_TEST(test_rights)
    {
        unsigned rights = 99;
        struct user u;
        user_init(&u, "ann", ROLE_USER);
        ck_assert_uint_eq(user_rights(&u), RIGHTS_ALL);
        u.role = ROLE_VIEWER; // whatever the record says
        ck_assert_uint_eq(user_rights(&u), 0);
        u.role = ROLE_ADMIN;
        u.disabled = true;
        ck_assert_uint_eq(user_rights(&u), 0);
        cleanup_json json_t *list = rights_to_json(RIGHT_DATA_WRITE);
        ck_assert_int_eq(rights_from_json(list, &rights, &e), 0);
        ck_assert_uint_eq(rights, RIGHT_DATA_WRITE);
        json_array_append_new(list, json_string("fly"));
        ck_assert_int_eq(rights_from_json(list, &rights, &e), -EINVAL);
        ck_assert_ptr_nonnull(strstr(e.text, "rights[1]"));
        ck_assert_int_eq(rights_from_json(NULL, &rights, &e), -EINVAL);
    }
END_TEST

START_TEST(test_records_load_again)
    {
        struct user u;
        user_init(&u, "ann", ROLE_OPERATOR);
        u.uid = 1001;
        u.gid = 100;
        u.rights = RIGHT_EXEC;
        strcpy(u.team, "vision");
        ck_assert_int_eq(cluster_user_put(cluster, &u, &e), 0);
        settle();
        const char *json = json_string_value(json_object_get(queue.records, "user:ann"));
        ck_assert_ptr_nonnull(json);
        cleanup_free char *copy = strdup(json);
        ck_assert_int_eq(cluster_user_remove(cluster, "ann"), 0);
        ck_assert_int_eq(cluster_user_remove(cluster, "ann"), -ENOENT);
        settle();
        ck_assert_ptr_null(json_object_get(queue.records, "user:ann"));
        ck_assert_int_eq(cluster_load(cluster, "user:ann", copy, strlen(copy), &e), 0);
        const struct user *again = cluster_user_find(cluster, "ann");
        ck_assert_int_eq(again->role, ROLE_OPERATOR);
        ck_assert_int_eq(again->uid, 1001);
        ck_assert_int_eq(again->gid, 100);
        ck_assert_uint_eq(again->rights, RIGHT_EXEC);
        ck_assert_str_eq(again->team, "vision");
        ck_assert_uint_eq(cluster_user_count(cluster), 1);
    }
END_TEST

START_TEST(test_bad_ones_are_refused)
    {
        struct user u;
        user_init(&u, "a b", ROLE_USER);
        ck_assert_int_eq(cluster_user_put(cluster, &u, &e), -EINVAL);
        user_init(&u, "ann", ROLE_USER);
        u.uid = INT64_C(4294967295);
        ck_assert_int_eq(cluster_user_put(cluster, &u, &e), -EINVAL);
        ck_assert_uint_eq(cluster_user_count(cluster), 0);
    }
END_TEST

START_TEST(test_a_token_is_worth_no_more_than_its_user)
    {
        char text[TOKEN_TEXT_BYTES], id[ID_BYTES];
        struct principal who = {0};
        struct user u = *put("ann", ROLE_ADMIN);
        struct tokens *t = tokens_new(cluster);
        ck_assert_int_eq(tokens_create(t, "ann", ROLE_ADMIN, "", 60000, text, id, &e), 0);
        ck_assert(tokens_check(t, text, &who));
        ck_assert_int_eq(who.role, ROLE_ADMIN);
        ck_assert_uint_eq(who.rights, RIGHTS_ALL);
        u.role = ROLE_VIEWER;
        ck_assert_int_eq(cluster_user_put(cluster, &u, &e), 0);
        ck_assert(tokens_check(t, text, &who));
        ck_assert_int_eq(who.role, ROLE_VIEWER);
        ck_assert_uint_eq(who.rights, 0);
        u.disabled = true;
        ck_assert_int_eq(cluster_user_put(cluster, &u, &e), 0);
        ck_assert(!tokens_check(t, text, &who));
        ck_assert_int_eq(cluster_user_remove(cluster, "ann"), 0);
        ck_assert(!tokens_check(t, text, &who));
        tokens_free(t);
    }
END_TEST

START_TEST(test_older_stores_get_their_users)
    {
        char text[TOKEN_TEXT_BYTES], id[ID_BYTES];
        put("kim", ROLE_VIEWER);
        struct tokens *t = tokens_new(cluster);
        ck_assert_int_eq(tokens_create(t, "ann", ROLE_USER, "", 0, text, id, &e), 0);
        ck_assert_int_eq(tokens_create(t, "ann", ROLE_ADMIN, "", 0, text, id, &e), 0);
        ck_assert_int_eq(tokens_create(t, "ann", ROLE_VIEWER, "", 0, text, id, &e), 0);
        ck_assert_int_eq(tokens_create(t, "kim", ROLE_ADMIN, "", 0, text, id, &e), 0);
        ck_assert_int_eq(tokens_adopt(t, &e), 0);
        ck_assert_int_eq(cluster_user_find(cluster, "ann")->role, ROLE_ADMIN);
        ck_assert_int_eq(cluster_user_find(cluster, "kim")->role, ROLE_VIEWER); // has a record
        tokens_revoke_user(t, "ann");
        cleanup_json json_t *left = tokens_list(t, NULL);
        ck_assert_uint_eq(json_array_size(left), 1);
        tokens_free(t);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("users");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, test_names);
    tcase_add_test(t, test_rights);
    tcase_add_test(t, test_records_load_again);
    tcase_add_test(t, test_bad_ones_are_refused);
    tcase_add_test(t, test_a_token_is_worth_no_more_than_its_user);
    tcase_add_test(t, test_older_stores_get_their_users);
    return run_case("users", t);
}
