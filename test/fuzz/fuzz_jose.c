// SPDX-License-Identifier: Apache-2.0
// Any bytes as an envelope: compact JWE and JWS, JWKs, and the claims inside. The first byte says
// which. Most RSA is left out (it would be all the time there is): what is inside a good envelope
// is tried directly.
#include "common/cleanup.h"
#include "common/jose/b64.h"
#include "common/jose/jwe.h"
#include "common/jose/jws.h"
#include "common/json.h"
#include "master/api/sealed_claims.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct jwk *oct32, *oct64, *ed;

static void require(int good)
{
    if (!good)
        __builtin_trap();
}

static void free_keys(void)
{
    jwk_free(oct32);
    jwk_free(oct64);
    jwk_free(ed);
}

static void make_keys(void)
{
    static const unsigned char bytes[64] = "fixed bytes, so that a corpus can hold good envelopes";
    struct err e;
    require(jwk_from_bytes(bytes, 32, &oct32, &e) == 0);
    require(jwk_from_bytes(bytes, 64, &oct64, &e) == 0);
    require(jwk_generate(JWK_OKP, 0, &ed, &e) == 0);
    (void)atexit(free_keys);
}

static void try_jwe(const char *text, size_t len)
{
    struct jwe x;
    unsigned char *out = NULL;
    size_t out_len = 0;
    if (jwe_parse(text, len, JWE_RSA_OAEP_256, &x) == 0)
        jwe_reset(&x);
    if (jwe_parse(text, len, JWE_DIR, &x) < 0)
        return;
    if (jwe_open(&x, oct32, &out, &out_len) == 0 || jwe_open(&x, oct64, &out, &out_len) == 0)
        require(out[out_len] == '\0');
    free(out);
    jwe_reset(&x);
}

static void try_jws(const char *text, size_t len)
{
    struct jws s;
    if (jws_parse(text, len, &s) < 0)
        return;
    require(jws_verify(&s, ed) == -EACCES); // nobody can sign with a key made just now
    require(jws_verify(&s, oct32) == -EACCES);
    jws_reset(&s);
}

static void try_jwk(const char *text, size_t len)
{
    struct jwk *k = NULL;
    struct err e = {""};
    char thumbprint[JWK_THUMBPRINT_BYTES];
    if (jwk_parse_text(text, len, &k, &e) < 0) {
        require(e.text[0] != '\0');
        return;
    }
    cleanup_json json_t *shown = jwk_public_json(k);
    require(shown && !json_object_get(shown, "d") && !json_object_get(shown, "k"));
    if (jwk_thumbprint(k, thumbprint) == 0)
        require(strlen(thumbprint) == JWK_THUMBPRINT_BYTES - 1);
    jwk_free(k);
}

static void try_claims(const char *text, size_t len)
{
    struct err e = {""};
    struct sealed_claims c;
    char jti[SEALED_JTI_BYTES];
    cleanup_json json_t *j = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    const struct sealed_expected x = {"caaaaaaaaaaaa", "someone", "to", 1700000000};
    if (!j)
        return;
    jwk_free(sealed_response_key(j));
    (void)!sealed_jti(j, jti, &e);
    memset(&c, 0, sizeof(c));
    int r = sealed_claims_check(j, &x, &c, &e);
    require(r == 0 || (r >= 400 && r < 600));
    if (r == 0) {
        require(c.exp - c.iat <= SEALED_LIFE_MAX_S);
        sealed_claims_reset(&c);
    }
}

// What was decoded encodes to the same text: there is one writing of each value.
static void try_b64(const char *text, size_t len)
{
    unsigned char *out = NULL;
    size_t n = 0;
    if (b64_decode_alloc(text, len, &out, &n) < 0)
        return;
    cleanup_strbuf struct strbuf b = {0};
    b64_append(&b, out, n);
    require(b.len == len && (len == 0 || memcmp(b.data, text, len) == 0));
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!oct32)
        make_keys();
    if (size < 1)
        return 0;
    const char *text = (const char *)data + 1;
    size_t len = size - 1;
    switch (data[0] % 5) {
    case 0:
        try_jwe(text, len);
        break;
    case 1:
        try_jws(text, len);
        break;
    case 2:
        try_jwk(text, len);
        break;
    case 3:
        try_claims(text, len);
        break;
    default:
        try_b64(text, len);
    }
    return 0;
}
