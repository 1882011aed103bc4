// SPDX-License-Identifier: Apache-2.0
// Encryption: the RFCs' vectors of the content, every algorithm there and back, and every trick
// refused with the same error.
#include "common/jose/jwe.h"

#include "common/jose/b64.h"
#include "common/jose/compact.h"
#include "common/jose/jwe_content.h"
#include "common/json.h"
#include "test/unit/common/jose_util.h"

// RFC 7516 appendix A.1 (its RSA-OAEP with SHA-1 is none of ours; the content is)
START_TEST(a256gcm_vector)
    {
        static const unsigned char cek[] = {177, 161, 244, 128, 84,  143, 225, 115, 63, 180, 3,
                                            255, 107, 154, 212, 246, 138, 7,   110, 91, 112, 46,
                                            34,  105, 47,  130, 203, 46,  122, 234, 64, 252};
        static const char header[] = "eyJhbGciOiJSU0EtT0FFUCIsImVuYyI6IkEyNTZHQ00ifQ";
        static const char sealed[] =
            "5eym8TW_c8SuK0ltJ3rpYIzOeDQz7TALvtu6UG9oMo4vpzs9tX_EFShS8iB7j6jiSdiwkIr3ajwQzaBtQD_A";
        static const char plain[] =
            "The true sign of intelligence is not knowledge but imagination.";
        unsigned char iv[12], tag[16], out[128], made[128], made_tag[32];
        cleanup_free unsigned char *data = NULL;
        size_t n, len, out_len;
        const struct span aad = {header, strlen(header)};
        ck_assert_int_eq(b64_decode("48V1_ALb6US04U3b", 16, iv, sizeof(iv), &n), 0);
        ck_assert_int_eq(b64_decode("XFBoMYUZodetZdvTiFvSkQ", 22, tag, sizeof(tag), &n), 0);
        ck_assert_int_eq(b64_decode_alloc(sealed, strlen(sealed), &data, &len), 0);
        ck_assert(content_decrypt(JWE_A256GCM, cek, iv, &aad, data, len, tag, out, &out_len));
        ck_assert_uint_eq(out_len, strlen(plain));
        ck_assert_mem_eq(out, plain, out_len);
        ck_assert(
            content_encrypt(JWE_A256GCM, cek, iv, &aad, plain, strlen(plain), made, &n, made_tag));
        ck_assert_uint_eq(n, len);
        ck_assert_mem_eq(made, data, len);
        ck_assert_mem_eq(made_tag, tag, 16);
    }
END_TEST

// RFC 7518 appendix B.3
START_TEST(a256cbc_hs512_vector)
    {
        static const char plain[] =
            "A cipher system must not be required to be secret, and it must "
            "be able to fall into the hands of the enemy without "
            "inconvenience";
        static const char aad_text[] = "The second principle of Auguste Kerckhoffs";
        static const unsigned char iv[] = {0x1a, 0xf3, 0x8c, 0x2d, 0xc2, 0xb9, 0x6f, 0xfd,
                                           0xd8, 0x66, 0x94, 0x09, 0x23, 0x41, 0xbc, 0x04};
        static const unsigned char begins[] = {0x4a, 0xff, 0xaa, 0xad, 0xb7, 0x8c, 0x31, 0xc5};
        static const unsigned char wanted[] = {0x4d, 0xd3, 0xb4, 0xc0, 0x88, 0xa7, 0xf4, 0x5c,
                                               0x21, 0x68, 0x39, 0x64, 0x5b, 0x20, 0x12, 0xbf,
                                               0x2e, 0x62, 0x69, 0xa8, 0xc5, 0x6a, 0x81, 0x6d,
                                               0xbc, 0x1b, 0x26, 0x77, 0x61, 0x95, 0x5b, 0xc5};
        unsigned char key[64], out[256], tag[32], back[256];
        size_t len, back_len;
        const struct span aad = {aad_text, strlen(aad_text)};
        for (int i = 0; i < 64; i++)
            key[i] = (unsigned char)i;
        ck_assert(content_encrypt(JWE_A256CBC_HS512, key, iv, &aad, plain, strlen(plain), out, &len,
                                  tag));
        ck_assert_uint_eq(len, 144);
        ck_assert_mem_eq(out, begins, sizeof(begins));
        ck_assert_mem_eq(tag, wanted, sizeof(wanted));
        ck_assert(
            content_decrypt(JWE_A256CBC_HS512, key, iv, &aad, out, len, tag, back, &back_len));
        ck_assert_uint_eq(back_len, strlen(plain));
        ck_assert_mem_eq(back, plain, back_len);
        tag[31] ^= 1;
        ck_assert(
            !content_decrypt(JWE_A256CBC_HS512, key, iv, &aad, out, len, tag, back, &back_len));
        ck_assert(
            !content_decrypt(JWE_A256CBC_HS512, key, iv, &aad, out, 15, tag, back, &back_len));
        ck_assert(!content_decrypt(JWE_A256CBC_HS512, key, iv, &aad, out, 0, tag, back, &back_len));
    }
END_TEST

static int open_text(const char *text, enum jwe_alg alg, const struct jwk *key, char *out,
                     size_t size)
{
    struct jwe x;
    unsigned char *plain = NULL;
    size_t len = 0;
    int r = jwe_parse(text, strlen(text), alg, &x);
    if (r < 0)
        return r;
    r = jwe_open(&x, key, &plain, &len);
    jwe_reset(&x);
    if (r == 0 && out)
        (void)snprintf(out, size, "%s", plain);
    free(plain);
    return r;
}

static void flip_each(char *text, enum jwe_alg alg, const struct jwk *key, size_t step)
{
    size_t len = strlen(text);
    for (size_t at = 0; at < len; at += step) {
        char was = text[at];
        text[at] = was == 'A' ? 'B' : 'A';
        ck_assert_int_lt(open_text(text, alg, key, NULL, 0), 0);
        text[at] = was;
    }
}

START_TEST(to_a_key_and_back)
    {
        struct err e = {""};
        struct jwk *key = key_of(KEY_RSA), *ec = key_of(KEY_EC), *other = NULL;
        ck_assert_int_eq(jwk_generate(JWK_RSA, 2048, &other, &e), 0);
        for (int enc = 0; enc < JWE_ENC_MAX; enc++) {
            char *text = NULL, out[64];
            ck_assert_int_eq(jwe_seal(key, (enum jwe_enc)enc, "k", "secret", 6, &text, &e), 0);
            ck_assert_int_eq(open_text(text, JWE_RSA_OAEP_256, key, out, sizeof(out)), 0);
            ck_assert_str_eq(out, "secret");
            ck_assert_int_eq(open_text(text, JWE_RSA_OAEP_256, other, NULL, 0), -EACCES);
            ck_assert_int_eq(open_text(text, JWE_RSA_OAEP_256, ec, NULL, 0), -EACCES);
            ck_assert_int_eq(open_text(text, JWE_DIR, key, NULL, 0), -EPROTO);
            flip_each(text, JWE_RSA_OAEP_256, key, 3);
            free(text);
        }
        char *none = NULL;
        ck_assert_int_eq(jwe_seal(ec, JWE_A256GCM, NULL, "", 0, &none, &e), -EINVAL);
        jwk_free(key);
        jwk_free(ec);
        jwk_free(other);
    }
END_TEST

START_TEST(with_a_shared_key)
    {
        struct err e = {""};
        unsigned char bytes[64];
        memset(bytes, 7, sizeof(bytes));
        for (size_t size = 32; size <= 64; size += 32) {
            char *text = NULL, out[64];
            struct jwk *key = NULL, *wrong = NULL;
            struct jwe x;
            cleanup_json json_t *extra = json_pack("{s:s,s:i}", "jti", "j", "status", 200);
            ck_assert_int_eq(jwk_from_bytes(bytes, size, &key, &e), 0);
            ck_assert_int_eq(jwk_from_bytes(bytes, 96 - size, &wrong, &e), 0);
            ck_assert_int_eq(jwe_seal_dir(key, extra, "answer", 6, &text, &e), 0);
            ck_assert_int_eq(jwe_parse(text, strlen(text), JWE_DIR, &x), 0);
            ck_assert_str_eq(json_opt_str(x.header, "jti", ""), "j");
            ck_assert_str_eq(json_opt_str(x.header, "enc", ""),
                             size == 32 ? "A256GCM" : "A256CBC-HS512");
            ck_assert_uint_eq(jwe_key_bytes(x.enc), size);
            jwe_reset(&x);
            ck_assert_int_eq(open_text(text, JWE_DIR, key, out, sizeof(out)), 0);
            ck_assert_str_eq(out, "answer");
            ck_assert_int_eq(open_text(text, JWE_DIR, wrong, NULL, 0), -EACCES);
            flip_each(text, JWE_DIR, key, 1);
            free(text);
            jwk_free(key);
            jwk_free(wrong);
        }
        struct jwk *odd = NULL;
        char *text = NULL;
        ck_assert_int_eq(jwk_from_bytes(bytes, 33, &odd, &e), 0);
        ck_assert_int_eq(jwe_seal_dir(odd, NULL, "", 0, &text, &e), -EINVAL);
        jwk_free(odd);
    }
END_TEST

START_TEST(empty_texts)
    {
        struct err e = {""};
        struct jwk *key = key_of(KEY_RSA);
        for (int enc = 0; enc < JWE_ENC_MAX; enc++) {
            char *text = NULL, out[8] = "x";
            ck_assert_int_eq(jwe_seal(key, (enum jwe_enc)enc, NULL, "", 0, &text, &e), 0);
            ck_assert_int_eq(open_text(text, JWE_RSA_OAEP_256, key, out, sizeof(out)), 0);
            ck_assert_str_eq(out, "");
            free(text);
        }
        jwk_free(key);
    }
END_TEST

START_TEST(headers_are_refused)
    {
        static const char *const wrong[] = {
            "{\"alg\":\"RSA1_5\",\"enc\":\"A256GCM\"}",
            "{\"alg\":\"RSA-OAEP\",\"enc\":\"A256GCM\"}",
            "{\"alg\":\"RSA-OAEP-256\",\"enc\":\"A128GCM\"}",
            "{\"alg\":\"RSA-OAEP-256\",\"enc\":\"A128CBC-HS256\"}",
            "{\"alg\":\"RSA-OAEP-256\"}",
            "{\"enc\":\"A256GCM\"}",
            "{\"alg\":\"dir\",\"enc\":\"A256GCM\"}",
            "{\"alg\":\"PBES2-HS512+A256KW\",\"enc\":\"A256GCM\",\"p2c\":100000000,\"p2s\":\"AA\"}",
            "{\"alg\":\"RSA-OAEP-256\",\"enc\":\"A256GCM\",\"p2c\":1}",
            "{\"alg\":\"RSA-OAEP-256\",\"enc\":\"A256GCM\",\"zip\":\"DEF\"}",
            "{\"alg\":\"RSA-OAEP-256\",\"enc\":\"A256GCM\",\"crit\":[\"exp\"]}",
            "{\"alg\":\"RSA-OAEP-256\",\"enc\":\"A256GCM\",\"jwk\":{}}",
            "{\"alg\":\"RSA-OAEP-256\",\"enc\":\"A256GCM\",\"jku\":\"x\"}",
            "{\"alg\":\"RSA-OAEP-256\",\"enc\":\"A256GCM\",\"x5u\":\"x\"}",
            "{\"alg\":\"RSA-OAEP-256\",\"enc\":\"A256GCM\",\"epk\":{}}",
            "{\"alg\":\"RSA-OAEP-256\",\"enc\":\"A256GCM\",\"jti\":\"x\"}",
            "{\"alg\":\"RSA-OAEP-256\",\"alg\":\"RSA-OAEP-256\",\"enc\":\"A256GCM\"}",
            "",
            "[]",
            "{}"};
        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
            struct jwe x;
            struct strbuf b = {0};
            b64_append(&b, wrong[i], strlen(wrong[i]));
            strbuf_puts(&b, ".AAAA.AAAA.AAAA.AAAA");
            ck_assert_msg(jwe_parse(b.data, b.len, JWE_RSA_OAEP_256, &x) == -EPROTO, "%s",
                          wrong[i]);
            strbuf_reset(&b);
        }
        struct jwe x;
        ck_assert_int_eq(jwe_parse("a.b.c.d", 7, JWE_DIR, &x), -EPROTO);
        ck_assert_int_eq(jwe_parse("a.b.c.d.e.f", 11, JWE_DIR, &x), -EPROTO);
        ck_assert_int_eq(jwe_parse("", 0, JWE_DIR, &x), -EPROTO);
        struct span parts[3];
        ck_assert_int_eq(compact_split("a.b.c", 5, parts, 3), 0);
        ck_assert_int_eq(compact_split("a.b", 3, parts, 3), -EPROTO);
    }
END_TEST

RUN_SUITE("jwe", 60, a256gcm_vector, a256cbc_hs512_vector, to_a_key_and_back, with_a_shared_key,
          empty_texts, headers_are_refused)
