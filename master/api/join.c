// SPDX-License-Identifier: Apache-2.0
// A machine joins: its join token is checked, its key becomes a node, and the node gets a
// certificate. Idempotent per key. Later the node renews the certificate by the one that it has.
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "common/pki.h"
#include "master/api/agents.h"
#include "master/api/tokens.h"
#include "master/server_cert.h"
#include "proto/version.h"

#include <stdlib.h>
#include <string.h>

static bool name_ok(const char *name)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    static const char rest[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return strlen(name) < NAME_BYTES && name[0] && strchr(first, name[0]) &&
           strspn(name, rest) == strlen(name);
}

// Makes the certificate and notes it with the node.
static int issue(struct call *call, struct node *n, const char *csr, char **ret, struct err *e)
{
    char fingerprint[65];
    int64_t until_ms;
    cleanup_free char *cert = NULL;
    const struct api_settings *s = &call->api->settings;
    int r = pki_node_cert(s->ca_cert_pem, s->ca_key_pem, csr, n->id, s->node_cert_life_s, &cert, e);
    if (r == 0)
        r = pki_cert_fingerprint(cert, fingerprint, e);
    if (r == 0)
        r = pki_cert_not_after_ms(cert, &until_ms, e);
    if (r < 0)
        return r;
    cluster_node_issued(call->api->cluster, n, fingerprint, until_ms);
    *ret = TAKE_PTR(cert);
    return 0;
}

static void answer(struct call *call, struct node *n, const char *csr)
{
    struct err e = {""};
    cleanup_free char *cert = NULL;
    if (issue(call, n, csr, &cert, &e) < 0) {
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
    json_put_str(j, "ca", server_cert_bundle(call->api->settings.server_cert));
    json_put_bool(j, "approved", n->approved);
    json_put_i64(j, "time_ms", clock_real_ms());
    api_reply_changed(call, 200, j);
}

struct join_request {
    const char *token, *csr;
    char key[65];
    struct node_claim claim;
};

// False: answered.
static bool read_request(struct call *call, const json_t *j, struct join_request *q)
{
    struct err e = {""};
    if (json_get_str(j, "token", &q->token, &e) < 0 ||
        json_get_str(j, "name", &q->claim.name, &e) < 0 ||
        json_get_str(j, "csr", &q->csr, &e) < 0) {
        api_problem(call, 400, "%s", e.text);
        return false;
    }
    // The token first: who has none learns nothing.
    if (tokens_join_use(call->api->tokens, q->token, JOIN_KNOWN, &q->claim.approved, &e) < 0) {
        api_problem(call, 401, "%s", e.text);
        return false;
    }
    if (protocol_check(json_opt_i64(j, "protocol", 0), "agent", &e) < 0) {
        api_problem(call, 422, "%s", e.text);
        return false;
    }
    if (!name_ok(q->claim.name)) {
        api_problem(call, 422,
                    "name: \"%.80s\" is not a node name: letters, digits, '.', '_', '-', at most "
                    "63, the first a letter or digit",
                    q->claim.name);
        return false;
    }
    q->claim.machine_id = json_opt_str(j, "machine_id", "");
    if (strlen(q->claim.machine_id) >= MACHINE_ID_BYTES)
        q->claim.machine_id = "";
    q->claim.key_fingerprint = q->key;
    if (pki_csr_key_fingerprint(q->csr, q->key, &e) < 0) {
        api_problem(call, 400, "csr: %s", e.text);
        return false;
    }
    return true;
}

void agents_join(struct call *call)
{
    struct err e = {""};
    struct join_request q = {0};
    struct node *n = NULL;
    struct api *a = call->api;
    cleanup_json json_t *j = api_body(call);

    if (!j || !read_request(call, j, &q))
        return;
    // A repeated join of the same key costs no use; a refused one neither.
    bool known = cluster_node_by_key(a->cluster, q.key) != NULL;
    if (!known && tokens_join_use(a->tokens, q.token, JOIN_LOOK, &q.claim.approved, &e) < 0) {
        api_problem(call, 401, "%s", e.text);
        return;
    }
    int r = cluster_node_join(a->cluster, &q.claim, &n, &e);
    if (r == 0 && !known)
        r = tokens_join_use(a->tokens, q.token, JOIN_SPEND, &q.claim.approved, &e);
    if (r < 0) {
        api_problem(call, r == -EEXIST || r == -EBUSY ? 409 : 503, "%s", e.text);
        return;
    }
    answer(call, n, q.csr);
}

void agents_renew(struct call *call)
{
    struct err e = {""};
    const char *csr;
    char key[65];
    cleanup_free char *cert = NULL;
    struct node *n = call->who.node;
    cleanup_json json_t *j = api_body(call);

    if (!j)
        return;
    if (json_get_str(j, "csr", &csr, &e) < 0 || pki_csr_key_fingerprint(csr, key, &e) < 0) {
        api_problem(call, 400, "csr: %s", e.text);
        return;
    }
    if (strcmp(key, n->key_fingerprint) != 0) {
        api_problem(call, 403, "the request is not signed by the key of node %s", n->name);
        return;
    }
    if (n->identity.removing) {
        api_problem(call, 409, "node %s is being removed: its certificate is not renewed", n->name);
        return;
    }
    if (issue(call, n, csr, &cert, &e) < 0) {
        api_problem(call, 400, "csr: %s", e.text);
        return;
    }
    json_t *out = json_object();
    json_put_str(out, "certificate", cert);
    json_put_str(out, "ca", server_cert_bundle(call->api->settings.server_cert));
    json_put_i64(out, "time_ms", clock_real_ms());
    api_reply_changed(call, 200, out);
}
