// SPDX-License-Identifier: Apache-2.0
// Signatures: the RFCs' vectors, every algorithm there and back, and every trick refused.
#include "common/jose/jws.h"

#include "common/jose/b64.h"
#include "common/jose/compact.h"
#include "test/unit/common/jose_util.h"

// RFC 7515 appendix A.2
static const char RS256[] =
    "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6L"
    "y9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9"
    "g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcA"
    "cQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0Gar"
    "ZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9"
    "QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
// RFC 7515 appendix A.3
static const char ES256[] =
    "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6L"
    "y9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4Gawxae"
    "pmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
// RFC 8037 appendix A.4
static const char EDDSA[] =
    "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG"
    "1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";

// RFC 7520, section 3.3, and the compact forms of 4.1 (RS256) and 4.2 (PS384, not on our list)
static const char BILBO[] =
    "{\"kty\":\"RSA\",\"kid\":\"bilbo.baggins@hobbiton.example\",\"use\":\"sig\",\"e\":\"AQAB\","
    "\"n\":\""
    "n4EPtAOCc9AlkeQHPzHStgAbgs7bTZLwUBZdR8_KuKPEHLd4rHVTeT-O-XV2jRojdNhxJWTDvNd7nq"
    "Q0VEiZQHz_AJmSCpMaJMRBSFKrKb2wqVwGU_NsYOYL-QtiWN2lbzcEe6XC0dApr5ydQLrHqkHHig3R"
    "BordaZ6Aj-oBHqFEHYpPe7Tpe-OfVfHd1E6cS6M1FZcD1NNLYD5lFHpPI9bTwJlsde3uhGqC0ZCuEH"
    "g8lhzwOHrtIQbS0FVbb9k3-tVTU4fg_3L_vniUFAKwuCLqKnS2BYwdq_mzSnbLY7h_qixoR7jig3__"
    "kRhuaxwUkRz5iaiQkqgc5gHdrNP5zw"
    "\"}";
static const char BILBO_RS256[] =
    "eyJhbGciOiJSUzI1NiIsImtpZCI6ImJpbGJvLmJhZ2dpbnNAaG9iYml0b24uZXhhbXBsZSJ9.SXTig"
    "JlzIGEgZGFuZ2Vyb3VzIGJ1c2luZXNzLCBGcm9kbywgZ29pbmcgb3V0IHlvdXIgZG9vci4gWW91IHN"
    "0ZXAgb250byB0aGUgcm9hZCwgYW5kIGlmIHlvdSBkb24ndCBrZWVwIHlvdXIgZmVldCwgdGhlcmXig"
    "JlzIG5vIGtub3dpbmcgd2hlcmUgeW91IG1pZ2h0IGJlIHN3ZXB0IG9mZiB0by4.MRjdkly7_-oTPTS"
    "3AXP41iQIGKa80A0ZmTuV5MEaHoxnW2e5CZ5NlKtainoFmKZopdHM1O2U4mwzJdQx996ivp83xuglI"
    "I7PNDi84wnB-BDkoBwA78185hX-Es4JIwmDLJK3lfWRa-XtL0RnltuYv746iYTh_qHRD68BNt1uSNC"
    "rUCTJDt5aAE6x8wW1Kt9eRo4QPocSadnHXFxnt8Is9UzpERV0ePPQdLuW3IS_de3xyIrDaLGdjluPx"
    "UAhb6L2aXic1U12podGU0KLUQSE_oI-ZnmKJ3F4uOZDnd6QZWJushZ41Axf_fcIe8u9ipH84ogoree"
    "7vjbU5y18kDquDg";
static const char BILBO_PS384[] =
    "eyJhbGciOiJQUzM4NCIsImtpZCI6ImJpbGJvLmJhZ2dpbnNAaG9iYml0b24uZXhhbXBsZSJ9.SXTig"
    "JlzIGEgZGFuZ2Vyb3VzIGJ1c2luZXNzLCBGcm9kbywgZ29pbmcgb3V0IHlvdXIgZG9vci4gWW91IHN"
    "0ZXAgb250byB0aGUgcm9hZCwgYW5kIGlmIHlvdSBkb24ndCBrZWVwIHlvdXIgZmVldCwgdGhlcmXig"
    "JlzIG5vIGtub3dpbmcgd2hlcmUgeW91IG1pZ2h0IGJlIHN3ZXB0IG9mZiB0by4.cu22eBqkYDKgIlT"
    "pzDXGvaFfz6WGoz7fUDcfT0kkOy42miAh2qyBzk1xEsnk2IpN6-tPid6VrklHkqsGqDqHCdP6O8TTB"
    "5dDDItllVo6_1OLPpcbUrhiUSMxbbXUvdvWXzg-UD8biiReQFlfz28zGWVsdiNAUf8ZnyPEgVFn442"
    "ZdNqiVJRmBqrYRXe8P_ijQ7p8Vdz0TTrxUeT3lm8d9shnr2lfJT8ImUjvAA2Xez2Mlp8cBE5awDzT0"
    "qI0n6uiP1aCN_2_jLAeQTlqRHtfa64QQSUmFAAjVKPbByi7xho0uTOcbH510a6GYmJUAfmWjwZ6oD4"
    "ifKo8DYM-X72Eaw";

static int verify(const char *text, const struct jwk *key, char *payload, size_t size)
{
    struct jws s;
    int r = jws_parse(text, strlen(text), &s);
    if (r < 0)
        return r;
    r = jws_verify(&s, key);
    if (payload)
        (void)snprintf(payload, size, "%s", s.payload);
    jws_reset(&s);
    return r;
}

START_TEST(vectors)
    {
        static const char *const texts[][2] = {{KEY_RSA, RS256}, {KEY_EC, ES256}, {KEY_OKP, EDDSA}};
        static const char joe[] = "{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n "
                                  "\"http://example.com/is_root\":true}";
        for (size_t i = 0; i < 3; i++) {
            char payload[256];
            struct jwk *key = key_of(texts[i][0]);
            ck_assert_int_eq(verify(texts[i][1], key, payload, sizeof(payload)), 0);
            ck_assert_str_eq(payload, i == 2 ? "Example of Ed25519 signing" : joe);
            for (size_t other = 0; other < 3; other++)
                if (other != i)
                    ck_assert_int_eq(verify(texts[other][1], key, NULL, 0), -EACCES);
            jwk_free(key);
        }
    }
END_TEST

// RS256 and EdDSA have one signature for each text, so ours is the RFC's.
START_TEST(cookbook)
    {
        char payload[256];
        struct jwk *key = key_of(BILBO);
        ck_assert_int_eq(verify(BILBO_RS256, key, payload, sizeof(payload)), 0);
        ck_assert_ptr_nonnull(strstr(payload, "a dangerous business, Frodo"));
        ck_assert_int_lt(verify(BILBO_PS384, key, NULL, 0), 0);
        jwk_free(key);
    }
END_TEST

START_TEST(signs_as_the_rfc)
    {
        struct err e = {""};
        cleanup_free char *text = NULL;
        struct jwk *key = key_of(KEY_OKP);
        ck_assert_int_eq(
            jws_sign(key, JWS_EDDSA, NULL, "Example of Ed25519 signing", 26, &text, &e), 0);
        ck_assert_str_eq(text, EDDSA);
        jwk_free(key);
    }
END_TEST

START_TEST(every_flipped_character_is_refused)
    {
        static const struct {
            const char *key;
            enum jws_alg alg;
        } all[] = {
            {KEY_RSA, JWS_PS256}, {KEY_RSA, JWS_RS256}, {KEY_EC, JWS_ES256}, {KEY_OKP, JWS_EDDSA}};
        for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
            struct err e = {""};
            char *text = NULL, payload[64];
            struct jwk *key = key_of(all[i].key);
            ck_assert_int_eq(jws_sign(key, all[i].alg, "me", "some text", 9, &text, &e), 0);
            ck_assert_int_eq(verify(text, key, payload, sizeof(payload)), 0);
            ck_assert_str_eq(payload, "some text");
            size_t len = strlen(text);
            for (size_t at = 0; at < len; at++) {
                char was = text[at];
                text[at] = was == 'A' ? 'B' : 'A';
                ck_assert_int_lt(verify(text, key, NULL, 0), 0);
                text[at] = was;
            }
            text[len - 1] = '\0'; // shorter
            ck_assert_int_lt(verify(text, key, NULL, 0), 0);
            free(text);
            jwk_free(key);
        }
    }
END_TEST

// "header.payload.signature" with that header.
static char *with_header(const char *header, const char *rest)
{
    struct strbuf b = {0};
    b64_append(&b, header, strlen(header));
    strbuf_puts(&b, rest);
    return strbuf_take(&b);
}

START_TEST(headers_are_refused)
    {
        static const char *const wrong[] = {
            "{\"alg\":\"none\"}",
            "{\"alg\":\"HS256\"}",
            "{\"alg\":\"RS384\"}",
            "{\"alg\":\"rs256\"}",
            "{\"alg\":\"ES512\"}",
            "{}",
            "[]",
            "",
            "null",
            "{\"alg\":1}",
            "{\"alg\":\"RS256\",\"alg\":\"none\"}",
            "{\"alg\":\"RS256\",\"jwk\":{\"kty\":\"oct\",\"k\":\"AA\"}}",
            "{\"alg\":\"RS256\",\"jku\":\"https://example.com\"}",
            "{\"alg\":\"RS256\",\"x5u\":\"https://example.com\"}",
            "{\"alg\":\"RS256\",\"x5c\":[]}",
            "{\"alg\":\"RS256\",\"crit\":[\"exp\"]}",
            "{\"alg\":\"RS256\",\"b64\":false}",
            "{\"alg\":\"RS256\",\"zip\":\"DEF\"}",
            "{\"alg\":\"RS256\"} ,",
            "{\"alg\":\"RS256\\u0000\"}",
            "{\"alg\":\"RS256\",\"kid\":"
            "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}"};
        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
            struct jws s;
            cleanup_free char *text = with_header(wrong[i], strchr(RS256, '.'));
            ck_assert_msg(jws_parse(text, strlen(text), &s) == -EPROTO, "%s", wrong[i]);
        }
    }
END_TEST

START_TEST(shapes_are_refused)
    {
        static const char *const wrong[] = {"",
                                            ".",
                                            "..",
                                            "...",
                                            "a.b",
                                            "a.b.c",
                                            "eyJhbGciOiJSUzI1NiJ9",
                                            "eyJhbGciOiJSUzI1NiJ9..",
                                            "eyJhbGciOiJSUzI1NiJ9.a.b.c"};
        struct jws s;
        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
            int r = jws_parse(wrong[i], strlen(wrong[i]), &s);
            if (r == 0) { // no payload, no signature: well-formed, but nobody's
                struct jwk *key = key_of(KEY_RSA);
                ck_assert_int_eq(jws_verify(&s, key), -EACCES);
                jwk_free(key);
                jws_reset(&s);
            }
        }
        char header[COMPACT_HEADER_MAX + 100];
        memset(header, 'a', sizeof(header) - 1);
        header[sizeof(header) - 1] = '\0';
        ck_assert_int_eq(jws_parse(header, sizeof(header) - 1, &s), -EPROTO);
    }
END_TEST

START_TEST(algorithms_belong_to_keys)
    {
        struct err e = {""};
        char *text = NULL;
        enum jws_alg alg;
        struct jwk *rsa = key_of(KEY_RSA), *ec = key_of(KEY_EC), *public_key = NULL;
        cleanup_free char *pem = NULL;
        ck_assert_int_eq(jws_sign(rsa, JWS_ES256, NULL, "", 0, &text, &e), -EINVAL);
        ck_assert_int_eq(jws_sign(ec, JWS_PS256, NULL, "", 0, &text, &e), -EINVAL);
        ck_assert_int_eq(jwk_public_pem(ec, &pem, &e), 0);
        ck_assert_int_eq(jwk_from_pem(pem, &public_key, &e), 0);
        ck_assert_int_eq(jws_sign(public_key, JWS_ES256, NULL, "", 0, &text, &e), -EINVAL);
        for (int i = 0; i < JWS_ALG_MAX; i++) {
            ck_assert_int_eq(jws_alg_from_string(jws_alg_to_string((enum jws_alg)i), &alg), 0);
            ck_assert_int_eq(alg, i);
        }
        ck_assert_int_eq(jws_default_alg(rsa), JWS_PS256);
        ck_assert_int_eq(jws_default_alg(ec), JWS_ES256);
        jwk_free(rsa);
        jwk_free(ec);
        jwk_free(public_key);
    }
END_TEST

RUN_SUITE("jws", 60, vectors, cookbook, signs_as_the_rfc, every_flipped_character_is_refused,
          headers_are_refused, shapes_are_refused, algorithms_belong_to_keys)
