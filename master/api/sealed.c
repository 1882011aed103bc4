// SPDX-License-Identifier: Apache-2.0
// One exchange from the envelope to the sealed answer. The answer leaves when the request's record
// is durable and the inner request is answered, whichever is later. Before a signature is verified
// there is one refusal for everything; after it, refusals are sealed too.
#include "master/api/sealed.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/http_inner.h"
#include "common/jose/jwe.h"
#include "common/json.h"
#include "master/api/audit.h"
#include "master/api/router.h"
#include "master/api/sealed_claims.h"
#include "master/api/sealed_limit.h"
#include "master/api/sealed_seen.h"
#include "master/api/user_keys.h"
#include "master/master_keys.h"

#include <stdlib.h>
#include <string.h>

#define ANSWER_MAX (8u << 20)
#define COMMIT_WAIT_MS 10000

struct sealed {
    struct sealed_worker *worker; // started by the first request
    struct sealed_seen *seen;
    struct sealed_limit *limit;
};

struct exchange {
    struct call call; // of the envelope; its req is NULL once the client is gone
    struct jwk *answer_key;
    char jti[SEALED_JTI_BYTES];
    bool opening, committing;   // waiting for the thread, for the batch
    struct http_request *inner; // waiting for its answer
    bool unknown;               // the batch was not confirmed
    int status;                 // of the inner answer; 0 = not yet
    char *content_type, *body;
    size_t len;
};

static void end_if_over(struct exchange *x)
{
    if (x->opening || x->committing || x->inner || x->call.req)
        return;
    jwk_free(x->answer_key);
    free(x->content_type);
    free(x->body);
    free(x);
}

static void on_gone(struct http_request *req, void *userdata)
{
    struct exchange *x = userdata;
    (void)req;
    x->call.req = NULL;
    if (x->inner)
        http_inner_cancel(TAKE_PTR(x->inner));
    end_if_over(x);
}

// Ends the outer request; the caller has answered it.
static void over(struct exchange *x)
{
    x->call.req = NULL;
    end_if_over(x);
}

// --- answering ---

static void send_sealed(struct exchange *x, int status, const char *type, const char *body,
                        size_t len)
{
    cleanup_free char *text = NULL;
    cleanup_json json_t *header = json_object();
    json_put_str(header, "jti", x->jti);
    json_put_i64(header, "status", status);
    json_put_i64(header, "iat", clock_real_ms() / 1000);
    if (type)
        json_put_str(header, "cty", type);
    http_request_on_gone(x->call.req, NULL, NULL);
    if (jwe_seal_dir(x->answer_key, header, body, len, &text, NULL) < 0) {
        api_problem(&x->call, 503, "the answer could not be sealed");
    } else {
        http_respond_header(x->call.req, "Cache-Control", "no-store");
        http_respond(x->call.req, 200, "application/jose", text, strlen(text));
    }
    over(x);
}

static void send_problem(struct exchange *x, int status, const char *title, const char *detail)
{
    cleanup_json json_t *p = json_object();
    json_put_str(p, "type", "about:blank");
    json_put_str(p, "title", title);
    json_put_i64(p, "status", status);
    json_put_str(p, "detail", detail);
    cleanup_free char *text = json_text(p);
    send_sealed(x, status, "application/problem+json", text ? text : "{}", text ? strlen(text) : 2);
}

static void refuse(struct exchange *x, int status, const char *why)
{
    audit_refused(&x->call, "sealed", why);
    send_problem(x, status, "Sealed request refused", why);
}

// One text for a wrong key, a flipped byte, an unknown signer, a removed user, a forbidden
// algorithm: what differs is told to nobody.
static void refuse_unopened(struct exchange *x, const char *why)
{
    sealed_limit_failed(x->call.api->sealed->limit, http_request_peer(x->call.req)->address);
    audit_refused(&x->call, "sealed", why);
    http_request_on_gone(x->call.req, NULL, NULL);
    api_problem(&x->call, 400,
                "this sealed request can't be opened: it must be a compact JWE (RSA-OAEP-256; "
                "A256GCM or A256CBC-HS512) to the master's key, kid its thumbprint (GET "
                "/v1/keys/master), around a compact JWS by a registered key, kid its thumbprint");
    over(x);
}

static void send_if_complete(struct exchange *x)
{
    if (x->committing || x->inner || !x->call.req || x->status == 0)
        return;
    if (x->unknown)
        send_problem(x, 503, "Service Unavailable",
                     "outcome unknown: the store did not confirm the change in time; it may still "
                     "take effect. Look at the object before trying again, or repeat with the same "
                     "Idempotency-Key");
    else
        send_sealed(x, x->status, x->content_type, x->body, x->len);
}

static void on_durable(int result, void *userdata)
{
    struct exchange *x = userdata;
    x->committing = false;
    x->unknown = result < 0;
    if (x->call.req)
        send_if_complete(x);
    else
        end_if_over(x);
}

static void on_answered(const struct http_inner_answer *a, void *userdata)
{
    struct exchange *x = userdata;
    x->inner = NULL;
    x->body = malloc(a->len + 1);
    x->content_type = a->content_type ? strdup(a->content_type) : NULL;
    if (x->body) {
        memcpy(x->body, a->body, a->len);
        x->len = a->len;
    }
    x->status = x->body ? a->status : 503;
    send_if_complete(x);
}

// --- the inner request ---

static void run(struct exchange *x, const struct sealed_claims *c)
{
    struct call *call = &x->call;
    struct http_peer peer = {0}; // where it comes from; a certificate says nothing here
    (void)snprintf(peer.address, sizeof(peer.address), "%s", http_request_peer(call->req)->address);
    const struct http_inner_options o = {.loop = call->api->settings.loop,
                                         .peer = &peer,
                                         .method = c->method,
                                         .target = c->path,
                                         .headers = c->headers,
                                         .n_headers = c->n_headers,
                                         .body = c->body,
                                         .len = c->body_len,
                                         .answer_limit = ANSWER_MAX,
                                         .answered = on_answered,
                                         .userdata = x};
    int r = http_inner_new(&o, &x->inner);
    if (r < 0) {
        x->inner = NULL;
        send_problem(x, r == -EINVAL ? 400 : 503, "Bad Request",
                     r == -EINVAL ? "path: the query is malformed" : "out of memory");
        return;
    }
    router_inner(call->api, x->inner, &call->who);
}

static int remember(struct exchange *x, const char *key_id, const struct sealed_claims *c)
{
    struct api *a = x->call.api;
    const char *reason;
    if (!store_ok(a->store, &reason))
        return -EAGAIN;
    int r =
        sealed_seen_accept(a->sealed->seen, key_id, c->jti, c->iat, c->exp, clock_real_ms() / 1000);
    if (r == 0) {
        x->committing = true;
        r = commit_then(cluster_commit(a->cluster), COMMIT_WAIT_MS, on_durable, x);
        x->committing = r == 0;
    }
    return r;
}

static void refuse_remembered(struct exchange *x, int code)
{
    char why[256], now[CLOCK_TEXT_BYTES];
    clock_format_ms(clock_real_ms(), now);
    if (code == -EEXIST) {
        refuse(x, 409, "this sealed request was used before: seal it anew, with another jti");
    } else if (code == -ESTALE) {
        (void)snprintf(why, sizeof(why),
                       "the request is older than this master can tell apart (it was started, or "
                       "its clock set, since): seal it anew; the master's time is %s",
                       now);
        refuse(x, 401, why);
    } else {
        send_problem(x, 503, "Service Unavailable",
                     code == -ENOSPC ? "too many sealed requests at once: try again in a minute"
                                     : "the store is not available: nothing was changed; try again "
                                       "when /readyz says ready");
    }
}

static void check_and_run(struct exchange *x, const struct sealed_opened *o)
{
    struct err e = {""};
    struct sealed_claims c;
    const struct sealed_expected expected = {cluster_id(x->call.api->cluster), x->call.who.user,
                                             o->sealed_to, clock_real_ms() / 1000};
    int status = sealed_claims_check(o->claims, &expected, &c, &e);
    if (status == 503) {
        send_problem(x, status, "Service Unavailable", e.text);
        return;
    }
    if (status != 0) {
        refuse(x, status, e.text);
        return;
    }
    int r = remember(x, o->key_id, &c);
    if (r < 0)
        refuse_remembered(x, r);
    else
        run(x, &c);
    sealed_claims_reset(&c);
}

static void on_opened(struct sealed_opened *o, void *userdata)
{
    struct exchange *x = userdata;
    x->opening = false;
    if (!x->call.req) {
        end_if_over(x);
        return;
    }
    struct api *a = x->call.api;
    if (!o->claims) {
        refuse_unopened(x, "it can't be opened, or no registered key has signed it");
    } else if (!user_keys_principal(a->user_keys, o->key_id, &x->call.who)) {
        refuse_unopened(x, "the key or its user is removed or disabled");
    } else if (!(x->answer_key = sealed_response_key(o->claims))) {
        refuse_unopened(x, "response_key: expected an oct JWK of 32 or 64 bytes");
    } else {
        if (sealed_jti(o->claims, x->jti, NULL) < 0)
            x->jti[0] = '\0';
        check_and_run(x, o);
    }
}

// --- the outer request ---

// False while closing, or when there can be no thread.
static bool worker_ready(struct api *a)
{
    if (!a->sealed->worker && !a->closing)
        a->sealed->worker = sealed_worker_new(a->settings.loop, a->master_keys, a->user_keys);
    return a->sealed->worker != NULL;
}

static bool may_come(struct call *call)
{
    const struct http_peer *peer = http_request_peer(call->req);
    if (peer->local) {
        audit_refused(call, "sealed", "over the admin socket");
        api_problem(call, 403,
                    "sealed requests are for the network: this socket already knows who you are, "
                    "so ask it plainly");
        return false;
    }
    if (!sealed_limit_take(call->api->sealed->limit, peer->address, clock_mono_ms())) {
        http_respond_header(call->req, "Retry-After", "1");
        api_problem(call, 429, "too many sealed requests from %s: slow down", peer->address);
        return false;
    }
    if (!worker_ready(call->api))
        api_problem(call, 503, "sealed requests can't be opened now: try again in a moment");
    return call->api->sealed->worker != NULL;
}

void sealed_post(struct call *call)
{
    size_t len;
    const char *text = http_request_body(call->req, &len);
    if (!may_come(call))
        return;
    struct exchange *x = calloc(1, sizeof(*x));
    if (!x) {
        api_problem(call, 503, "out of memory");
        return;
    }
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        len--; // of a file that was sent as it is
    x->call = *call;
    int r = sealed_worker_open(call->api->sealed->worker, text, len, on_opened, x);
    if (r < 0) {
        free(x);
        api_problem(call, 503, "too many sealed requests are waiting to be opened: try again");
        return;
    }
    x->opening = true;
    http_request_on_gone(call->req, on_gone, x);
}

// --- life ---

int sealed_open(struct api *a, const char *data_dir, int64_t rate, struct err *e)
{
    struct sealed *s = calloc(1, sizeof(*s));
    a->sealed = s;
    a->user_keys = user_keys_new(a->cluster);
    if (s) {
        s->seen = sealed_seen_new(a->cluster, clock_real_ms());
        s->limit = sealed_limit_new(rate);
    }
    if (!s || !s->seen || !s->limit || !a->user_keys)
        return err_set(e, -ENOMEM, "out of memory");
    return master_keys_open(data_dir, &a->master_keys, e);
}

int sealed_load(struct api *a, const char *key, const char *json, size_t len, struct err *e)
{
    int r = user_keys_load(a->user_keys, key, json, len, e);
    return r == -ENOENT ? sealed_seen_load(a->sealed->seen, key, json, len, e) : r;
}

void sealed_release(struct api *a)
{
    if (a->sealed)
        sealed_worker_close(TAKE_PTR(a->sealed->worker));
}

void sealed_free(struct api *a)
{
    if (a->sealed) {
        sealed_seen_free(a->sealed->seen);
        sealed_limit_free(a->sealed->limit);
    }
    free(TAKE_PTR(a->sealed));
    user_keys_free(TAKE_PTR(a->user_keys));
    master_keys_free(TAKE_PTR(a->master_keys));
}

void sealed_get_stats(const struct api *a, struct sealed_stats *ret)
{
    *ret = (struct sealed_stats){0};
    if (a->sealed && a->sealed->worker)
        sealed_worker_stats(a->sealed->worker, ret);
}
