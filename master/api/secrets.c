// SPDX-License-Identifier: Apache-2.0
// /v1/secrets. Values go in and never come out: not to their owner, not to administrators, who may
// list and remove alone.
#include "common/cleanup.h"
#include "common/json.h"
#include "master/api/handlers.h"
#include "master/cluster/secret.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

void secrets_list(struct call *call)
{
    bool all = call->who.role >= ROLE_ADMIN;
    json_t *items = json_array();
    for (const struct secret *s = cluster_secrets(call->api->cluster); s; s = s->hh.next)
        if (all || strcmp(s->user, call->who.user) == 0)
            (void)json_array_append_new(items, secret_view(s));
    api_reply(call, 200, api_list(items, NULL, json_array_size(items)));
}

// The value as text or as base64. NULL when answered; the caller wipes and frees it.
static char *read_value(struct call *call, const json_t *body, size_t *ret_len)
{
    const char *text = json_opt_str(body, "value", NULL);
    const char *coded = json_opt_str(body, "base64", NULL);
    char *value = NULL;
    if (!text == !coded) {
        api_problem(call, 422, "expected one of value (a text) and base64");
        return NULL;
    }
    int r = 0;
    if (coded) {
        r = secret_decode(coded, &value, ret_len);
    } else {
        *ret_len = strlen(text);
        value = strdup(text);
    }
    if (r == -EPROTO)
        api_problem(call, 422, "base64: expected base64 with padding");
    else if (r == -EFBIG)
        api_problem(call, 422, "value: longer than %d bytes", SECRET_MAX_BYTES);
    else if (!value)
        api_problem(call, 503, "out of memory");
    return value;
}

void secrets_put(struct call *call)
{
    struct err e = {""};
    size_t len = 0;
    cleanup_json json_t *body = api_body(call);
    char *value = body ? read_value(call, body, &len) : NULL;
    if (!value)
        return;
    int r = cluster_secret_put(call->api->cluster, call->who.user, call->params[0], value, len, &e);
    OPENSSL_cleanse(value, len);
    free(value);
    if (r < 0) {
        api_problem(call,
                    r == -EINVAL || r == -EFBIG ? 422
                    : r == -ENOSPC              ? 409
                                                : 503,
                    "%s", e.text);
        return;
    }
    // Repeating changes nothing worse, and a digest of the body would be a way to guess the value.
    call->idempotency_key[0] = '\0';
    api_reply_changed(
        call, 200,
        secret_view(cluster_secret_find(call->api->cluster, call->who.user, call->params[0])));
}

void secrets_remove(struct call *call)
{
    const char *user = http_request_query(call->req, "user");
    const char *name = call->params[0];
    if (user && strcmp(user, call->who.user) != 0 && call->who.role < ROLE_ADMIN) {
        api_problem(call, 403, "to remove a secret of %.64s it needs the role admin; you have %s",
                    user, role_to_string(call->who.role));
        return;
    }
    if (!user)
        user = call->who.user;
    if (cluster_secret_remove(call->api->cluster, user, name) < 0) {
        api_problem(call, 404, "%.64s has no secret %.64s", user, name);
        return;
    }
    json_t *j = json_object();
    json_put_str(j, "name", name);
    json_put_str(j, "user", user);
    json_put_bool(j, "removed", true);
    api_reply_changed(call, 200, j);
}
