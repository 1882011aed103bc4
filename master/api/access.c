// SPDX-License-Identifier: Apache-2.0
// /v1/tokens and /v1/join-tokens. Their answers hold secrets, so they are never kept for replay
// under an Idempotency-Key.
#include "common/cleanup.h"
#include "common/json.h"
#include "common/pki.h"
#include "common/units.h"
#include "master/api/handlers.h"
#include "master/api/tokens.h"

#include <string.h>

#define DAY_MS INT64_C(86400000)

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

// The user whom the new token is for. One that is not known yet is added: the administrator of this
// machine himself (the first one of a cluster), or whom an administrator names. NULL when answered.
static const struct user *token_user(struct call *call, const char *name, enum role role)
{
    struct err e = {""};
    struct user u;
    const struct user *known = cluster_user_find(call->api->cluster, name);
    if (known)
        return known;
    bool self = strcmp(name, call->who.user) == 0;
    user_init(&u, name, self && call->who.local ? ROLE_ADMIN : role);
    if (self && call->who.local) {
        u.uid = http_request_peer(call->req)->uid;
        u.gid = http_request_peer(call->req)->gid;
    }
    int r = cluster_user_put(call->api->cluster, &u, &e);
    if (r < 0)
        api_reply_error(call, r, &e);
    return r < 0 ? NULL : cluster_user_find(call->api->cluster, name);
}

void access_token_create(struct call *call)
{
    struct err e = {""};
    enum role role;
    int64_t ttl_ms;
    char text[TOKEN_TEXT_BYTES], id[ID_BYTES];
    cleanup_json json_t *body = api_body(call);
    if (!body || duration(call, body, "ttl", 90 * DAY_MS, &ttl_ms) < 0)
        return;
    const char *user = json_opt_str(body, "user", call->who.user);
    const char *role_text = json_opt_str(body, "role", "user");
    if (role_from_string(role_text, &role) < 0) {
        api_problem(call, 422, "role: expected viewer, user, operator or admin, found \"%.40s\"",
                    role_text);
        return;
    }
    if (!token_user(call, user, role))
        return;
    int r = tokens_create(call->api->tokens, user, role, json_opt_str(body, "name", ""), ttl_ms,
                          text, id, &e);
    if (r < 0) {
        api_reply_error(call, r, &e);
        return;
    }
    json_t *j = json_object();
    json_put_str(j, "id", id);
    json_put_str(j, "token", text);
    json_put_str(j, "user", user);
    json_put_str(j, "role", role_to_string(role));
    call->idempotency_key[0] = '\0';
    api_reply_changed(call, 201, j);
}

void access_token_list(struct call *call)
{
    json_t *items = tokens_list(call->api->tokens);
    api_reply(call, 200, api_list(items, NULL, json_array_size(items)));
}

void access_token_revoke(struct call *call)
{
    if (tokens_revoke(call->api->tokens, call->params[0]) < 0) {
        api_problem(call, 404, "no token %.40s", call->params[0]);
        return;
    }
    json_t *j = json_object();
    json_put_str(j, "id", call->params[0]);
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
    int r = pki_cert_fingerprint(call->api->settings.ca_cert_pem, fingerprint, &e);
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
