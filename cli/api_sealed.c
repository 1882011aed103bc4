// SPDX-License-Identifier: Apache-2.0
// Sealing and unsealing with the key of the context.
#include "cli/api_sealed.h"

#include "cli/cli.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/id.h"
#include "common/jose/b64.h"
#include "common/jose/jwe.h"
#include "common/jose/jws.h"
#include "common/json.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <string.h>

#define LIFE_S 120
#define SKEW_S 5 // a larger difference of the clocks is worth another try

struct api_sealed {
    struct sealed_key key;
    int64_t ahead_s; // of the master's clock
    bool adjusted;
    char jti[27];
    struct jwk *answer_key;
};

int api_sealed_open(struct sealed_key *k, struct api_sealed **ret, struct err *e)
{
    if (!k->master)
        return err_set(e, -EINVAL, "the key %s is not registered: `meadow key register %s`",
                       k->name, k->name);
    struct api_sealed *s = cli_need(calloc(1, sizeof(*s)));
    s->key = *k;
    *k = (struct sealed_key){0};
    *ret = s;
    return 0;
}

void api_sealed_close(struct api_sealed *s)
{
    if (!s)
        return;
    jwk_free(s->answer_key);
    sealed_key_reset(&s->key);
    free(s);
}

// A fresh secret for the answer, and a name for the request.
static int renew(struct api_sealed *s, json_t *claims, struct err *e)
{
    unsigned char secret[32];
    struct strbuf b = {0};
    jwk_free(TAKE_PTR(s->answer_key));
    if (RAND_bytes(secret, sizeof(secret)) != 1 || id_random(s->jti, sizeof(s->jti) - 1) < 0)
        return err_set(e, -EIO, "no random numbers");
    int r = jwk_from_bytes(secret, sizeof(secret), &s->answer_key, e);
    b64_append(&b, secret, sizeof(secret));
    OPENSSL_cleanse(secret, sizeof(secret));
    json_t *jwk = json_object();
    json_put_str(jwk, "kty", "oct");
    json_put_str(jwk, "k", b.data);
    json_put(claims, "response_key", jwk);
    json_put_str(claims, "jti", s->jti);
    if (b.data)
        OPENSSL_cleanse(b.data, b.len);
    strbuf_reset(&b);
    return r;
}

static void put_headers(json_t *claims, const struct api_request *req, const char *idempotency_key)
{
    json_t *h = json_object();
    json_put_str(h, "Accept", req->accept ? req->accept : "application/json");
    if (req->content_type)
        json_put_str(h, "Content-Type", req->content_type);
    if (idempotency_key)
        json_put_str(h, "Idempotency-Key", idempotency_key);
    json_put(claims, "headers", h);
}

static int build(struct api_sealed *s, const struct api_request *req, const char *idempotency_key,
                 json_t *claims, struct err *e)
{
    int64_t now = clock_real_ms() / 1000 + s->ahead_s;
    json_put_str(claims, "method", req->method);
    json_put_str(claims, "path", req->path);
    put_headers(claims, req, idempotency_key);
    if (req->body_len) {
        json_t *body = json_stringn(req->body, req->body_len);
        if (!body)
            return err_set(e, -EINVAL, "the body is not UTF-8 text: it can't be sealed");
        json_put(claims, "body", body);
    }
    json_put_i64(claims, "iat", now);
    json_put_i64(claims, "exp", now + LIFE_S);
    json_put_str(claims, "aud", s->key.cluster);
    json_put_str(claims, "sub", s->key.user);
    json_put_str(claims, "to", s->key.master_id);
    return renew(s, claims, e);
}

int api_seal(struct api_sealed *s, const struct api_request *req, const char *idempotency_key,
             char **ret, struct err *e)
{
    cleanup_free char *inner = NULL;
    cleanup_json json_t *claims = cli_need(json_object());
    if (req->upload || req->headers[0])
        return err_set(e, -ENOTSUP, "streams and uploads can't be sealed: leave out --sealed");
    int r = build(s, req, idempotency_key, claims, e);
    cleanup_free char *text = r == 0 ? json_text(claims) : NULL;
    if (!text)
        return r < 0 ? r : err_set(e, -ENOMEM, "out of memory");
    r = jws_sign(s->key.key, jws_default_alg(s->key.key), s->key.id, text, strlen(text), &inner, e);
    if (r == 0 && inner)
        r = jwe_seal(s->key.master, JWE_A256GCM, s->key.master_id, inner, strlen(inner), ret, e);
    if (text)
        OPENSSL_cleanse(text, strlen(text));
    return r;
}

static int open_answer(struct api_sealed *s, const struct jwe *x, struct api_answer *answer,
                       struct err *e)
{
    unsigned char *body = NULL;
    size_t len;
    if (strcmp(json_opt_str(x->header, "jti", ""), s->jti) != 0 ||
        jwe_open(x, s->answer_key, &body, &len) < 0)
        return err_set(e, -EACCES, "the answer is not the master's to this request");
    int status = (int)json_opt_i64(x->header, "status", 0);
    char *type = cli_strdup(json_opt_str(x->header, "cty", ""));
    api_answer_free(answer);
    *answer = (struct api_answer){status, type, (char *)body, len};
    return 0;
}

int api_unseal(struct api_sealed *s, struct api_answer *answer, bool *ret_again, struct err *e)
{
    struct jwe x;
    *ret_again = false;
    if (answer->status != 200)
        return 0; // an early refusal, in plain
    if (jwe_parse(answer->body, answer->len, JWE_DIR, &x) < 0)
        return err_set(e, -EACCES, "the answer is not sealed: is this a meadow master?");
    int64_t theirs = json_opt_i64(x.header, "iat", 0);
    int r = open_answer(s, &x, answer, e);
    jwe_reset(&x);
    int64_t ahead = theirs - clock_real_ms() / 1000;
    if (r == 0 && answer->status == 401 && !s->adjusted && llabs(ahead - s->ahead_s) > SKEW_S) {
        s->ahead_s = ahead;
        s->adjusted = *ret_again = true;
    }
    return r;
}
