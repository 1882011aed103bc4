// SPDX-License-Identifier: Apache-2.0
// Signatures on EVP_DigestSign and EVP_DigestVerify. ES256's are r || s of 32 bytes each (RFC 7518
// section 3.4), which OpenSSL has in DER.
#include "common/jose/jws.h"

#include "common/cleanup.h"
#include "common/jose/b64.h"
#include "common/jose/jwk_internal.h"
#include "common/json.h"

#include <openssl/crypto.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/rsa.h>
#include <stdlib.h>
#include <string.h>

#define SIGNATURE_MAX 512 // RSA-4096

static const struct {
    const char *name;
    enum jwk_kind kind;
} algs[JWS_ALG_MAX] = {[JWS_PS256] = {"PS256", JWK_RSA},
                       [JWS_RS256] = {"RS256", JWK_RSA},
                       [JWS_ES256] = {"ES256", JWK_EC},
                       [JWS_EDDSA] = {"EdDSA", JWK_OKP}};

enum jws_alg jws_default_alg(const struct jwk *key)
{
    enum jwk_kind kind = jwk_kind_of(key);
    return kind == JWK_EC ? JWS_ES256 : kind == JWK_OKP ? JWS_EDDSA : JWS_PS256;
}

const char *jws_alg_to_string(enum jws_alg alg)
{
    return algs[alg].name;
}

int jws_alg_from_string(const char *text, enum jws_alg *ret)
{
    for (int i = 0; i < JWS_ALG_MAX; i++)
        if (strcmp(algs[i].name, text) == 0) {
            *ret = (enum jws_alg)i;
            return 0;
        }
    return -EPROTO;
}

void jws_reset(struct jws *s)
{
    if (s->payload)
        OPENSSL_cleanse(s->payload, s->payload_len);
    free(s->payload);
    *s = (struct jws){0};
}

static int read_header(const struct span *part, struct jws *ret)
{
    static const char *const known[] = {"alg", "kid", "typ", "cty", NULL};
    cleanup_json json_t *j = NULL;
    const char *alg;
    int r = compact_header(part, known, &j);
    if (r == 0)
        r = json_get_str(j, "alg", &alg, NULL);
    if (r == 0)
        r = jws_alg_from_string(alg, &ret->alg);
    const char *kid = r == 0 ? json_opt_str(j, "kid", "") : "";
    if (r < 0 || strlen(kid) >= sizeof(ret->kid))
        return -EPROTO;
    (void)snprintf(ret->kid, sizeof(ret->kid), "%s", kid);
    return 0;
}

int jws_parse(const char *text, size_t len, struct jws *ret)
{
    struct span parts[3];
    struct jws s = {0};
    int r = compact_split(text, len, parts, 3);
    if (r == 0)
        r = read_header(&parts[0], &s);
    if (r == 0)
        r = b64_decode_alloc(parts[1].text, parts[1].len, &s.payload, &s.payload_len);
    if (r < 0)
        return r;
    s.signing_input = (struct span){text, parts[0].len + 1 + parts[1].len};
    s.signature = parts[2];
    *ret = s;
    return 0;
}

// The digest to name (NULL for EdDSA), and PSS where it is wanted (salt as long as the digest).
static bool set_up(EVP_PKEY_CTX *ctx, enum jws_alg alg)
{
    return alg != JWS_PS256 || (EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PSS_PADDING) == 1 &&
                                EVP_PKEY_CTX_set_rsa_pss_saltlen(ctx, RSA_PSS_SALTLEN_DIGEST) == 1);
}

static const EVP_MD *digest_of(enum jws_alg alg)
{
    return alg == JWS_EDDSA ? NULL : EVP_sha256();
}

static bool raw_to_der(const unsigned char raw[64], unsigned char **ret, size_t *ret_len)
{
    ECDSA_SIG *sig = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(raw, 32, NULL), *s = BN_bin2bn(raw + 32, 32, NULL);
    bool ok = sig && r && s && ECDSA_SIG_set0(sig, r, s) == 1;
    if (!ok) {
        BN_free(r);
        BN_free(s);
    }
    int len = ok ? i2d_ECDSA_SIG(sig, ret) : 0;
    ECDSA_SIG_free(sig);
    *ret_len = len > 0 ? (size_t)len : 0;
    return len > 0;
}

static bool der_to_raw(const unsigned char *der, size_t len, unsigned char raw[64])
{
    ECDSA_SIG *sig = d2i_ECDSA_SIG(NULL, &der, (long)len);
    bool ok = sig && BN_bn2binpad(ECDSA_SIG_get0_r(sig), raw, 32) == 32 &&
              BN_bn2binpad(ECDSA_SIG_get0_s(sig), raw + 32, 32) == 32;
    ECDSA_SIG_free(sig);
    return ok;
}

static bool verify(const struct jws *s, EVP_PKEY *key, const unsigned char *sig, size_t len)
{
    EVP_PKEY_CTX *pctx = NULL;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool ok = ctx && EVP_DigestVerifyInit(ctx, &pctx, digest_of(s->alg), NULL, key) == 1 &&
              set_up(pctx, s->alg) &&
              EVP_DigestVerify(ctx, sig, len, (const unsigned char *)s->signing_input.text,
                               s->signing_input.len) == 1;
    EVP_MD_CTX_free(ctx);
    return ok;
}

int jws_verify(const struct jws *s, const struct jwk *key)
{
    unsigned char raw[SIGNATURE_MAX], *der = NULL;
    size_t len, der_len;
    bool ok = false;
    if (jwk_kind_of(key) != algs[s->alg].kind ||
        b64_decode(s->signature.text, s->signature.len, raw, sizeof(raw), &len) < 0)
        return -EACCES;
    if (s->alg != JWS_ES256)
        ok = verify(s, key->key, raw, len);
    else if (len == 64 && raw_to_der(raw, &der, &der_len))
        ok = verify(s, key->key, der, der_len);
    OPENSSL_free(der);
    ERR_clear_error();
    return ok ? 0 : -EACCES;
}

static bool sign(EVP_PKEY *key, enum jws_alg alg, const struct strbuf *in, unsigned char *sig,
                 size_t *len)
{
    unsigned char raw[64];
    EVP_PKEY_CTX *pctx = NULL;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool ok = ctx && EVP_DigestSignInit(ctx, &pctx, digest_of(alg), NULL, key) == 1 &&
              set_up(pctx, alg) &&
              EVP_DigestSign(ctx, sig, len, (const unsigned char *)in->data, in->len) == 1;
    EVP_MD_CTX_free(ctx);
    if (!ok || alg != JWS_ES256)
        return ok;
    ok = der_to_raw(sig, *len, raw);
    memcpy(sig, raw, sizeof(raw));
    *len = sizeof(raw);
    return ok;
}

int jws_sign(const struct jwk *key, enum jws_alg alg, const char *kid, const void *payload,
             size_t len, char **ret, struct err *e)
{
    unsigned char sig[SIGNATURE_MAX];
    size_t sig_len = sizeof(sig);
    cleanup_strbuf struct strbuf b = {0};
    cleanup_json json_t *header = json_object();
    if (jwk_kind_of(key) != algs[alg].kind || !jwk_is_private(key))
        return err_set(e, -EINVAL, "this key can't sign with %s", algs[alg].name);
    json_put_str(header, "alg", algs[alg].name);
    if (kid)
        json_put_str(header, "kid", kid);
    cleanup_free char *text = json_text(header);
    if (!text)
        return err_set(e, -ENOMEM, "out of memory");
    b64_append(&b, text, strlen(text));
    strbuf_puts(&b, ".");
    b64_append(&b, payload, len);
    bool ok = !b.failed && sign(key->key, alg, &b, sig, &sig_len);
    ERR_clear_error();
    if (!ok)
        return err_set(e, -EIO, "signing failed");
    strbuf_puts(&b, ".");
    b64_append(&b, sig, sig_len);
    if (b.failed)
        return err_set(e, -ENOMEM, "out of memory");
    *ret = strbuf_take(&b);
    return 0;
}
