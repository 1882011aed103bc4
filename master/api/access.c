// SPDX-License-Identifier: Apache-2.0
// /v1/tokens and /v1/join-tokens. Their answers hold secrets, so they are never kept for replay
// under an Idempotency-Key.
#include "common/cleanup.h"
#include "common/json.h"
#include "common/pki.h"
#include "common/units.h"
#include "master/api/handlers.h"
#include "master/api/tokens.h"
#include "master/server_cert.h"

#include <openssl/crypto.h>
#include <string.h>

#define DAY_MS INT64_C(86400000)
#define OWN_TTL_MAX_MS (365 * DAY_MS)

// A duration member, or the default; answers 422 itself.
static int duration(struct call *call, const json_t *body, const char *key, int64_t fallback_ms,
                    int64_t *ret_ms)
{
    struct err e = {""};
    const char *text = json_opt_str(body, key, NULL);
    *ret_ms = fallback_ms;
    if (!text)
        return 0;
    int r = units_parse_duration(text, ret_ms, &e);
    if (r < 0)
        api_problem(call, 422, "%s: %s", key, e.text);
    return r;
}

// The administrator of this machine himself: the first user of a cluster.
static void init_self(struct call *call, struct user *u)
{
    user_init(u, call->who.user, ROLE_ADMIN);
    const struct http_peer *peer = http_request_peer(call->req);
    if (peer->uid == 0) // root gives no mapping: nodes refuse to run tasks as root
        return;
    u->uid = peer->uid;
    u->gid = peer->gid;
}

// The user whom the new token is for. One that is not known yet is added when an administrator
// names it. NULL when answered.
static const struct user *token_user(struct call *call, const char *name, const char *role_text)
{
    struct err e = {""};
    struct user u;
    enum role role;
    bool self = strcmp(name, call->who.user) == 0;
    const struct user *known = cluster_user_find(call->api->cluster, name);
    if (!self && call->who.role < ROLE_ADMIN) {
        api_problem(call, 403, "a token for %.64s needs the role admin; you have %s", name,
                    role_to_string(call->who.role));
        return NULL;
    }
    if (known)
        return known;
    if (role_from_string(role_text ? role_text : "user", &role) < 0)
        role = ROLE_VIEWER; // told below
    user_init(&u, name, role);
    if (self && call->who.local)
        init_self(call, &u);
    int r = cluster_user_put(call->api->cluster, &u, &e);
    if (r < 0)
        api_reply_error(call, r, &e);
    return r < 0 ? NULL : cluster_user_find(call->api->cluster, name);
}

// At most the caller's and the user's; answers itself.
static bool token_role(struct call *call, const struct user *u, const char *text, enum role *ret)
{
    enum role most = u->role < call->who.role ? u->role : call->who.role;
    *ret = most < ROLE_USER ? most : ROLE_USER;
    if (!text)
        return true;
    if (role_from_string(text, ret) < 0 || *ret > call->who.role)
        api_problem(call, 403, "role: a token can't do more than you: you have the role %s",
                    role_to_string(call->who.role));
    else if (*ret > u->role)
        api_problem(call, 422, "role: %s has the role %s, and a token can't do more than its user",
                    u->name, role_to_string(u->role));
    else
        return true;
    return false;
}

static bool token_ttl(struct call *call, const json_t *body, int64_t *ret_ms)
{
    if (duration(call, body, "ttl", 90 * DAY_MS, ret_ms) < 0)
        return false;
    if (call->who.role == ROLE_ADMIN || (*ret_ms > 0 && *ret_ms <= OWN_TTL_MAX_MS))
        return true;
    api_problem(call, 422, "ttl: a token that you make for yourself is good for at most 365d");
    return false;
}

static const char *bad_text(const json_t *body)
{
    static const char *const keys[] = {"user", "role", "name", "ttl"};
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        const json_t *x = json_object_get(body, keys[i]);
        if (x && (!json_is_string(x) || json_string_length(x) >= NAME_BYTES ||
                  strpbrk(json_string_value(x), "\n\r")))
            return keys[i];
    }
    return NULL;
}

void access_token_create(struct call *call)
{
    struct err e = {""};
    enum role role;
    int64_t ttl_ms;
    char text[TOKEN_TEXT_BYTES], id[ID_BYTES], fingerprint[65];
    cleanup_json json_t *body = api_body(call);
    if (!body)
        return;
    const char *bad = bad_text(body);
    if (bad) {
        api_problem(call, 422, "%s: expected a text of one line, up to 63 bytes", bad);
        return;
    }
    const char *role_text = json_opt_str(body, "role", NULL);
    if (role_text && role_from_string(role_text, &role) < 0) {
        api_problem(call, 422, "role: expected viewer, user, operator or admin, found \"%.40s\"",
                    role_text);
        return;
    }
    if (!token_ttl(call, body, &ttl_ms))
        return;
    const struct user *user =
        token_user(call, json_opt_str(body, "user", call->who.user), role_text);
    if (!user || !token_role(call, user, role_text, &role))
        return;
    int r = tokens_create(call->api->tokens, user->name, role, json_opt_str(body, "name", ""),
                          ttl_ms, text, id, &e);
    if (r < 0) {
        api_reply_error(call, r, &e);
        return;
    }
    json_t *j = tokens_view(call->api->tokens, id);
    json_put_str(j, "token", text);
    json_put_str(j, "master", call->api->settings.url);
    if (pki_cert_fingerprint(call->api->settings.ca_cert_pem, fingerprint, &e) == 0)
        json_put_str(j, "ca_fingerprint", fingerprint);
    OPENSSL_cleanse(text, sizeof(text));
    call->idempotency_key[0] = '\0';
    api_reply_changed(call, 201, j);
}

// People see their own, administrators everybody's.
void access_token_list(struct call *call)
{
    const char *user = http_request_query(call->req, "user");
    if (call->who.role < ROLE_ADMIN)
        user = call->who.user;
    json_t *items = tokens_list(call->api->tokens, user);
    api_reply(call, 200, api_list(items, NULL, json_array_size(items)));
}

// That somebody else's token exists is private.
void access_token_revoke(struct call *call)
{
    const char *id = call->params[0];
    const char *user = tokens_user(call->api->tokens, id);
    // A token below the role user may end itself alone (logout): it changes nothing.
    bool own = user && strcmp(user, call->who.user) == 0 &&
               (call->who.role >= ROLE_USER || strcmp(id, call->who.token_id) == 0);
    if ((!own && call->who.role < ROLE_ADMIN) || tokens_revoke(call->api->tokens, id) < 0) {
        api_problem(call, 404, "no token %.40s: `meadow token list` shows their ids", id);
        return;
    }
    api_recheck(call->api);
    json_t *j = json_object();
    json_put_str(j, "id", id);
    json_put_bool(j, "revoked", true);
    api_reply_changed(call, 200, j);
}

void access_join_token_create(struct call *call)
{
    struct err e = {""};
    char text[TOKEN_TEXT_BYTES], fingerprint[65];
    int64_t ttl_ms, expires_ms;
    cleanup_json json_t *body = api_body(call);
    if (!body || duration(call, body, "ttl", 3600000, &ttl_ms) < 0)
        return;
    int64_t uses = json_opt_i64(body, "uses", 10);
    if (uses < 1 || uses > 100000) {
        api_problem(call, 422, "uses: expected 1 to 100000");
        return;
    }
    int r =
        pki_cert_fingerprint(server_cert_bundle(call->api->settings.server_cert), fingerprint, &e);
    if (r == 0)
        r = tokens_join_create(call->api->tokens, fingerprint, uses, ttl_ms,
                               json_opt_bool(body, "approved", false), text, &expires_ms, &e);
    if (r < 0) {
        api_reply_error(call, r, &e);
        return;
    }
    json_t *j = json_object();
    json_put_str(j, "token", text);
    json_put_str(j, "ca_fingerprint", fingerprint);
    json_put_str(j, "master", call->api->settings.url);
    json_put_i64(j, "uses", uses);
    json_put_time(j, "expires_at", expires_ms);
    call->idempotency_key[0] = '\0';
    api_reply_changed(call, 201, j);
}
