// SPDX-License-Identifier: Apache-2.0
// People's keys, and the thread that opens what they signed.
#include "test/unit/master/cluster_fixture.h"

#include "common/atomic_file.h"
#include "common/jose/jwe.h"
#include "common/jose/jws.h"
#include "master/api/sealed_worker.h"
#include "master/api/user_keys.h"
#include "master/cluster/user.h"
#include "master/master_keys.h"
#include "test/unit/suite.h"

static struct user_keys *keys;
static struct jwk *mine, *public_part;
static char my_id[JWK_THUMBPRINT_BYTES];

static void add_user(const char *name, enum role role)
{
    struct err e = {""};
    struct user u;
    user_init(&u, name, role);
    ck_assert_int_eq(cluster_user_put(cluster, &u, &e), 0);
}

static void setup_keys(void)
{
    struct err e = {""};
    cleanup_free char *pem = NULL;
    setup();
    add_user("ann", ROLE_OPERATOR);
    add_user("bob", ROLE_USER);
    keys = user_keys_new(cluster);
    ck_assert_int_eq(jwk_generate(JWK_EC, 0, &mine, &e), 0);
    ck_assert_int_eq(jwk_public_pem(mine, &pem, &e), 0);
    ck_assert_int_eq(jwk_from_pem(pem, &public_part, &e), 0);
    ck_assert_int_eq(jwk_thumbprint(mine, my_id), 0);
}

static void teardown_keys(void)
{
    jwk_free(mine);
    jwk_free(public_part);
    user_keys_free(keys);
    teardown();
}

static char *proof_over(const struct jwk *key, const char *kid, const char *cluster_name,
                        const char *user)
{
    struct err e = {""};
    char *text = NULL;
    cleanup_json json_t *j = json_pack("{s:s,s:s}", "cluster", cluster_name, "user", user);
    cleanup_free char *payload = json_text(j);
    ck_assert_int_eq(jws_sign(key, jws_default_alg(key), kid, payload, strlen(payload), &text, &e),
                     0);
    return text;
}

static enum role registers_as = ROLE_ADMIN;

static int add_key(const struct jwk *jwk, const char *kid, const char *cluster_name,
                   const char *signed_user, const char *user)
{
    struct err e = {""};
    char id[JWK_THUMBPRINT_BYTES];
    cleanup_free char *text = proof_over(mine, kid, cluster_name, signed_user);
    return user_keys_add(keys, jwk, text, user, registers_as, "laptop", id, &e);
}

START_TEST(proofs)
    {
        struct err e = {""};
        char id[JWK_THUMBPRINT_BYTES];
        struct jwk *other = NULL;
        const char *c = cluster_id(cluster);
        ck_assert_int_eq(jwk_generate(JWK_EC, 0, &other, &e), 0);
        cleanup_free char *not_mine = proof_over(other, my_id, c, "ann");
        ck_assert_int_eq(add_key(mine, my_id, c, "ann", "ann"), -EINVAL); // private
        ck_assert_int_eq(add_key(public_part, my_id, "cother", "ann", "ann"), -EACCES);
        ck_assert_int_eq(add_key(public_part, my_id, c, "bob", "ann"), -EACCES);
        ck_assert_int_eq(add_key(public_part, "other", c, "ann", "ann"), -EACCES);
        ck_assert_int_eq(user_keys_add(keys, public_part, not_mine, "ann", ROLE_USER, "", id, &e),
                         -EACCES);
        ck_assert_int_eq(user_keys_add(keys, public_part, "", "ann", ROLE_USER, "", id, &e),
                         -EACCES);
        ck_assert_int_eq(user_keys_add(keys, public_part, "a.b.c", "ann", ROLE_USER, "", id, &e),
                         -EACCES);
        ck_assert_ptr_null(user_keys_find(keys, my_id));
        ck_assert_int_eq(add_key(public_part, my_id, c, "ann", "ann"), 0);
        ck_assert_int_eq(add_key(public_part, my_id, c, "ann", "ann"), 0); // again: no error
        ck_assert_int_eq(add_key(public_part, my_id, c, "bob", "bob"), -EEXIST);
        jwk_free(other);
    }
END_TEST

START_TEST(principals)
    {
        struct principal who;
        ck_assert(!user_keys_principal(keys, my_id, &who));
        ck_assert_int_eq(add_key(public_part, my_id, cluster_id(cluster), "ann", "ann"), 0);
        ck_assert(user_keys_principal(keys, my_id, &who));
        ck_assert_str_eq(who.user, "ann");
        ck_assert_str_eq(who.key_id, my_id);
        ck_assert_int_eq(who.role, ROLE_OPERATOR);
        ck_assert_uint_eq(who.rights, RIGHTS_ALL);
        ck_assert(who.sealed && !who.local);
        // What a token of a lower role registers is worth no more than that token.
        ck_assert_int_eq(user_keys_remove(keys, my_id, "ann"), 0);
        registers_as = ROLE_USER;
        ck_assert_int_eq(add_key(public_part, my_id, cluster_id(cluster), "ann", "ann"), 0);
        ck_assert(user_keys_principal(keys, my_id, &who));
        ck_assert_int_eq(who.role, ROLE_USER);
        struct user u = *cluster_user_find(cluster, "ann");
        u.disabled = true;
        ck_assert_int_eq(cluster_user_put(cluster, &u, NULL), 0);
        ck_assert(!user_keys_principal(keys, my_id, &who));
        ck_assert_int_eq(cluster_user_remove(cluster, "ann"), 0);
        ck_assert(!user_keys_principal(keys, my_id, &who));
        user_init(&u, "ann", ROLE_ADMIN); // another ann
        u.created_ms += 60000;
        ck_assert_int_eq(cluster_user_put(cluster, &u, NULL), 0);
        ck_assert(!user_keys_principal(keys, my_id, &who));
    }
END_TEST

START_TEST(listed_removed_and_loaded)
    {
        struct err e = {""};
        char record[80];
        struct principal who;
        ck_assert_int_eq(add_key(public_part, my_id, cluster_id(cluster), "ann", "ann"), 0);
        settle();
        (void)snprintf(record, sizeof(record), "key:%s", my_id);
        const char *text = json_opt_str(queue.records, record, "");
        struct user_keys *again = user_keys_new(cluster);
        ck_assert_int_eq(user_keys_load(again, record, text, strlen(text), &e), 0);
        ck_assert(user_keys_principal(again, my_id, &who));
        ck_assert_int_eq(user_keys_load(again, record, "{}", 2, &e), -EPROTO);
        ck_assert_int_eq(user_keys_load(again, "token:x", "{}", 2, &e), -ENOENT);
        user_keys_free(again);
        cleanup_json json_t *all = user_keys_list(keys, NULL);
        cleanup_json json_t *bobs = user_keys_list(keys, "bob");
        ck_assert_uint_eq(json_array_size(all), 1);
        ck_assert_uint_eq(json_array_size(bobs), 0);
        ck_assert_int_eq(user_keys_remove(keys, my_id, "bob"), -ENOENT);
        ck_assert_int_eq(user_keys_remove(keys, my_id, "ann"), 0);
        settle();
        ck_assert_ptr_null(json_object_get(queue.records, record));
        ck_assert_int_eq(add_key(public_part, my_id, cluster_id(cluster), "ann", "ann"), 0);
        user_keys_remove_user(keys, "ann");
        ck_assert_ptr_null(user_keys_find(keys, my_id));
    }
END_TEST

// --- the thread ---

static char dir[64];
static struct master_keys *master;
static struct sealed_worker *worker;
static int done, good;

static void setup_worker(void)
{
    struct err e = {""};
    char identity[96];
    setup_keys();
    (void)snprintf(dir, sizeof(dir), "/tmp/mwork-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    (void)snprintf(identity, sizeof(identity), "%s/identity", dir);
    ck_assert_int_eq(make_dirs(identity, 0700, &e), 0);
    ck_assert_int_eq(master_keys_open(dir, &master, &e), 0);
    ck_assert_int_eq(add_key(public_part, my_id, cluster_id(cluster), "ann", "ann"), 0);
    worker = sealed_worker_new(&loop, master, keys);
    ck_assert_ptr_nonnull(worker);
    done = good = 0;
}

static void teardown_worker(void)
{
    sealed_worker_close(worker);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    master_keys_free(master);
    ck_assert_int_eq(remove_tree(dir, NULL), 0);
    teardown_keys();
}

static void on_opened(struct sealed_opened *o, void *userdata)
{
    (void)userdata;
    done++;
    if (!o->claims)
        return;
    good++;
    ck_assert_str_eq(o->key_id, my_id);
    ck_assert_str_eq(o->sealed_to, master_keys_thumbprint(master));
    ck_assert_int_eq(json_opt_i64(o->claims, "x", 0), 1);
}

static char *envelope(const char *signer, const char *payload)
{
    struct err e = {""};
    char *text = NULL;
    cleanup_free char *inner = NULL;
    struct jwk *to = master_keys_find(master, master_keys_thumbprint(master));
    ck_assert_int_eq(jws_sign(mine, JWS_ES256, signer, payload, strlen(payload), &inner, &e), 0);
    ck_assert_int_eq(
        jwe_seal(to, JWE_A256GCM, master_keys_thumbprint(master), inner, strlen(inner), &text, &e),
        0);
    jwk_free(to);
    return text;
}

static void open_all(int n)
{
    while (done < n && uv_run(&loop, UV_RUN_ONCE))
        ;
    ck_assert_int_eq(done, n);
}

START_TEST(opens)
    {
        struct sealed_stats stats;
        cleanup_free char *ok = envelope(my_id, "{\"x\":1}");
        cleanup_free char *unknown = envelope("kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k", "{}");
        cleanup_free char *twice = envelope(my_id, "{\"x\":1,\"x\":2}");
        const char *const texts[] = {ok, unknown, twice, "", "a.b.c.d.e"};
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
            ck_assert_int_eq(
                sealed_worker_open(worker, texts[i], strlen(texts[i]), on_opened, NULL), 0);
        open_all(5);
        ck_assert_int_eq(good, 1);
        sealed_worker_stats(worker, &stats);
        ck_assert_uint_eq(stats.rsa_operations, 3); // one for each that is to our key
        ck_assert_uint_eq(stats.opened, 1);
        ck_assert_uint_eq(stats.refused, 4);
    }
END_TEST

START_TEST(queue_is_short)
    {
        int queued = 0, r = 0;
        cleanup_free char *ok = envelope(my_id, "{\"x\":1}");
        for (int i = 0; i < 2 * SEALED_QUEUE_MAX && r == 0; i++) {
            r = sealed_worker_open(worker, ok, strlen(ok), on_opened, NULL);
            queued += r == 0;
        }
        ck_assert_int_eq(r, -EBUSY); // results are taken by the loop alone, which stands
        ck_assert_int_eq(queued, SEALED_QUEUE_MAX);
        open_all(queued);
        ck_assert_int_eq(good, queued);
    }
END_TEST

START_TEST(closing_answers_all)
    {
        cleanup_free char *ok = envelope(my_id, "{\"x\":1}");
        for (int i = 0; i < 10; i++)
            ck_assert_int_eq(sealed_worker_open(worker, ok, strlen(ok), on_opened, NULL), 0);
        sealed_worker_close(TAKE_PTR(worker));
        ck_assert_int_eq(done, 10);
    }
END_TEST

int main(void)
{
    Suite *s = suite_create("sealed_worker");
    TCase *t = tcase_create("keys");
    tcase_add_checked_fixture(t, setup_keys, teardown_keys);
    tcase_add_test(t, proofs);
    tcase_add_test(t, principals);
    tcase_add_test(t, listed_removed_and_loaded);
    suite_add_tcase(s, t);
    t = tcase_create("worker");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup_worker, teardown_worker);
    tcase_add_test(t, opens);
    tcase_add_test(t, queue_is_short);
    tcase_add_test(t, closing_answers_all);
    suite_add_tcase(s, t);
    return run_suite(s);
}
