// SPDX-License-Identifier: Apache-2.0
// /v1/keys: people's keys for sealed requests, and the master's own.
#include "common/cleanup.h"
#include "common/json.h"
#include "master/api/handlers.h"
#include "master/api/user_keys.h"
#include "master/cluster/user.h"
#include "master/master_keys.h"

#include <stdlib.h>
#include <string.h>

// --- people's keys ---

// Whose key it is to be: the caller's, or for an admin whom the body names. NULL when answered.
static const char *owner_of(struct call *call, const json_t *body)
{
    const char *user = json_opt_str(body, "user", call->who.user);
    if (strcmp(user, call->who.user) != 0 && call->who.role < ROLE_ADMIN) {
        api_problem(call, 403, "user: only an admin may register a key for somebody else");
        return NULL;
    }
    if (cluster_user_find(call->api->cluster, user))
        return user;
    api_problem(call, 404,
                "no user %.63s: a key belongs to a user of the cluster (`meadow token "
                "create NAME --user %.63s` or an admin makes one)",
                user, user);
    return NULL;
}

static struct jwk *public_key_of(struct call *call, const json_t *body)
{
    struct err e = {""};
    struct jwk *key = NULL;
    if (jwk_parse(json_object_get(body, "jwk"), &key, &e) == 0)
        return key;
    api_problem(call, 422, "jwk: %s", e.text);
    return NULL;
}

static json_t *registered(struct call *call, const char *id, const char *user)
{
    json_t *j = json_object();
    json_put_str(j, "id", id);
    json_put_str(j, "user", user);
    json_put_str(j, "cluster", cluster_id(call->api->cluster));
    json_put_str(j, "master_key", master_keys_thumbprint(call->api->master_keys));
    return j;
}

void keys_register(struct call *call)
{
    struct err e = {""};
    char id[JWK_THUMBPRINT_BYTES];
    cleanup_json json_t *body = api_body(call);
    const char *user = body ? owner_of(call, body) : NULL;
    struct jwk *key = user ? public_key_of(call, body) : NULL;
    if (!key)
        return;
    int r = user_keys_add(call->api->user_keys, key, json_opt_str(body, "proof", ""), user,
                          call->who.role, json_opt_str(body, "name", ""), id, &e);
    jwk_free(key);
    if (r == -ENOSPC)
        api_problem(call, 409, "%s", e.text);
    else if (r < 0)
        api_reply_error(call, r, &e);
    else
        api_reply_changed(call, 201, registered(call, id, user));
}

void keys_list(struct call *call)
{
    const char *user =
        call->who.role >= ROLE_ADMIN ? http_request_query(call->req, "user") : call->who.user;
    json_t *items = user_keys_list(call->api->user_keys, user);
    json_t *j = api_list(items, NULL, json_array_size(items));
    json_put_str(j, "user", call->who.user);
    json_put_str(j, "cluster", cluster_id(call->api->cluster));
    json_put_str(j, "master_key", master_keys_thumbprint(call->api->master_keys));
    api_reply(call, 200, j);
}

void keys_remove(struct call *call)
{
    const char *user = call->who.role >= ROLE_ADMIN ? NULL : call->who.user;
    if (user_keys_remove(call->api->user_keys, call->params[0], user) < 0) {
        api_problem(call, 404, "no key %.64s: `meadow key list` shows yours", call->params[0]);
        return;
    }
    api_recheck(call->api);
    json_t *j = json_object();
    json_put_str(j, "id", call->params[0]);
    json_put_bool(j, "removed", true);
    api_reply_changed(call, 200, j);
}

// --- the master's ---

static json_t *master_key_json(struct master_key_info *i)
{
    json_t *j = json_object();
    json_put_str(j, "thumbprint", i->thumbprint);
    json_put_i64(j, "bits", i->bits);
    json_put(j, "jwk", TAKE_PTR(i->jwk));
    json_put_str(j, "pem", i->pem);
    return j;
}

static json_t *master_json(struct call *call, struct err *e)
{
    struct master_key_info i;
    if (master_keys_info(call->api->master_keys, false, &i, e) < 0)
        return NULL;
    json_t *j = master_key_json(&i);
    master_key_info_reset(&i);
    json_put_str(j, "cluster", cluster_id(call->api->cluster));
    if (master_keys_info(call->api->master_keys, true, &i, e) == 0)
        json_put(j, "previous", i.thumbprint[0] ? master_key_json(&i) : json_null());
    master_key_info_reset(&i);
    return j;
}

void keys_master(struct call *call)
{
    struct err e = {""};
    const char *accept = http_request_header(call->req, "Accept");
    json_t *j = master_json(call, &e);
    if (!j) {
        api_problem(call, 503, "%s", e.text);
    } else if (accept && strstr(accept, "application/x-pem-file")) {
        const char *pem = json_opt_str(j, "pem", "");
        http_respond(call->req, 200, "application/x-pem-file", pem, strlen(pem));
        json_decref(j);
    } else {
        api_reply_now(call, 200, j);
    }
}

// Making an RSA key takes a while, so it is made on a thread of the pool.
struct rotation {
    uv_work_t work;
    struct call call; // its req is NULL once the client is gone
    unsigned bits;
    struct jwk *key;
};

static void on_rotation_gone(struct http_request *req, void *userdata)
{
    struct rotation *x = userdata;
    (void)req;
    x->call.req = NULL;
}

static void make_key(uv_work_t *work)
{
    struct rotation *x = container_of(work, struct rotation, work);
    if (jwk_generate(JWK_RSA, x->bits, &x->key, NULL) < 0)
        x->key = NULL;
}

static void on_key_made(uv_work_t *work, int status)
{
    struct err e = {""};
    struct rotation *x = container_of(work, struct rotation, work);
    struct call *call = &x->call;
    // Nobody waits for it any more: nothing is changed.
    if (status == 0 && x->key && call->req) {
        http_request_on_gone(call->req, NULL, NULL);
        int r = master_keys_rotate(call->api->master_keys, TAKE_PTR(x->key), &e);
        if (r < 0)
            api_problem(call, 500, "the master's key was not changed: %s", e.text);
        else
            api_reply_changed(call, 200, master_json(call, &e));
    } else if (call->req) {
        http_request_on_gone(call->req, NULL, NULL);
        api_problem(call, 503, "no key could be made: try again");
    }
    jwk_free(x->key);
    free(x);
}

void keys_master_rotate(struct call *call)
{
    cleanup_json json_t *body = api_body(call);
    if (!body)
        return;
    int64_t bits = json_opt_i64(body, "bits", MASTER_KEY_BITS);
    if (bits != 2048 && bits != 3072) {
        api_problem(call, 422, "bits: expected 2048 or 3072");
        return;
    }
    struct rotation *x = calloc(1, sizeof(*x));
    if (!x) {
        api_problem(call, 503, "out of memory");
        return;
    }
    x->call = *call;
    x->bits = (unsigned)bits;
    if (uv_queue_work(call->api->settings.loop, &x->work, make_key, on_key_made) < 0) {
        free(x);
        api_problem(call, 503, "no key could be made: try again");
        return;
    }
    http_request_on_gone(call->req, on_rotation_gone, x);
}
