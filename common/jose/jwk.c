// SPDX-License-Identifier: Apache-2.0
// A key's life, its public form, and its name (RFC 7638: SHA-256 over the required members in
// lexical order, without white space).
#include "common/jose/jwk_internal.h"

#include "common/cleanup.h"
#include "common/jose/b64.h"
#include "common/json.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#define RSA_BITS_MIN 2048
#define RSA_BITS_MAX 4096
#define PART_MAX 1024

struct jwk *jwk_ref(struct jwk *k)
{
    atomic_fetch_add(&k->refs, 1);
    return k;
}

void jwk_free(struct jwk *k)
{
    if (!k || atomic_fetch_sub(&k->refs, 1) != 1)
        return;
    EVP_PKEY_free(k->key);
    OPENSSL_cleanse(k->oct, sizeof(k->oct));
    free(k);
}

enum jwk_kind jwk_kind_of(const struct jwk *k)
{
    return k->kind;
}

bool jwk_is_private(const struct jwk *k)
{
    return k->is_private;
}

unsigned jwk_bits(const struct jwk *k)
{
    return k->key ? (unsigned)EVP_PKEY_get_bits(k->key) : (unsigned)k->oct_len * 8;
}

static bool is_p256(EVP_PKEY *key)
{
    char group[64];
    return EVP_PKEY_get_group_name(key, group, sizeof(group), NULL) == 1 &&
           (strcmp(group, "prime256v1") == 0 || strcmp(group, "P-256") == 0);
}

static int classify(EVP_PKEY *key, enum jwk_kind *ret, struct err *e)
{
    int bits = EVP_PKEY_get_bits(key);
    switch (EVP_PKEY_get_base_id(key)) {
    case EVP_PKEY_RSA:
        *ret = JWK_RSA;
        if (bits < RSA_BITS_MIN || bits > RSA_BITS_MAX)
            return err_set(e, -EPROTO, "an RSA key of %d bits: expected %d to %d", bits,
                           RSA_BITS_MIN, RSA_BITS_MAX);
        return 0;
    case EVP_PKEY_EC:
        *ret = JWK_EC;
        return is_p256(key) ? 0 : err_set(e, -EPROTO, "an EC key must be on the curve P-256");
    case EVP_PKEY_ED25519:
        *ret = JWK_OKP;
        return 0;
    default:
        return err_set(e, -EPROTO, "a key must be RSA, EC P-256 or Ed25519");
    }
}

int jwk_adopt(EVP_PKEY *key, bool is_private, struct jwk **ret, struct err *e)
{
    enum jwk_kind kind = JWK_RSA;
    int r = classify(key, &kind, e);
    struct jwk *k = r == 0 ? calloc(1, sizeof(*k)) : NULL;
    if (!k) {
        EVP_PKEY_free(key);
        return r < 0 ? r : err_set(e, -ENOMEM, "out of memory");
    }
    k->refs = 1;
    k->kind = kind;
    k->key = key;
    k->is_private = is_private;
    *ret = k;
    return 0;
}

int jwk_from_bytes(const void *data, size_t len, struct jwk **ret, struct err *e)
{
    if (len == 0 || len > JWK_OCT_MAX)
        return err_set(e, -EPROTO, "an oct key of %zu bytes: expected 1 to %d", len, JWK_OCT_MAX);
    struct jwk *k = calloc(1, sizeof(*k));
    if (!k)
        return err_set(e, -ENOMEM, "out of memory");
    k->refs = 1;
    k->kind = JWK_OCT;
    k->is_private = true;
    k->oct_len = len;
    memcpy(k->oct, data, len);
    *ret = k;
    return 0;
}

int jwk_generate(enum jwk_kind kind, unsigned bits, struct jwk **ret, struct err *e)
{
    EVP_PKEY *key = kind == JWK_RSA  ? EVP_RSA_gen(bits)
                    : kind == JWK_EC ? EVP_EC_gen("P-256")
                                     : EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    ERR_clear_error();
    return key ? jwk_adopt(key, true, ret, e) : err_set(e, -EIO, "no key could be made");
}

// --- PEM ---

static void bio_free(BIO **b)
{
    (void)BIO_free(*b);
}
#define cleanup_bio __attribute__((__cleanup__(bio_free)))

static int no_password(char *buf, int size, int rw, void *userdata)
{
    (void)buf, (void)size, (void)rw, (void)userdata;
    return -1;
}

int jwk_from_pem(const char *pem, struct jwk **ret, struct err *e)
{
    bool is_private = strstr(pem, "PRIVATE KEY-----") != NULL;
    cleanup_bio BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = !bio         ? NULL
                    : is_private ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL)
                                 : PEM_read_bio_PUBKEY(bio, NULL, no_password, NULL);
    ERR_clear_error();
    if (!key)
        return err_set(e, -EPROTO,
                       "not a key in PEM (\"BEGIN PUBLIC KEY\" or \"BEGIN PRIVATE KEY\", without a "
                       "password)");
    return jwk_adopt(key, is_private, ret, e);
}

static int take_pem(BIO *bio, bool ok, char **ret, struct err *e)
{
    char *data = NULL;
    long len = ok ? BIO_get_mem_data(bio, &data) : 0;
    char *copy = len > 0 ? strndup(data, (size_t)len) : NULL;
    ERR_clear_error();
    if (!copy)
        return err_set(e, -ENOMEM, "a key could not be written");
    *ret = copy;
    return 0;
}

int jwk_public_pem(const struct jwk *k, char **ret, struct err *e)
{
    cleanup_bio BIO *bio = BIO_new(BIO_s_mem());
    return take_pem(bio, bio && k->key && PEM_write_bio_PUBKEY(bio, k->key) == 1, ret, e);
}

int jwk_private_pem(const struct jwk *k, char **ret, struct err *e)
{
    cleanup_bio BIO *bio = BIO_new(BIO_s_secmem());
    bool ok = bio && k->key && k->is_private &&
              PEM_write_bio_PrivateKey(bio, k->key, NULL, NULL, 0, NULL, NULL) == 1;
    return take_pem(bio, ok, ret, e);
}

// --- the public form ---

static void put_bytes(json_t *j, const char *name, const void *data, size_t len)
{
    cleanup_strbuf struct strbuf b = {0};
    b64_append(&b, data, len);
    json_put_str(j, name, b.data ? b.data : "");
}

static bool put_number(json_t *j, const char *name, const EVP_PKEY *key, const char *param)
{
    unsigned char bytes[PART_MAX];
    BIGNUM *n = NULL;
    bool ok = EVP_PKEY_get_bn_param(key, param, &n) == 1 && BN_num_bytes(n) <= PART_MAX;
    if (ok)
        put_bytes(j, name, bytes, (size_t)BN_bn2bin(n, bytes));
    BN_free(n);
    return ok;
}

static bool put_coordinate(json_t *j, const char *name, const EVP_PKEY *key, const char *param)
{
    unsigned char bytes[32];
    BIGNUM *n = NULL;
    bool ok = EVP_PKEY_get_bn_param(key, param, &n) == 1 && BN_bn2binpad(n, bytes, 32) == 32;
    if (ok)
        put_bytes(j, name, bytes, 32);
    BN_free(n);
    return ok;
}

static bool put_raw(json_t *j, const EVP_PKEY *key)
{
    unsigned char bytes[32];
    size_t len = sizeof(bytes);
    bool ok = EVP_PKEY_get_raw_public_key(key, bytes, &len) == 1 && len == 32;
    if (ok)
        put_bytes(j, "x", bytes, len);
    return ok;
}

// Members in lexical order: the thumbprint is taken over this very text.
json_t *jwk_public_json(const struct jwk *k)
{
    json_t *j = json_object();
    bool ok = true;
    switch (k->kind) {
    case JWK_RSA:
        ok = put_number(j, "e", k->key, OSSL_PKEY_PARAM_RSA_E);
        json_put_str(j, "kty", "RSA");
        ok = ok && put_number(j, "n", k->key, OSSL_PKEY_PARAM_RSA_N);
        break;
    case JWK_EC:
        json_put_str(j, "crv", "P-256");
        json_put_str(j, "kty", "EC");
        ok = put_coordinate(j, "x", k->key, OSSL_PKEY_PARAM_EC_PUB_X) &&
             put_coordinate(j, "y", k->key, OSSL_PKEY_PARAM_EC_PUB_Y);
        break;
    case JWK_OKP:
        json_put_str(j, "crv", "Ed25519");
        json_put_str(j, "kty", "OKP");
        ok = put_raw(j, k->key);
        break;
    case JWK_OCT:
        json_put_str(j, "kty", "oct");
        break;
    }
    ERR_clear_error();
    if (ok)
        return j;
    json_decref(j);
    return NULL;
}

int jwk_thumbprint(const struct jwk *k, char out[JWK_THUMBPRINT_BYTES])
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    cleanup_json json_t *j = k->kind == JWK_OCT ? NULL : jwk_public_json(k);
    cleanup_free char *text = j ? json_text(j) : NULL;
    cleanup_strbuf struct strbuf b = {0};
    if (!text)
        return -ENOMEM;
    (void)SHA256((const unsigned char *)text, strlen(text), digest);
    b64_append(&b, digest, sizeof(digest));
    if (b.failed)
        return -ENOMEM;
    memcpy(out, b.data, JWK_THUMBPRINT_BYTES);
    return 0;
}
