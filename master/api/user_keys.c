// SPDX-License-Identifier: Apache-2.0
// The registry of people's keys: records `key:<thumbprint>`, a map, and a lock for the thread that
// verifies signatures.
#include "master/api/user_keys.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/jose/jws.h"
#include "common/json.h"
#include "master/cluster/user.h"

#include <stdlib.h>
#include <string.h>

#define PREFIX "key:"

struct user_key {
    char id[JWK_THUMBPRINT_BYTES];
    char user[NAME_BYTES];
    char name[NAME_BYTES];
    enum role role; // of who registered it: it is worth no more, whatever its user may
    int64_t created_ms;
    struct jwk *jwk;
    UT_hash_handle hh;
};

struct user_keys {
    struct cluster *cluster;
    uv_mutex_t lock; // changes of `all`, and looks from other threads
    struct user_key *all;
};

struct user_keys *user_keys_new(struct cluster *c)
{
    struct user_keys *k = calloc(1, sizeof(*k));
    if (k && uv_mutex_init(&k->lock) < 0) {
        free(k);
        return NULL;
    }
    if (k)
        k->cluster = c;
    return k;
}

static void key_free(struct user_key *x)
{
    jwk_free(x->jwk);
    free(x);
}

void user_keys_free(struct user_keys *k)
{
    struct user_key *x, *tmp;
    if (!k)
        return;
    HASH_ITER (hh, k->all, x, tmp) {
        HASH_DEL(k->all, x);
        key_free(x);
    }
    uv_mutex_destroy(&k->lock);
    free(k);
}

static void insert(struct user_keys *k, struct user_key *x)
{
    uv_mutex_lock(&k->lock);
    HASH_ADD_STR(k->all, id, x);
    uv_mutex_unlock(&k->lock);
}

static struct user_key *find(const struct user_keys *k, const char *id)
{
    struct user_key *x = NULL;
    HASH_FIND_STR(k->all, id, x);
    return x;
}

static void drop(struct user_keys *k, struct user_key *x)
{
    char key[64];
    (void)snprintf(key, sizeof(key), PREFIX "%s", x->id);
    cluster_del(k->cluster, key);
    uv_mutex_lock(&k->lock);
    HASH_DEL(k->all, x);
    uv_mutex_unlock(&k->lock);
    key_free(x);
}

static json_t *view(const struct user_key *x)
{
    json_t *j = json_object();
    json_put_str(j, "id", x->id);
    json_put_str(j, "user", x->user);
    json_put_str(j, "name", x->name);
    json_put_str(j, "role", role_to_string(x->role));
    json_put_str(j, "alg", jws_alg_to_string(jws_default_alg(x->jwk)));
    json_put_i64(j, "bits", jwk_bits(x->jwk));
    json_put_time(j, "created_at", x->created_ms);
    return j;
}

static void store(struct user_keys *k, const struct user_key *x)
{
    char key[64];
    cleanup_json json_t *j = view(x);
    json_put(j, "jwk", jwk_public_json(x->jwk));
    (void)snprintf(key, sizeof(key), PREFIX "%s", x->id);
    cluster_put(k->cluster, key, json_text(j), 0);
}

int user_keys_load(struct user_keys *k, const char *key, const char *json, size_t len,
                   struct err *e)
{
    cleanup_json json_t *j = NULL;
    if (strncmp(key, PREFIX, strlen(PREFIX)) != 0)
        return -ENOENT;
    int r = json_parse(json, len, &j, e);
    struct user_key *x = r == 0 ? calloc(1, sizeof(*x)) : NULL;
    if (!x)
        return r < 0 ? err_wrap(e, r, "record %s", key) : err_set(e, -ENOMEM, "out of memory");
    r = jwk_parse(json_object_get(j, "jwk"), &x->jwk, e);
    if (r == 0)
        r = jwk_thumbprint(x->jwk, x->id);
    if (r < 0) {
        key_free(x);
        return err_wrap(e, r == -ENOENT ? -EPROTO : r, "record %s", key);
    }
    (void)snprintf(x->user, sizeof(x->user), "%s", json_opt_str(j, "user", ""));
    (void)snprintf(x->name, sizeof(x->name), "%s", json_opt_str(j, "name", ""));
    x->created_ms = json_opt_time(j, "created_at");
    if (role_from_string(json_opt_str(j, "role", ""), &x->role) < 0)
        x->role = ROLE_USER; // written before keys had a role
    insert(k, x);
    return 0;
}

// --- registering ---

static bool proves(const struct user_keys *k, const struct jws *s, const char *user)
{
    cleanup_json json_t *j = NULL;
    return json_parse((const char *)s->payload, s->payload_len, &j, NULL) == 0 &&
           json_object_size(j) == 2 &&
           strcmp(json_opt_str(j, "cluster", ""), cluster_id(k->cluster)) == 0 &&
           strcmp(json_opt_str(j, "user", ""), user) == 0;
}

static bool proof_ok(const struct user_keys *k, const struct jwk *jwk, const char *id,
                     const char *proof, const char *user)
{
    struct jws s;
    if (jws_parse(proof, strlen(proof), &s) < 0)
        return false;
    bool ok = strcmp(s.kid, id) == 0 && jws_verify(&s, jwk) == 0 && proves(k, &s, user);
    jws_reset(&s);
    return ok;
}

static unsigned count_of(const struct user_keys *k, const char *user)
{
    unsigned n = 0;
    for (const struct user_key *x = k->all; x; x = x->hh.next)
        n += strcmp(x->user, user) == 0;
    return n;
}

static int check(const struct user_keys *k, const struct jwk *jwk, const char *id,
                 const char *proof, const char *user, struct err *e)
{
    if (!proof_ok(k, jwk, id, proof, user))
        return err_set(e, -EACCES,
                       "proof: expected a JWS by this very key (kid = its thumbprint) over "
                       "{\"cluster\": \"%s\", \"user\": \"%s\"}: `meadow key register` makes it",
                       cluster_id(k->cluster), user);
    const struct user_key *there = find(k, id);
    if (there && strcmp(there->user, user) != 0)
        return err_set(e, -EEXIST, "the key %s is registered already", id);
    if (!there && count_of(k, user) >= USER_KEYS_MAX)
        return err_set(e, -ENOSPC, "%s has %d keys already: remove one first", user, USER_KEYS_MAX);
    return 0;
}

int user_keys_add(struct user_keys *k, const struct jwk *jwk, const char *proof, const char *user,
                  enum role role, const char *name, char ret_id[JWK_THUMBPRINT_BYTES],
                  struct err *e)
{
    if (jwk_kind_of(jwk) == JWK_OCT || jwk_is_private(jwk))
        return err_set(e, -EINVAL,
                       "jwk: expected a public key to verify with (RSA, EC P-256 or Ed25519); a "
                       "private key must never leave its owner: make a new one");
    int r = jwk_thumbprint(jwk, ret_id);
    if (r == 0)
        r = check(k, jwk, ret_id, proof, user, e);
    struct user_key *old = r == 0 ? find(k, ret_id) : NULL;
    struct user_key *x = old ? old : r == 0 ? calloc(1, sizeof(*x)) : NULL;
    if (!x)
        return r < 0 ? r : err_set(e, -ENOMEM, "out of memory");
    (void)snprintf(x->name, sizeof(x->name), "%s", name);
    x->role = role;
    x->created_ms = clock_real_ms();
    if (!old) {
        memcpy(x->id, ret_id, sizeof(x->id));
        (void)snprintf(x->user, sizeof(x->user), "%s", user);
        x->jwk = jwk_ref((struct jwk *)(uintptr_t)jwk);
        insert(k, x);
    }
    store(k, x);
    return 0;
}

int user_keys_remove(struct user_keys *k, const char *id, const char *user)
{
    struct user_key *x = find(k, id);
    if (!x || (user && strcmp(user, x->user) != 0))
        return -ENOENT;
    drop(k, x);
    return 0;
}

void user_keys_remove_user(struct user_keys *k, const char *user)
{
    struct user_key *x, *tmp;
    HASH_ITER (hh, k->all, x, tmp) {
        if (strcmp(x->user, user) == 0)
            drop(k, x);
    }
}

json_t *user_keys_list(const struct user_keys *k, const char *user)
{
    json_t *list = json_array();
    for (const struct user_key *x = k->all; x; x = x->hh.next)
        if (!user || strcmp(user, x->user) == 0)
            (void)json_array_append_new(list, view(x));
    return list;
}

// --- using ---

struct jwk *user_keys_find(struct user_keys *k, const char *id)
{
    uv_mutex_lock(&k->lock);
    const struct user_key *x = find(k, id);
    struct jwk *jwk = x ? jwk_ref(x->jwk) : NULL;
    uv_mutex_unlock(&k->lock);
    return jwk;
}

bool user_keys_principal(const struct user_keys *k, const char *id, struct principal *ret)
{
    const struct user_key *x = find(k, id);
    const struct user *u = x ? cluster_user_find(k->cluster, x->user) : NULL;
    // A user made anew under an old name has nothing of the one before.
    if (!u || u->disabled || (!u->adopted && x->created_ms < u->created_ms))
        return false;
    *ret = (struct principal){.role = x->role < u->role ? x->role : u->role, .sealed = true};
    ret->rights = ret->role < ROLE_USER ? 0 : user_rights(u);
    (void)snprintf(ret->user, sizeof(ret->user), "%s", u->name);
    (void)snprintf(ret->key_id, sizeof(ret->key_id), "%s", x->id);
    return true;
}
