// SPDX-License-Identifier: Apache-2.0
// Any bytes as an envelope, a signature, a key, the claims and the query inside: no crash, no leak;
// nothing that nobody made opens or verifies, and what is accepted as claims keeps their promises.
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

static struct jwk *rsa, *ec, *answer_key;

static void check(bool ok)
{
    if (!ok)
        __builtin_trap();
}

static void set_up(void)
{
    if (rsa)
        return;
    check(jwk_generate(JWK_RSA, 2048, &rsa, NULL) == 0);
    check(jwk_generate(JWK_EC, 0, &ec, NULL) == 0);
    check(jwk_from_bytes("0123456789abcdef0123456789abcdef", 32, &answer_key, NULL) == 0);
}

static void try_jwe(const char *text, size_t size, enum jwe_alg alg, const struct jwk *key)
{
    struct jwe x;
    unsigned char *plain = NULL;
    size_t len;
    if (jwe_parse(text, size, alg, &x) < 0)
        return;
    check(jwe_open(&x, key, &plain, &len) < 0);
    jwe_reset(&x);
}

static void try_jws(const char *text, size_t size)
{
    struct jws s;
    if (jws_parse(text, size, &s) < 0)
        return;
    check(jws_verify(&s, s.alg == JWS_ES256 ? ec : rsa) < 0);
    jws_reset(&s);
}

static void try_key(const json_t *j)
{
    struct jwk *key = NULL, *again = NULL;
    char name[JWK_THUMBPRINT_BYTES], other[JWK_THUMBPRINT_BYTES];
    if (jwk_parse(j, &key, NULL) < 0)
        return;
    if (jwk_kind_of(key) != JWK_OCT) {
        cleanup_json json_t *shown = jwk_public_json(key);
        check(jwk_thumbprint(key, name) == 0 && jwk_parse(shown, &again, NULL) == 0);
        check(jwk_thumbprint(again, other) == 0 && strcmp(name, other) == 0);
        jwk_free(again);
    }
    jwk_free(key);
}

static void try_claims(const json_t *j)
{
    struct err e = {""};
    struct sealed_claims c;
    const struct sealed_expected x = {"c", "u", "t", 1000};
    struct jwk *key = sealed_response_key(j);
    int status = sealed_claims_check(j, &x, &c, &e);
    jwk_free(key);
    if (status) {
        check(status >= 400 && e.text[0]);
        return;
    }
    check(c.path[0] == '/' && !strpbrk(c.path, "\r\n \t#") && c.exp > 1000 && c.exp - c.iat <= 240);
    check(c.n_headers <= SEALED_HEADERS_MAX && strlen(c.jti) >= 16);
    sealed_claims_reset(&c);
}

// The same bytes, spelt as the part of something larger, so that more than the first test is seen.
static void try_as_part(const uint8_t *data, size_t size)
{
    cleanup_strbuf struct strbuf b = {0};
    b64_append(&b, data, size);
    if (!b.data)
        return;
    size_t header = b.len;
    strbuf_puts(&b, ".e30.AAAA");
    try_jws(b.data, b.len);
    b.len = header;
    strbuf_puts(&b, "..AAAAAAAAAAAAAAAA.AAAA.AAAAAAAAAAAAAAAAAAAAAA");
    try_jwe(b.data, b.len, JWE_DIR, answer_key);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    cleanup_json json_t *j = NULL;
    set_up();
    try_jwe(text, size, JWE_DIR, answer_key);
    try_jwe(text, size, JWE_RSA_OAEP_256, rsa);
    try_jws(text, size);
    try_as_part(data, size);
    if (json_parse(text, size, &j, NULL) == 0 && json_is_object(j)) {
        try_key(j);
        try_claims(j);
    }
    return 0;
}
