// SPDX-License-Identifier: Apache-2.0
// Tokens. The text is "mtok_<id>_<52 base32>" (256 random bits and more) for people and "mjoin_<ca
// fingerprint>_<id><52 base32>" for nodes; only the SHA-256 of the whole text is kept.
#include "master/api/tokens.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/pki.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#define SECRET_CHARS 52 // 5 bits each
#define USED_EVERY_MS 60000
#define PER_USER_MAX 1000
#define KEEP_EXPIRED_MS (INT64_C(30) * 86400000) // to be seen in the list

struct token {
    char id[ID_BYTES];
    bool join;
    char name[NAME_BYTES];
    char user[NAME_BYTES];
    enum role role;
    char hash[65];
    int64_t created_ms, expires_ms;
    int64_t used_ms;   // last use, as recorded: at most a minute behind
    int64_t uses_left; // join tokens
    bool approved;     // join tokens
    UT_hash_handle hh;
};

struct tokens {
    struct cluster *cluster;
    struct token *all;
};

struct tokens *tokens_new(struct cluster *c)
{
    struct tokens *t = calloc(1, sizeof(*t));
    if (t)
        t->cluster = c;
    return t;
}

void tokens_free(struct tokens *t)
{
    struct token *x, *tmp;
    if (!t)
        return;
    HASH_ITER (hh, t->all, x, tmp) {
        HASH_DEL(t->all, x);
        free(x);
    }
    free(t);
}

static void record_key(const struct token *x, char *out, size_t size)
{
    (void)snprintf(out, size, "%s:%s", x->join ? "jointoken" : "token", x->id);
}

static void store(struct tokens *t, const struct token *x)
{
    char key[40];
    cleanup_json json_t *j = json_object();
    json_put_str(j, "id", x->id);
    json_put_str(j, "name", x->name);
    json_put_str(j, "user", x->user);
    json_put_str(j, "role", role_to_string(x->role));
    json_put_str(j, "hash", x->hash);
    json_put_time(j, "created_at", x->created_ms);
    json_put_time(j, "expires_at", x->expires_ms);
    json_put_time(j, "used_at", x->used_ms);
    json_put_i64(j, "uses_left", x->uses_left);
    json_put_bool(j, "approved", x->approved);
    record_key(x, key, sizeof(key));
    cluster_put(t->cluster, key, json_text(j), 0);
}

static void forget(struct tokens *t, struct token *x)
{
    char key[40];
    record_key(x, key, sizeof(key));
    cluster_del(t->cluster, key);
    HASH_DEL(t->all, x);
    free(x);
}

int tokens_load(struct tokens *t, const char *key, const char *json, size_t len, struct err *e)
{
    bool join = strncmp(key, "jointoken:", 10) == 0;
    if (!join && strncmp(key, "token:", 6) != 0)
        return -ENOENT;
    cleanup_json json_t *j = NULL;
    int r = json_parse(json, len, &j, e);
    if (r < 0)
        return err_wrap(e, r, "record %s", key);
    struct token *x = calloc(1, sizeof(*x));
    if (!x)
        return err_set(e, -ENOMEM, "out of memory");
    x->join = join;
    (void)snprintf(x->id, sizeof(x->id), "%s", json_opt_str(j, "id", ""));
    (void)snprintf(x->name, sizeof(x->name), "%s", json_opt_str(j, "name", ""));
    (void)snprintf(x->user, sizeof(x->user), "%s", json_opt_str(j, "user", ""));
    (void)snprintf(x->hash, sizeof(x->hash), "%s", json_opt_str(j, "hash", ""));
    if (role_from_string(json_opt_str(j, "role", ""), &x->role) < 0)
        x->role = join ? ROLE_NODE : ROLE_VIEWER; // an unknown role gets the least
    x->created_ms = json_opt_time(j, "created_at");
    x->expires_ms = json_opt_time(j, "expires_at");
    x->used_ms = json_opt_time(j, "used_at");
    x->uses_left = json_opt_i64(j, "uses_left", 0);
    x->approved = json_opt_bool(j, "approved", false);
    HASH_ADD_STR(t->all, id, x);
    return 0;
}

static bool secret_matches(const struct token *x, const char *text)
{
    char hash[65];
    if (pki_sha256_hex(text, strlen(text), hash) < 0)
        return false;
    return CRYPTO_memcmp(hash, x->hash, 64) == 0;
}

static bool expired(const struct token *x)
{
    return x->expires_ms && clock_real_ms() > x->expires_ms;
}

static struct token *find(const struct tokens *t, const char *id_text, bool join)
{
    char id[ID_BYTES];
    struct token *x = NULL;
    if (strlen(id_text) < ID_BYTES - 1)
        return NULL;
    memcpy(id, id_text, ID_BYTES - 1);
    id[ID_BYTES - 1] = '\0';
    HASH_FIND_STR(t->all, id, x);
    return x && x->join == join ? x : NULL;
}

// Recorded once a minute at most, with the batch of this turn.
static void used(struct tokens *t, struct token *x)
{
    int64_t now = clock_real_ms();
    if (now >= x->used_ms && now - x->used_ms < USED_EVERY_MS)
        return;
    x->used_ms = now;
    store(t, x);
}

bool tokens_check(struct tokens *t, const char *text, struct principal *ret)
{
    struct token *x = strncmp(text, "mtok_", 5) == 0 ? find(t, text + 5, false) : NULL;
    if (!x || expired(x) || !secret_matches(x, text))
        return false;
    const struct user *u = cluster_user_find(t->cluster, x->user);
    if (!u || u->disabled)
        return false;
    ret->role = x->role < u->role ? x->role : u->role;
    ret->rights = ret->role < ROLE_USER ? 0 : user_rights(u);
    memcpy(ret->user, x->user, sizeof(ret->user));
    memcpy(ret->token_id, x->id, sizeof(ret->token_id));
    used(t, x);
    return true;
}

// A new one with an id that begins with `kind`, and its secret; finish() takes or frees it. NULL
// without memory or random numbers.
static struct token *begin(char kind, char secret[SECRET_CHARS + 1])
{
    struct token *x = calloc(1, sizeof(*x));
    if (x && (id_new(kind, x->id) < 0 || id_random(secret, SECRET_CHARS) < 0)) {
        free(x);
        return NULL;
    }
    return x;
}

static int finish(struct tokens *t, struct token *x, const char *text, int64_t ttl_ms)
{
    x->created_ms = clock_real_ms();
    x->expires_ms = ttl_ms ? x->created_ms + ttl_ms : 0;
    int r = pki_sha256_hex(text, strlen(text), x->hash);
    if (r < 0) {
        free(x);
        return r;
    }
    HASH_ADD_STR(t->all, id, x);
    store(t, x);
    return 0;
}

// Drops the user's long expired ones. How many are left.
static unsigned tidy(struct tokens *t, const char *user)
{
    unsigned n = 0;
    int64_t now = clock_real_ms();
    struct token *x, *tmp;
    HASH_ITER (hh, t->all, x, tmp) {
        if (x->join || strcmp(x->user, user) != 0)
            continue;
        if (x->expires_ms && now - x->expires_ms > KEEP_EXPIRED_MS)
            forget(t, x);
        else
            n++;
    }
    return n;
}

int tokens_create(struct tokens *t, const char *user, enum role role, const char *name,
                  int64_t ttl_ms, char ret_text[TOKEN_TEXT_BYTES], char ret_id[ID_BYTES],
                  struct err *e)
{
    char secret[SECRET_CHARS + 1];
    if (tidy(t, user) >= PER_USER_MAX)
        return err_set(e, -EBUSY, "%s has %d tokens: revoke some", user, PER_USER_MAX);
    struct token *x = begin('t', secret);
    if (!x)
        return err_set(e, -ENOMEM, "out of memory or random numbers");
    x->role = role;
    (void)snprintf(x->name, sizeof(x->name), "%s", name);
    (void)snprintf(x->user, sizeof(x->user), "%s", user);
    (void)snprintf(ret_text, TOKEN_TEXT_BYTES, "mtok_%s_%s", x->id, secret);
    memcpy(ret_id, x->id, ID_BYTES);
    int r = finish(t, x, ret_text, ttl_ms);
    OPENSSL_cleanse(secret, sizeof(secret));
    return r < 0 ? err_set(e, r, "hashing failed") : 0;
}

void tokens_revoke_user(struct tokens *t, const char *user)
{
    struct token *x, *tmp;
    HASH_ITER (hh, t->all, x, tmp) {
        if (!x->join && strcmp(x->user, user) == 0)
            forget(t, x);
    }
}

int tokens_adopt(struct tokens *t, struct err *e)
{
    int r = 0;
    for (const struct token *x = t->all; x && r == 0; x = x->hh.next) {
        struct user u;
        const struct user *known = cluster_user_find(t->cluster, x->user);
        if (x->join || !user_name_ok(x->user) || (known && !known->adopted))
            continue;
        if (known && known->role >= x->role)
            continue;
        user_init(&u, x->user, x->role);
        u.adopted = true;
        r = cluster_user_put(t->cluster, &u, e);
    }
    return r;
}

int tokens_revoke(struct tokens *t, const char *id)
{
    struct token *x = NULL;
    HASH_FIND_STR(t->all, id, x);
    if (!x)
        return -ENOENT;
    forget(t, x);
    return 0;
}

static json_t *view(const struct token *x)
{
    json_t *j = json_object();
    json_put_str(j, "id", x->id);
    json_put_str(j, "name", x->name);
    json_put_str(j, "user", x->user);
    json_put_str(j, "role", role_to_string(x->role));
    json_put_time(j, "created_at", x->created_ms);
    json_put_time(j, "expires_at", x->expires_ms);
    json_put_time(j, "used_at", x->used_ms);
    json_put_bool(j, "expired", expired(x));
    return j;
}

static const struct token *by_id(const struct tokens *t, const char *id)
{
    struct token *x = NULL;
    HASH_FIND_STR(t->all, id, x);
    return x && !x->join ? x : NULL;
}

json_t *tokens_view(const struct tokens *t, const char *id)
{
    const struct token *x = by_id(t, id);
    return x ? view(x) : json_null();
}

const char *tokens_user(const struct tokens *t, const char *id)
{
    const struct token *x = by_id(t, id);
    return x ? x->user : NULL;
}

bool tokens_valid(const struct tokens *t, const char *id)
{
    const struct token *x = by_id(t, id);
    return x && !expired(x);
}

json_t *tokens_list(const struct tokens *t, const char *user)
{
    json_t *list = json_array();
    for (const struct token *x = t->all; x; x = x->hh.next)
        if (!x->join && (!user || strcmp(x->user, user) == 0))
            (void)json_array_append_new(list, view(x));
    return list;
}

int tokens_join_create(struct tokens *t, const char *ca_fingerprint, int64_t uses, int64_t ttl_ms,
                       bool approved, char ret_text[TOKEN_TEXT_BYTES], int64_t *ret_expires_ms,
                       struct err *e)
{
    char secret[SECRET_CHARS + 1];
    struct token *x = begin('k', secret);
    if (!x)
        return err_set(e, -ENOMEM, "out of memory or random numbers");
    x->join = true;
    x->role = ROLE_NODE;
    x->uses_left = uses;
    x->approved = approved;
    (void)snprintf(ret_text, TOKEN_TEXT_BYTES, "mjoin_%s_%s%s", ca_fingerprint, x->id, secret);
    int r = finish(t, x, ret_text, ttl_ms);
    OPENSSL_cleanse(secret, sizeof(secret));
    if (r < 0)
        return err_set(e, r, "hashing failed");
    *ret_expires_ms = x->expires_ms;
    return 0;
}

int tokens_join_use(struct tokens *t, const char *text, enum join_use use, bool *ret_approved,
                    struct err *e)
{
    const char *secret = strncmp(text, "mjoin_", 6) == 0 ? strchr(text + 6, '_') : NULL;
    struct token *x = secret ? find(t, secret + 1, true) : NULL;
    if (!x || !secret_matches(x, text))
        return err_set(
            e, -EACCES,
            "this join token is not valid here: make a new one with `meadow node join-command`");
    if (expired(x)) {
        char at[CLOCK_TEXT_BYTES];
        clock_format_ms(x->expires_ms, at);
        return err_set(e, -EACCES,
                       "this join token expired at %s: make a new one with `meadow node "
                       "join-command`",
                       at);
    }
    *ret_approved = x->approved;
    if (use == JOIN_KNOWN)
        return 0;
    if (x->uses_left <= 0)
        return err_set(e, -EACCES,
                       "this join token has been used up: make a new one with `meadow node "
                       "join-command --uses N`");
    if (use == JOIN_LOOK)
        return 0;
    x->uses_left--;
    store(t, x);
    return 0;
}
