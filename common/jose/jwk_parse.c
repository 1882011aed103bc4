// SPDX-License-Identifier: Apache-2.0
// From a JWK object to an OpenSSL key (RFC 7518 section 6, RFC 8037 section 2).
#include "common/jose/jwk_internal.h"

#include "common/cleanup.h"
#include "common/jose/b64.h"
#include "common/json.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/param_build.h>
#include <string.h>

#define PART_MAX 520 // bytes of one number: 4096 bits and a little
#define PARTS_MAX 8

// The numbers of a key on their way into OpenSSL; all are freed at the end.
struct parts {
    OSSL_PARAM_BLD *build;
    BIGNUM *numbers[PARTS_MAX];
    size_t n;
};

static void parts_free(struct parts *p)
{
    for (size_t i = 0; i < p->n; i++)
        BN_clear_free(p->numbers[i]);
    OSSL_PARAM_BLD_free(p->build);
}

static int get_bytes(const json_t *j, const char *name, unsigned char *out, size_t size,
                     size_t *ret_len, struct err *e)
{
    const char *text;
    int r = json_get_str(j, name, &text, e);
    if (r < 0)
        return r;
    if (b64_decode(text, strlen(text), out, size, ret_len) < 0 || *ret_len == 0)
        return err_set(e, -EPROTO, "member \"%s\": not base64url, or too long", name);
    return 0;
}

static int push_number(struct parts *p, const json_t *j, const char *name, const char *param,
                       struct err *e)
{
    unsigned char bytes[PART_MAX];
    size_t len;
    int r = get_bytes(j, name, bytes, sizeof(bytes), &len, e);
    if (r < 0)
        return r;
    if (bytes[0] == 0) // one spelling for each key: RFC 7518 section 2, Base64urlUInt
        return err_set(e, -EPROTO, "member \"%s\": begins with a zero byte", name);
    BIGNUM *n = BN_bin2bn(bytes, (int)len, NULL);
    OPENSSL_cleanse(bytes, sizeof(bytes));
    if (!n || p->n == PARTS_MAX || OSSL_PARAM_BLD_push_BN(p->build, param, n) != 1) {
        BN_clear_free(n);
        return err_set(e, -ENOMEM, "out of memory");
    }
    p->numbers[p->n++] = n;
    return 0;
}

static EVP_PKEY *build_key(struct parts *p, const char *type, bool is_private)
{
    EVP_PKEY *key = NULL;
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(p->build);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    if (!params || !ctx || EVP_PKEY_fromdata_init(ctx) != 1 ||
        EVP_PKEY_fromdata(ctx, &key, is_private ? EVP_PKEY_KEYPAIR : EVP_PKEY_PUBLIC_KEY, params) !=
            1)
        key = NULL;
    EVP_PKEY_CTX_free(ctx);
    OSSL_PARAM_free(params);
    return key;
}

static bool check_key(EVP_PKEY *key, bool is_private)
{
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(key, NULL);
    bool ok = ctx && EVP_PKEY_public_check(ctx) == 1 &&
              (!is_private || EVP_PKEY_pairwise_check(ctx) == 1);
    EVP_PKEY_CTX_free(ctx);
    return ok;
}

static int finish(EVP_PKEY *key, bool is_private, struct jwk **ret, struct err *e)
{
    bool ok = key && check_key(key, is_private);
    ERR_clear_error();
    if (!ok) {
        EVP_PKEY_free(key);
        return err_set(e, -EPROTO, "the numbers of the key are not a valid key");
    }
    return jwk_adopt(key, is_private, ret, e);
}

static int push_rsa(struct parts *p, const json_t *j, bool is_private, struct err *e)
{
    static const struct {
        const char *name, *param;
    } numbers[] = {{"n", OSSL_PKEY_PARAM_RSA_N},          {"e", OSSL_PKEY_PARAM_RSA_E},
                   {"d", OSSL_PKEY_PARAM_RSA_D},          {"p", OSSL_PKEY_PARAM_RSA_FACTOR1},
                   {"q", OSSL_PKEY_PARAM_RSA_FACTOR2},    {"dp", OSSL_PKEY_PARAM_RSA_EXPONENT1},
                   {"dq", OSSL_PKEY_PARAM_RSA_EXPONENT2}, {"qi", OSSL_PKEY_PARAM_RSA_COEFFICIENT1}};
    int r = 0;
    for (size_t i = 0; r == 0 && i < (is_private ? ARRAY_SIZE(numbers) : 2); i++)
        r = push_number(p, j, numbers[i].name, numbers[i].param, e);
    if (r < 0)
        return r;
    int bits = BN_num_bits(p->numbers[0]), exponent = BN_num_bits(p->numbers[1]);
    if (bits < 2048 || bits > 4096)
        return err_set(e, -EPROTO, "an RSA key of %d bits: expected 2048 to 4096", bits);
    if (!BN_is_odd(p->numbers[0]) || !BN_is_odd(p->numbers[1]) || exponent < 2 || exponent > 33)
        return err_set(e, -EPROTO, "the numbers of the key are not a valid key");
    return 0;
}

static int parse_rsa(const json_t *j, struct jwk **ret, struct err *e)
{
    struct parts p = {.build = OSSL_PARAM_BLD_new()};
    bool is_private = json_object_get(j, "d") != NULL;
    int r = p.build ? push_rsa(&p, j, is_private, e) : err_set(e, -ENOMEM, "out of memory");
    EVP_PKEY *key = r == 0 ? build_key(&p, "RSA", is_private) : NULL;
    if (r == 0)
        r = finish(key, is_private, ret, e);
    parts_free(&p);
    return r;
}

static int get_32(const json_t *j, const char *name, unsigned char out[32], struct err *e)
{
    size_t len;
    int r = get_bytes(j, name, out, 32, &len, e);
    return r < 0 ? r : len == 32 ? 0 : err_set(e, -EPROTO, "member \"%s\": not 32 bytes", name);
}

static int push_secret(struct parts *p, const json_t *j, struct err *e)
{
    unsigned char d[32];
    int r = get_32(j, "d", d, e);
    BIGNUM *n = r == 0 ? BN_bin2bn(d, sizeof(d), NULL) : NULL;
    OPENSSL_cleanse(d, sizeof(d));
    if (r < 0)
        return r;
    if (n)
        p->numbers[p->n++] = n;
    if (!n || OSSL_PARAM_BLD_push_BN(p->build, OSSL_PKEY_PARAM_PRIV_KEY, n) != 1)
        return err_set(e, -ENOMEM, "out of memory");
    return 0;
}

static int push_ec(struct parts *p, const json_t *j, unsigned char point[65], bool is_private,
                   struct err *e)
{
    const char *crv;
    int r = json_get_str(j, "crv", &crv, e);
    if (r == 0 && strcmp(crv, "P-256") != 0)
        return err_set(e, -EPROTO, "an EC key must be on the curve P-256");
    point[0] = 4; // uncompressed (SEC 1, section 2.3.3)
    if (r == 0)
        r = get_32(j, "x", point + 1, e);
    if (r == 0)
        r = get_32(j, "y", point + 33, e);
    if (r < 0)
        return r;
    if (OSSL_PARAM_BLD_push_utf8_string(p->build, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) !=
            1 ||
        OSSL_PARAM_BLD_push_octet_string(p->build, OSSL_PKEY_PARAM_PUB_KEY, point, 65) != 1)
        return err_set(e, -ENOMEM, "out of memory");
    return is_private ? push_secret(p, j, e) : 0;
}

static int parse_ec(const json_t *j, struct jwk **ret, struct err *e)
{
    unsigned char point[65];
    struct parts p = {.build = OSSL_PARAM_BLD_new()};
    bool is_private = json_object_get(j, "d") != NULL;
    int r = p.build ? push_ec(&p, j, point, is_private, e) : err_set(e, -ENOMEM, "out of memory");
    EVP_PKEY *key = r == 0 ? build_key(&p, "EC", is_private) : NULL;
    if (r == 0)
        r = finish(key, is_private, ret, e);
    parts_free(&p);
    return r;
}

static int parse_okp(const json_t *j, struct jwk **ret, struct err *e)
{
    unsigned char x[32], d[32], made[32];
    size_t len = sizeof(made);
    const char *crv;
    bool is_private = json_object_get(j, "d") != NULL;
    int r = json_get_str(j, "crv", &crv, e);
    if (r == 0 && strcmp(crv, "Ed25519") != 0)
        return err_set(e, -EPROTO, "an OKP key must be on the curve Ed25519");
    if (r == 0)
        r = get_32(j, "x", x, e);
    if (r == 0 && is_private)
        r = get_32(j, "d", d, e);
    if (r < 0)
        return r;
    EVP_PKEY *key = is_private ? EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, d, sizeof(d))
                               : EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, x, sizeof(x));
    OPENSSL_cleanse(d, sizeof(d));
    bool ok = key && EVP_PKEY_get_raw_public_key(key, made, &len) == 1 && memcmp(made, x, 32) == 0;
    ERR_clear_error();
    if (!ok) {
        EVP_PKEY_free(key);
        return err_set(e, -EPROTO, "the numbers of the key are not a valid key");
    }
    return jwk_adopt(key, is_private, ret, e);
}

static int parse_oct(const json_t *j, struct jwk **ret, struct err *e)
{
    unsigned char bytes[JWK_OCT_MAX];
    size_t len;
    int r = get_bytes(j, "k", bytes, sizeof(bytes), &len, e);
    if (r == 0)
        r = jwk_from_bytes(bytes, len, ret, e);
    OPENSSL_cleanse(bytes, sizeof(bytes));
    return r;
}

int jwk_parse(const json_t *j, struct jwk **ret, struct err *e)
{
    const char *kty;
    if (!json_is_object(j))
        return err_set(e, -EPROTO, "a JWK is a JSON object");
    int r = json_get_str(j, "kty", &kty, e);
    if (r < 0)
        return r;
    if (strcmp(kty, "RSA") == 0)
        return parse_rsa(j, ret, e);
    if (strcmp(kty, "EC") == 0)
        return parse_ec(j, ret, e);
    if (strcmp(kty, "OKP") == 0)
        return parse_okp(j, ret, e);
    if (strcmp(kty, "oct") == 0)
        return parse_oct(j, ret, e);
    return err_set(e, -EPROTO, "member \"kty\": expected RSA, EC, OKP or oct");
}

int jwk_parse_text(const char *text, size_t len, struct jwk **ret, struct err *e)
{
    cleanup_json json_t *j = NULL;
    int r = json_parse(text, len, &j, e);
    return r < 0 ? r : jwk_parse(j, ret, e);
}
