// SPDX-License-Identifier: Apache-2.0
// Keys: read, written, named as RFC 7638 says, and refused.
#include "common/jose/jwk.h"

#include "common/jose/b64.h"
#include "common/jose/jwk_internal.h"
#include "common/json.h"
#include "test/unit/common/jose_util.h"

#include <openssl/ec.h>
#include <openssl/rsa.h>

// RFC 7638 section 3.1
static const char THUMB_KEY[] =
    "{\"kty\":\"RSA\",\"n\":\"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtV"
    "T86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yB"
    "XArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdA"
    "ZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksIN"
    "HaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw\",\"e\":\"AQAB\",\"alg\":\"RS256\",\"ki"
    "d\":\"2011-04-29\"}";

static void check_thumbprint(const char *text, const char *wanted)
{
    char name[JWK_THUMBPRINT_BYTES];
    struct jwk *key = key_of(text);
    ck_assert_int_eq(jwk_thumbprint(key, name), 0);
    ck_assert_str_eq(name, wanted);
    jwk_free(key);
}

START_TEST(names)
    {
        check_thumbprint(THUMB_KEY, "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs");
        check_thumbprint(KEY_OKP, "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"); // RFC 8037 A.3
    }
END_TEST

static void round_trip(const char *text, enum jwk_kind kind)
{
    struct err e = {""};
    char before[JWK_THUMBPRINT_BYTES], after[JWK_THUMBPRINT_BYTES];
    cleanup_free char *pem = NULL, *public_pem = NULL;
    struct jwk *key = key_of(text), *again = NULL, *public_key = NULL;
    ck_assert_int_eq(jwk_kind_of(key), kind);
    ck_assert(jwk_is_private(key));
    ck_assert_int_eq(jwk_thumbprint(key, before), 0);
    ck_assert_int_eq(jwk_private_pem(key, &pem, &e), 0);
    ck_assert_int_eq(jwk_from_pem(pem, &again, &e), 0);
    ck_assert_int_eq(jwk_thumbprint(again, after), 0);
    ck_assert_str_eq(before, after);
    ck_assert_int_eq(jwk_public_pem(key, &public_pem, &e), 0);
    ck_assert_int_eq(jwk_from_pem(public_pem, &public_key, &e), 0);
    ck_assert(!jwk_is_private(public_key));
    ck_assert_int_eq(jwk_thumbprint(public_key, after), 0);
    ck_assert_str_eq(before, after);
    cleanup_json json_t *shown = jwk_public_json(key);
    ck_assert_ptr_null(json_object_get(shown, "d"));
    ck_assert_ptr_null(json_object_get(shown, "p"));
    jwk_free(jwk_ref(key));
    jwk_free(key);
    jwk_free(again);
    jwk_free(public_key);
}

START_TEST(read_and_written)
    {
        round_trip(KEY_RSA, JWK_RSA);
        round_trip(KEY_EC, JWK_EC);
        round_trip(KEY_OKP, JWK_OKP);
    }
END_TEST

START_TEST(made)
    {
        struct err e = {""};
        struct jwk *key = NULL;
        cleanup_free char *pem = NULL;
        static const enum jwk_kind kinds[] = {JWK_RSA, JWK_EC, JWK_OKP};
        for (size_t i = 0; i < 3; i++) {
            ck_assert_int_eq(jwk_generate(kinds[i], 2048, &key, &e), 0);
            ck_assert_int_eq(jwk_kind_of(key), kinds[i]);
            jwk_free(key);
        }
        ck_assert_int_eq(jwk_from_bytes("0123456789abcdef0123456789abcdef", 32, &key, &e), 0);
        ck_assert_uint_eq(jwk_bits(key), 256);
        cleanup_json json_t *shown = jwk_public_json(key);
        ck_assert_uint_eq(json_object_size(shown), 1); // of a secret nothing is shown
        jwk_free(key);
        ck_assert_int_eq(jwk_from_bytes("", 0, &key, &e), -EPROTO);
        char long_key[JWK_OCT_MAX + 1] = {0};
        ck_assert_int_eq(jwk_from_bytes(long_key, sizeof(long_key), &key, &e), -EPROTO);
    }
END_TEST

START_TEST(refused)
    {
        static const char *const wrong[] = {
            "", "[]", "{}", "{\"kty\":1}", "{\"kty\":\"none\"}", "{\"kty\":\"RSA\"}",
            "{\"kty\":\"oct\"}", "{\"kty\":\"oct\",\"k\":\"\"}", "{\"kty\":\"oct\",\"k\":\"a=\"}",
            "{\"kty\":\"oct\",\"k\":\"AA\",\"k\":\"AA\"}",
            "{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}", // too small
            "{\"kty\":\"EC\",\"crv\":\"P-384\",\"x\":\"AA\",\"y\":\"AA\"}",
            // not on the curve: the last character of y differs from RFC 7515's
            "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":"
            "\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
            "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a4\"}",
            "{\"kty\":\"OKP\",\"crv\":\"X25519\",\"x\":\"11qYAYKxCrfVS_"
            "7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}",
            "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AAAA\"}",
            // another key's private part
            "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"d\":\"nWGxne_"
            "9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A\","
            "\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\"}"};
        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
            struct err e = {""};
            struct jwk *key = NULL;
            ck_assert_msg(jwk_parse_text(wrong[i], strlen(wrong[i]), &key, &e) == -EPROTO, "%s",
                          wrong[i]);
            ck_assert_ptr_null(key);
            ck_assert_str_ne(e.text, "");
        }
    }
END_TEST

START_TEST(pem_that_is_none)
    {
        struct err e = {""};
        struct jwk *key = NULL;
        ck_assert_int_eq(jwk_from_pem("", &key, &e), -EPROTO);
        ck_assert_int_eq(
            jwk_from_pem("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", &key,
                         &e),
            -EPROTO);
        // P-384 is none of ours
        EVP_PKEY *other = EVP_EC_gen("P-384");
        ck_assert_int_eq(jwk_adopt(other, true, &key, &e), -EPROTO);
        EVP_PKEY *small = EVP_RSA_gen(1024);
        ck_assert_int_eq(jwk_adopt(small, true, &key, &e), -EPROTO);
    }
END_TEST

RUN_SUITE("jwk", 60, names, read_and_written, made, refused, pem_that_is_none)
