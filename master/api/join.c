// SPDX-License-Identifier: Apache-2.0
// A machine joins: its join token is checked, its key becomes a node, and the node gets a
// certificate. Idempotent per key.
#include "common/cleanup.h"
#include "common/json.h"
#include "common/log.h"
#include "common/pki.h"
#include "master/api/agents.h"
#include "master/api/tokens.h"
#include "proto/version.h"

#include <stdlib.h>
#include <string.h>

#define NODE_CERT_DAYS 365

static bool name_ok(const char *name)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    static const char rest[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return strlen(name) < NAME_BYTES && name[0] && strchr(first, name[0]) &&
           strspn(name, rest) == strlen(name);
}

static void answer(struct call *call, struct node *n, const char *csr)
{
    struct err e = {""};
    cleanup_free char *cert = NULL;
    const struct api_settings *s = &call->api->settings;
    int r = pki_node_cert(s->ca_cert_pem, s->ca_key_pem, csr, n->id, NODE_CERT_DAYS, &cert, &e);
    if (r < 0) {
        api_problem(call, 400, "csr: %s", e.text);
        return;
    }
    json_t *j = json_object();
    json_put_i64(j, "protocol", MEADOW_PROTOCOL);
    json_put_str(j, "cluster_id", cluster_id(call->api->cluster));
    json_put_str(j, "cluster_name", cluster_name(call->api->cluster));
    json_put_str(j, "node_id", n->id);
    json_put_str(j, "name", n->name);
    json_put_str(j, "certificate", cert);
    json_put_str(j, "ca", s->ca_cert_pem);
    json_put_bool(j, "approved", n->approved);
    api_reply_changed(call, 200, j);
}

void agents_join(struct call *call)
{
    struct err e = {""};
    const char *token, *name, *csr;
    char key[65];
    bool approved = false;
    cleanup_json json_t *j = api_body(call);

    if (!j)
        return;
    if (json_get_str(j, "token", &token, &e) < 0 || json_get_str(j, "name", &name, &e) < 0 ||
        json_get_str(j, "csr", &csr, &e) < 0) {
        api_problem(call, 400, "%s", e.text);
        return;
    }
    if (tokens_join_use(call->api->tokens, token, false, &approved, &e) < 0) {
        api_problem(call, 401, "%s", e.text);
        return;
    }
    if (!name_ok(name)) {
        api_problem(call, 422,
                    "name: \"%.80s\" is not a node name: letters, digits, '.', '_', '-', at most "
                    "63, the first a letter or digit",
                    name);
        return;
    }
    if (pki_csr_key_fingerprint(csr, key, &e) < 0) {
        api_problem(call, 400, "csr: %s", e.text);
        return;
    }
    // A repeated join of the same key costs no use.
    if (!cluster_node_by_key(call->api->cluster, key) &&
        tokens_join_use(call->api->tokens, token, true, &approved, &e) < 0) {
        api_problem(call, 401, "%s", e.text);
        return;
    }
    struct node *n = NULL;
    int r = cluster_node_join(call->api->cluster, name, key, approved, &n, &e);
    if (r < 0) {
        api_problem(call, r == -EEXIST ? 409 : 503, "%s", e.text);
        return;
    }
    answer(call, n, csr);
}
