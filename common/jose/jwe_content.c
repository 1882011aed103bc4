// SPDX-License-Identifier: Apache-2.0
// A256GCM: AES-256 in GCM, 96-bit IV, 128-bit tag. A256CBC-HS512: the first half of the key
// authenticates, the second encrypts; the tag is the first half of HMAC-SHA-512 over AAD, IV,
// ciphertext and the AAD's length in bits as 64-bit big-endian number (RFC 7518 section 5.2.2).
#include "common/jose/jwe_content.h"

#include "common/cleanup.h"

#include <endian.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define HALF 32
#define CONTENT_MAX (INT_MAX / 2)

size_t content_iv_bytes(enum jwe_enc enc)
{
    return enc == JWE_A256GCM ? 12 : 16;
}

size_t content_tag_bytes(enum jwe_enc enc)
{
    return enc == JWE_A256GCM ? 16 : 32;
}

static bool hs512_tag(const unsigned char *key, const unsigned char *iv, const struct span *aad,
                      const unsigned char *data, size_t len, unsigned char out[HALF])
{
    unsigned char mac[64];
    unsigned int mac_len = sizeof(mac);
    uint64_t bits = htobe64((uint64_t)aad->len * 8);
    size_t total = aad->len + 16 + len + sizeof(bits);
    cleanup_free unsigned char *all = malloc(total);
    if (!all)
        return false;
    unsigned char *p = mempcpy(all, aad->text, aad->len);
    p = mempcpy(p, iv, 16);
    p = mempcpy(p, data, len);
    memcpy(p, &bits, sizeof(bits));
    if (!HMAC(EVP_sha512(), key, HALF, all, total, mac, &mac_len))
        return false;
    memcpy(out, mac, HALF);
    return true;
}

static bool gcm_update(EVP_CIPHER_CTX *ctx, const struct span *aad, const void *data, size_t len,
                       unsigned char *out)
{
    int n = 0;
    return EVP_CipherUpdate(ctx, NULL, &n, (const unsigned char *)aad->text, (int)aad->len) == 1 &&
           (len == 0 || EVP_CipherUpdate(ctx, out, &n, data, (int)len) == 1);
}

static bool gcm(EVP_CIPHER_CTX *ctx, bool encrypt, const unsigned char *key,
                const unsigned char *iv, const struct span *aad, const void *data, size_t len,
                unsigned char *out, unsigned char *tag)
{
    int last = 0;
    unsigned char none;
    if (EVP_CipherInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, iv, encrypt) != 1 ||
        !gcm_update(ctx, aad, data, len, out))
        return false;
    if (!encrypt && EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, 16, tag) != 1)
        return false;
    if (EVP_CipherFinal_ex(ctx, &none, &last) != 1)
        return false;
    return !encrypt || EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, 16, tag) == 1;
}

static bool cbc(EVP_CIPHER_CTX *ctx, bool encrypt, const unsigned char *key,
                const unsigned char *iv, const void *data, size_t len, unsigned char *out,
                size_t *ret_len)
{
    int n = 0, last = 0;
    if (EVP_CipherInit_ex(ctx, EVP_aes_256_cbc(), NULL, key + HALF, iv, encrypt) != 1 ||
        EVP_CipherUpdate(ctx, out, &n, data, (int)len) != 1 ||
        EVP_CipherFinal_ex(ctx, out + n, &last) != 1)
        return false;
    *ret_len = (size_t)n + (size_t)last;
    return true;
}

bool content_encrypt(enum jwe_enc enc, const unsigned char *key, const unsigned char *iv,
                     const struct span *aad, const void *data, size_t len, unsigned char *out,
                     size_t *ret_len, unsigned char *ret_tag)
{
    EVP_CIPHER_CTX *ctx = len < CONTENT_MAX ? EVP_CIPHER_CTX_new() : NULL;
    if (!ctx)
        return false;
    *ret_len = len; // GCM keeps it, CBC sets its own
    bool ok = enc == JWE_A256GCM ? gcm(ctx, true, key, iv, aad, data, len, out, ret_tag)
                                 : cbc(ctx, true, key, iv, data, len, out, ret_len) &&
                                       hs512_tag(key, iv, aad, out, *ret_len, ret_tag);
    EVP_CIPHER_CTX_free(ctx);
    return ok;
}

static bool hs512_matches(const unsigned char *key, const unsigned char *iv, const struct span *aad,
                          const unsigned char *data, size_t len, const unsigned char *tag)
{
    unsigned char wanted[HALF];
    return hs512_tag(key, iv, aad, data, len, wanted) && CRYPTO_memcmp(wanted, tag, HALF) == 0;
}

bool content_decrypt(enum jwe_enc enc, const unsigned char *key, const unsigned char *iv,
                     const struct span *aad, const unsigned char *data, size_t len,
                     const unsigned char *tag, unsigned char *out, size_t *ret_len)
{
    unsigned char copy[CONTENT_TAG_MAX];
    if (len >= CONTENT_MAX || (enc == JWE_A256CBC_HS512 && (len == 0 || len % 16)))
        return false;
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    if (!ctx)
        return false;
    memcpy(copy, tag, content_tag_bytes(enc));
    *ret_len = len;
    bool ok = enc == JWE_A256GCM ? gcm(ctx, false, key, iv, aad, data, len, out, copy)
                                 : hs512_matches(key, iv, aad, data, len, tag) &&
                                       cbc(ctx, false, key, iv, data, len, out, ret_len);
    EVP_CIPHER_CTX_free(ctx);
    return ok;
}
