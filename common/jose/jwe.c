// SPDX-License-Identifier: Apache-2.0
// The five parts of a compact JWE, and the content key by RSA-OAEP-256 or agreed before (dir).
#include "common/jose/jwe.h"

#include "common/cleanup.h"
#include "common/jose/b64.h"
#include "common/jose/jwe_content.h"
#include "common/jose/jwk_internal.h"
#include "common/json.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <stdlib.h>
#include <string.h>

#define RSA_BYTES_MAX 512

enum part { HEADER, KEY, IV, CIPHERTEXT, TAG };

static const char *const enc_names[JWE_ENC_MAX] = {"A256GCM", "A256CBC-HS512"};

size_t jwe_key_bytes(enum jwe_enc enc)
{
    return enc == JWE_A256GCM ? 32 : 64;
}

static const char *alg_name(enum jwe_alg alg)
{
    return alg == JWE_DIR ? "dir" : "RSA-OAEP-256";
}

static int read_enc(const json_t *header, enum jwe_enc *ret)
{
    const char *name = json_opt_str(header, "enc", "");
    for (int i = 0; i < JWE_ENC_MAX; i++)
        if (strcmp(enc_names[i], name) == 0) {
            *ret = (enum jwe_enc)i;
            return 0;
        }
    return -EPROTO;
}

int jwe_parse(const char *text, size_t len, enum jwe_alg alg, struct jwe *ret)
{
    static const char *const known[] = {"alg", "enc", "kid", "typ", "cty", NULL};
    static const char *const known_dir[] = {"alg", "enc",    "kid", "typ", "cty",
                                            "jti", "status", "iat", NULL};
    struct jwe x = {.alg = alg};
    int r = compact_split(text, len, x.parts, 5);
    if (r == 0)
        r = compact_header(&x.parts[HEADER], alg == JWE_DIR ? known_dir : known, &x.header);
    if (r == 0 && strcmp(json_opt_str(x.header, "alg", ""), alg_name(alg)) != 0)
        r = -EPROTO;
    if (r == 0)
        r = read_enc(x.header, &x.enc);
    if (r < 0) {
        jwe_reset(&x);
        return r;
    }
    *ret = x;
    return 0;
}

void jwe_reset(struct jwe *x)
{
    json_decref(x->header);
    *x = (struct jwe){0};
}

static EVP_PKEY_CTX *oaep(EVP_PKEY *key, int (*init)(EVP_PKEY_CTX *))
{
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(key, NULL);
    if (ctx && init(ctx) == 1 && EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_OAEP_PADDING) == 1 &&
        EVP_PKEY_CTX_set_rsa_oaep_md(ctx, EVP_sha256()) == 1 &&
        EVP_PKEY_CTX_set_rsa_mgf1_md(ctx, EVP_sha256()) == 1)
        return ctx;
    EVP_PKEY_CTX_free(ctx);
    return NULL;
}

// Puts the content key there, or random bytes when it can't be had.
static bool unwrap(const struct jwe *x, const struct jwk *key, unsigned char cek[CONTENT_KEY_MAX])
{
    unsigned char in[RSA_BYTES_MAX], out[RSA_BYTES_MAX];
    size_t in_len = 0, out_len = sizeof(out), want = jwe_key_bytes(x->enc);
    if (RAND_bytes(cek, CONTENT_KEY_MAX) != 1)
        return false;
    if (b64_decode(x->parts[KEY].text, x->parts[KEY].len, in, sizeof(in), &in_len) < 0 ||
        in_len != (size_t)EVP_PKEY_get_size(key->key))
        return true;
    EVP_PKEY_CTX *ctx = oaep(key->key, EVP_PKEY_decrypt_init);
    if (ctx && EVP_PKEY_decrypt(ctx, out, &out_len, in, in_len) == 1 && out_len == want)
        memcpy(cek, out, want);
    EVP_PKEY_CTX_free(ctx);
    OPENSSL_cleanse(out, sizeof(out));
    return true;
}

static bool content_key(const struct jwe *x, const struct jwk *key,
                        unsigned char cek[CONTENT_KEY_MAX])
{
    if (x->alg == JWE_RSA_OAEP_256)
        return key->kind == JWK_RSA && key->is_private && unwrap(x, key, cek);
    if (key->kind != JWK_OCT || key->oct_len != jwe_key_bytes(x->enc) || x->parts[KEY].len != 0)
        return false;
    memcpy(cek, key->oct, key->oct_len);
    return true;
}

static bool decode_exactly(const struct span *part, unsigned char *out, size_t size)
{
    size_t len;
    return b64_decode(part->text, part->len, out, size, &len) == 0 && len == size;
}

int jwe_open(const struct jwe *x, const struct jwk *key, unsigned char **ret, size_t *ret_len)
{
    unsigned char cek[CONTENT_KEY_MAX], iv[CONTENT_IV_MAX], tag[CONTENT_TAG_MAX];
    cleanup_free unsigned char *sealed = NULL;
    size_t sealed_len;
    if (!decode_exactly(&x->parts[IV], iv, content_iv_bytes(x->enc)) ||
        !decode_exactly(&x->parts[TAG], tag, content_tag_bytes(x->enc)) ||
        b64_decode_alloc(x->parts[CIPHERTEXT].text, x->parts[CIPHERTEXT].len, &sealed,
                         &sealed_len) < 0)
        return -EACCES;
    unsigned char *out = malloc(sealed_len + 1);
    if (!out)
        return -EACCES;
    bool ok = content_key(x, key, cek) && content_decrypt(x->enc, cek, iv, &x->parts[HEADER],
                                                          sealed, sealed_len, tag, out, ret_len);
    OPENSSL_cleanse(cek, sizeof(cek));
    ERR_clear_error();
    if (!ok) {
        OPENSSL_cleanse(out, sealed_len + 1);
        free(out);
        return -EACCES;
    }
    out[*ret_len] = '\0';
    *ret = out;
    return 0;
}

// --- sealing ---

static bool append_wrapped(struct strbuf *b, const struct jwk *to, const unsigned char *cek,
                           size_t len)
{
    unsigned char out[RSA_BYTES_MAX];
    size_t out_len = sizeof(out);
    EVP_PKEY_CTX *ctx = oaep(to->key, EVP_PKEY_encrypt_init);
    bool ok = ctx && EVP_PKEY_encrypt(ctx, out, &out_len, cek, len) == 1;
    EVP_PKEY_CTX_free(ctx);
    if (ok)
        b64_append(b, out, out_len);
    return ok;
}

static bool append_content(struct strbuf *b, size_t header_len, enum jwe_enc enc,
                           const unsigned char *cek, const void *data, size_t len)
{
    unsigned char iv[CONTENT_IV_MAX], tag[CONTENT_TAG_MAX];
    cleanup_free unsigned char *out = malloc(len + 16);
    size_t out_len;
    const struct span aad = {b->data, header_len};
    if (!out || b->failed || RAND_bytes(iv, (int)content_iv_bytes(enc)) != 1 ||
        !content_encrypt(enc, cek, iv, &aad, data, len, out, &out_len, tag))
        return false;
    strbuf_puts(b, ".");
    b64_append(b, iv, content_iv_bytes(enc));
    strbuf_puts(b, ".");
    b64_append(b, out, out_len);
    strbuf_puts(b, ".");
    b64_append(b, tag, content_tag_bytes(enc));
    return !b->failed;
}

// `to` NULL = dir.
static int seal(const json_t *header, const struct jwk *to, enum jwe_enc enc,
                const unsigned char *cek, const void *data, size_t len, char **ret, struct err *e)
{
    cleanup_strbuf struct strbuf b = {0};
    cleanup_free char *text = json_text(header);
    if (!text)
        return err_set(e, -ENOMEM, "out of memory");
    b64_append(&b, text, strlen(text));
    size_t header_len = b.len;
    strbuf_puts(&b, ".");
    bool ok = (!to || append_wrapped(&b, to, cek, jwe_key_bytes(enc))) &&
              append_content(&b, header_len, enc, cek, data, len);
    ERR_clear_error();
    if (!ok)
        return err_set(e, -EIO, "sealing failed");
    *ret = strbuf_take(&b);
    return 0;
}

int jwe_seal(const struct jwk *to, enum jwe_enc enc, const char *kid, const void *data, size_t len,
             char **ret, struct err *e)
{
    unsigned char cek[CONTENT_KEY_MAX];
    cleanup_json json_t *header = json_object();
    if (jwk_kind_of(to) != JWK_RSA)
        return err_set(e, -EINVAL, "only an RSA key can be sealed to");
    if (RAND_bytes(cek, sizeof(cek)) != 1)
        return err_set(e, -EIO, "no random numbers");
    json_put_str(header, "alg", alg_name(JWE_RSA_OAEP_256));
    json_put_str(header, "enc", enc_names[enc]);
    if (kid)
        json_put_str(header, "kid", kid);
    int r = seal(header, to, enc, cek, data, len, ret, e);
    OPENSSL_cleanse(cek, sizeof(cek));
    return r;
}

int jwe_seal_dir(const struct jwk *key, const json_t *extra, const void *data, size_t len,
                 char **ret, struct err *e)
{
    cleanup_json json_t *header = json_object();
    if (key->kind != JWK_OCT || (key->oct_len != 32 && key->oct_len != 64))
        return err_set(e, -EINVAL, "an answer's key has 32 or 64 bytes");
    enum jwe_enc enc = key->oct_len == 32 ? JWE_A256GCM : JWE_A256CBC_HS512;
    json_put_str(header, "alg", alg_name(JWE_DIR));
    json_put_str(header, "enc", enc_names[enc]);
    if (extra)
        (void)json_object_update(header, (json_t *)(uintptr_t)extra);
    return seal(header, NULL, enc, key->oct, data, len, ret, e);
}
