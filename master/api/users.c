// SPDX-License-Identifier: Apache-2.0
// /v1/users and /v1/whoami. Who may see whom: operators and admins everybody, others themselves.
#include "common/cleanup.h"
#include "common/json.h"
#include "master/api/handlers.h"
#include "master/api/tokens.h"
#include "master/api/user_keys.h"
#include "master/cluster/quota.h"

#include <string.h>

static bool may_see(const struct call *call, const struct user *u)
{
    return call->who.role >= ROLE_OPERATOR || strcmp(u->name, call->who.user) == 0;
}

// The user of parameter 0, or answers 404.
static const struct user *find(struct call *call)
{
    const struct user *u = cluster_user_find(call->api->cluster, call->params[0]);
    if (u && may_see(call, u))
        return u;
    api_problem(call, 404, "no user %.64s", call->params[0]);
    return NULL;
}

void users_list(struct call *call)
{
    json_t *items = json_array();
    for (const struct user *u = cluster_users(call->api->cluster); u; u = u->hh.next)
        if (may_see(call, u))
            (void)json_array_append_new(items, user_view(u));
    api_reply(call, 200, api_list(items, NULL, json_array_size(items)));
}

void users_show(struct call *call)
{
    const struct user *u = find(call);
    if (u)
        api_reply(call, 200, user_view(u));
}

void users_whoami(struct call *call)
{
    json_t *j = json_object();
    json_put_str(j, "user", call->who.user);
    json_put_str(j, "role", role_to_string(call->who.role));
    json_put(j, "rights", rights_to_json(call->who.rights));
    json_put_bool(j, "local", call->who.local);
    json_put_bool(j, "sealed", call->who.sealed);
    json_put(j, "token",
             call->who.token_id[0] ? tokens_view(call->api->tokens, call->who.token_id)
                                   : json_null());
    json_put_str(j, "key", call->who.key_id[0] ? call->who.key_id : NULL);
    api_reply(call, 200, j);
}

// --- the body ---

static int read_role(const json_t *value, struct user *u, struct err *e)
{
    enum role role;
    const char *text = json_string_value(value);
    if (!text || role_from_string(text, &role) < 0)
        return err_set(e, -EINVAL, "role: expected viewer, user, operator or admin");
    if (role < ROLE_USER)
        u->rights = 0;
    else if (u->role < ROLE_USER)
        u->rights = RIGHTS_ALL;
    u->role = role;
    return 0;
}

static int read_team(const json_t *value, struct user *u, struct err *e)
{
    const char *text = json_is_null(value) ? "" : json_string_value(value);
    if (!text || (text[0] && !user_name_ok(text)))
        return err_set(e, -EINVAL, "team: expected a name as users have, or null");
    (void)snprintf(u->team, sizeof(u->team), "%s", text);
    return 0;
}

static int read_number(const json_t *value, const char *key, int64_t *ret, struct err *e)
{
    if (!json_is_null(value) && (!json_is_integer(value) || json_integer_value(value) < 0))
        return err_set(e, -EINVAL, "%s: expected a number of 0 to 4294967294, or null", key);
    *ret = json_is_null(value) ? -1 : json_integer_value(value);
    return 0;
}

static int read_weight(const json_t *value, struct user *u, struct err *e)
{
    if (!json_is_integer(value))
        return err_set(e, -EINVAL, "weight: expected a whole number of 1 to %d", USER_WEIGHT_MAX);
    u->weight = json_integer_value(value);
    return 0;
}

static int read_disabled(const json_t *value, struct user *u, struct err *e)
{
    if (!json_is_boolean(value))
        return err_set(e, -EINVAL, "disabled: expected true or false");
    u->disabled = json_is_true(value);
    return 0;
}

static int read_member(const char *key, const json_t *value, struct user *u, struct err *e)
{
    if (strcmp(key, "team") == 0)
        return read_team(value, u, e);
    if (strcmp(key, "uid") == 0)
        return read_number(value, key, &u->uid, e);
    if (strcmp(key, "gid") == 0)
        return read_number(value, key, &u->gid, e);
    if (strcmp(key, "disabled") == 0)
        return read_disabled(value, u, e);
    if (strcmp(key, "weight") == 0)
        return read_weight(value, u, e);
    if (strcmp(key, "quota") == 0)
        return quota_from_json(value, &u->quota, e);
    if (strcmp(key, "rights") == 0)
        return rights_from_json(value, &u->rights, e);
    if (strcmp(key, "name") == 0 || strcmp(key, "role") == 0)
        return 0; // taken already
    return err_set(
        e, -EINVAL,
        "%.40s: unknown; expected name, role, rights, team, uid, gid, weight, quota or disabled",
        key);
}

// The role comes first: it brings the rights that `rights` then replaces.
static int read_body(const json_t *body, struct user *u, struct err *e)
{
    const char *key;
    const json_t *value = json_object_get(body, "role");
    int r = value ? read_role(value, u, e) : 0;
    json_object_foreach ((json_t *)body, key, value) {
        if (r == 0)
            r = read_member(key, value, u, e);
    }
    if (r == 0 && u->rights && u->role < ROLE_USER)
        r = err_set(e, -EINVAL, "rights: a viewer has none; give the role user first");
    return r;
}

// --- changes ---

// What was given to the user ends at once: tokens, and whatever else proves to be him.
static void end_proofs(struct api *a, const char *name)
{
    tokens_revoke_user(a->tokens, name);
    if (a->user_keys)
        user_keys_remove_user(a->user_keys, name);
}

// Tokens and open answers that are worth less now end with the change.
static void put(struct call *call, const struct user *u, int status)
{
    struct err e = {""};
    struct api *a = call->api;
    int r = cluster_user_put(a->cluster, u, &e);
    if (r < 0) {
        api_reply_error(call, r, &e);
        return;
    }
    if (u->disabled)
        end_proofs(a, u->name);
    api_recheck(a);
    api_reply_changed(call, status, user_view(u));
}

void users_create(struct call *call)
{
    struct err e = {""};
    struct user u;
    cleanup_json json_t *body = api_body(call);
    if (!body)
        return;
    const char *name = json_opt_str(body, "name", "");
    if (!user_name_ok(name)) {
        api_problem(call, 422,
                    "name: expected 1 to 63 characters of A-Z, a-z, 0-9, '.', '_', '@' and '-', "
                    "the first a letter, digit or '_'");
        return;
    }
    if (cluster_user_find(call->api->cluster, name)) {
        api_problem(call, 409, "there is a user %s: `meadow user set %s` changes it", name, name);
        return;
    }
    user_init(&u, name, ROLE_USER);
    if (read_body(body, &u, &e) < 0)
        api_problem(call, 422, "%s", e.text);
    else
        put(call, &u, 201);
}

// Whoever takes his own power away can't give it back; the socket of the master's machine can.
static bool own_end(struct call *call, const struct user *u, bool less)
{
    if (call->who.local || !less || strcmp(u->name, call->who.user) != 0)
        return false;
    api_problem(call, 409,
                "that would end your own access: let another admin do it, or do it on "
                "the master's machine");
    return true;
}

void users_change(struct call *call)
{
    struct err e = {""};
    cleanup_json json_t *body = api_body(call);
    const struct user *before = body ? find(call) : NULL;
    if (!before)
        return;
    struct user u = *before;
    const char *name = json_opt_str(body, "name", u.name);
    if (strcmp(name, u.name) != 0)
        api_problem(call, 422, "name: a user keeps the name; add another user instead");
    else if (read_body(body, &u, &e) < 0)
        api_problem(call, 422, "%s", e.text);
    else if (!own_end(call, before, u.disabled || u.role < before->role))
        put(call, &u, 200);
}

void users_delete(struct call *call)
{
    char name[NAME_BYTES];
    struct api *a = call->api;
    const struct user *u = find(call);
    if (!u || own_end(call, u, true))
        return;
    memcpy(name, u->name, sizeof(name));
    // Before the record: a half written batch leaves nobody with tokens alone.
    end_proofs(a, name);
    if (cluster_user_remove(a->cluster, name) < 0) {
        api_problem(call, 404, "no user %s", name);
        return;
    }
    api_recheck(a);
    json_t *j = json_object();
    json_put_str(j, "name", name);
    json_put_bool(j, "deleted", true);
    api_reply_changed(call, 200, j);
}
