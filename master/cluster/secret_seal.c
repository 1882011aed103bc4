// SPDX-License-Identifier: Apache-2.0
// NIST SP 800-38D: 96 random bits of nonce allow 2^32 records under one key, far above what a
// cluster has; 128 bits of tag.
#include "master/cluster/secret_seal.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/pki.h"
#include "common/text.h"

#include <stdbool.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NONCE 12
#define TAG 16
#define KEY 32
#define FILE_LIMIT 4096

static void cipher_free(EVP_CIPHER_CTX **c)
{
    EVP_CIPHER_CTX_free(*c);
}
#define cleanup_cipher __attribute__((__cleanup__(cipher_free)))

// --- the key file --------------------------------------------------------------------------------

static int make_key_file(const char *path, struct err *e)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[KEY];
    char text[2 * KEY + 1];
    if (RAND_priv_bytes(bytes, sizeof(bytes)) != 1)
        return err_set(e, -EIO, "no random numbers");
    for (size_t i = 0; i < KEY; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[2 * KEY] = '\n';
    int r = atomic_file_write(path, text, sizeof(text), 0600, e);
    OPENSSL_cleanse(text, sizeof(text));
    OPENSSL_cleanse(bytes, sizeof(bytes));
    return r;
}

static int parse_key(const char *line, size_t len, struct seal_key *ret)
{
    char hex[65];
    if (len != 2 * (size_t)KEY)
        return -EINVAL;
    for (size_t i = 0; i < KEY; i++) {
        int high = text_hex_digit(line[2 * i]), low = text_hex_digit(line[2 * i + 1]);
        if (high < 0 || low < 0)
            return -EINVAL;
        ret->bytes[i] = (unsigned char)(high << 4 | low);
    }
    if (pki_sha256_hex(ret->bytes, KEY, hex) < 0)
        return -EIO;
    (void)snprintf(ret->id, sizeof(ret->id), "%.16s", hex);
    return 0;
}

static int parse_keys(const char *path, const char *text, struct seal_keys *ret, struct err *e)
{
    ret->n = 0;
    for (int line = 1; *text; line++) {
        size_t len = strcspn(text, "\n");
        if (len > 0) {
            if (ret->n == SEAL_KEYS_MAX)
                return err_set(e, -EINVAL, "%s: more than %d keys", path, SEAL_KEYS_MAX);
            if (parse_key(text, len, &ret->items[ret->n]) < 0)
                return err_set(e, -EINVAL, "%s:%d: expected 64 hex digits", path, line);
            ret->n++;
        }
        text += len + (text[len] == '\n');
    }
    return ret->n ? 0 : err_set(e, -EINVAL, "%s: has no key", path);
}

int seal_keys_load(const char *folder, struct seal_keys *ret, struct err *e)
{
    char path[300];
    char *text = NULL;
    size_t len;
    struct stat st;
    (void)snprintf(path, sizeof(path), "%.270s/secrets.key", folder);
    int r = stat(path, &st) == 0 ? 0 : -errno;
    if (r == -ENOENT)
        r = make_key_file(path, e);
    else if (r < 0)
        return err_errno(e, r, "%s", path);
    else if (st.st_mode & 077)
        r = err_set(e, -EACCES, "%s: others may read it: chmod 600, and think of rotating it",
                    path);
    if (r == 0)
        r = atomic_file_read(path, FILE_LIMIT, &text, &len, e);
    if (r < 0 || !text)
        return r;
    r = parse_keys(path, text, ret, e);
    OPENSSL_cleanse(text, len);
    free(text);
    return r;
}

void seal_keys_wipe(struct seal_keys *keys)
{
    OPENSSL_cleanse(keys, sizeof(*keys));
}

// --- seal ----------------------------------------------------------------------------------------

static bool encrypt(const struct seal_key *key, const char *name, const char *value, size_t len,
                    unsigned char *out)
{
    int n;
    cleanup_cipher EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    return c && RAND_bytes(out, NONCE) == 1 &&
           EVP_EncryptInit_ex(c, EVP_aes_256_gcm(), NULL, key->bytes, out) == 1 &&
           EVP_EncryptUpdate(c, NULL, &n, (const unsigned char *)name, (int)strlen(name)) == 1 &&
           EVP_EncryptUpdate(c, out + NONCE, &n, (const unsigned char *)value, (int)len) == 1 &&
           EVP_EncryptFinal_ex(c, out + NONCE + len, &n) == 1 &&
           EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, TAG, out + NONCE + len) == 1;
}

int secret_seal(const struct seal_keys *keys, const char *name, const char *value, size_t len,
                char **ret, struct err *e)
{
    size_t size = NONCE + len + TAG;
    cleanup_free unsigned char *raw = malloc(size);
    cleanup_free char *text = malloc(SEAL_KEY_ID_BYTES + (size + 2) / 3 * 4 + 1);
    if (!raw || !text)
        return err_set(e, -ENOMEM, "out of memory");
    if (!encrypt(&keys->items[0], name, value, len, raw))
        return err_set(e, -EIO, "the secret can't be encrypted");
    int head = sprintf(text, "%s.", keys->items[0].id);
    (void)EVP_EncodeBlock((unsigned char *)text + head, raw, (int)size);
    *ret = TAKE_PTR(text);
    return 0;
}

static bool decrypt(const struct seal_key *key, const char *name, unsigned char *raw, size_t size,
                    unsigned char *out)
{
    int n, len = (int)(size - NONCE - TAG);
    cleanup_cipher EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    return c && EVP_DecryptInit_ex(c, EVP_aes_256_gcm(), NULL, key->bytes, raw) == 1 &&
           EVP_DecryptUpdate(c, NULL, &n, (const unsigned char *)name, (int)strlen(name)) == 1 &&
           EVP_DecryptUpdate(c, out, &n, raw + NONCE, len) == 1 &&
           EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_SET_TAG, TAG, raw + size - TAG) == 1 &&
           EVP_DecryptFinal_ex(c, out + len, &n) == 1;
}

static const struct seal_key *key_of(const struct seal_keys *keys, const char *sealed)
{
    for (size_t i = 0; i < keys->n; i++)
        if (strncmp(keys->items[i].id, sealed, SEAL_KEY_ID_BYTES - 1) == 0)
            return &keys->items[i];
    return NULL;
}

int secret_unseal(const struct seal_keys *keys, const char *name, const char *sealed, char **ret,
                  size_t *ret_len, struct err *e)
{
    size_t len = strlen(sealed);
    const char *text = sealed + SEAL_KEY_ID_BYTES;
    if (len < SEAL_KEY_ID_BYTES || text[-1] != '.')
        return err_set(e, -EBADMSG, "record %s is damaged", name);
    const struct seal_key *key = key_of(keys, sealed);
    if (!key)
        return err_set(e, -ENOKEY, "record %s is under key %.16s, which secrets.key does not have",
                       name, sealed);
    len -= SEAL_KEY_ID_BYTES;
    cleanup_free unsigned char *raw = malloc(len / 4 * 3 + 1);
    if (!raw)
        return err_set(e, -ENOMEM, "out of memory");
    int n =
        len % 4 == 0 && len > 0 ? EVP_DecodeBlock(raw, (const unsigned char *)text, (int)len) : -1;
    size_t pad = n > 0 ? (text[len - 1] == '=') + (text[len - 2] == '=') : 0;
    if (n < NONCE + TAG + (int)pad)
        return err_set(e, -EBADMSG, "record %s is damaged", name);
    size_t size = (size_t)n - pad;
    cleanup_free char *value = malloc(size);
    if (!value)
        return err_set(e, -ENOMEM, "out of memory");
    if (!decrypt(key, name, raw, size, (unsigned char *)value)) {
        OPENSSL_cleanse(value, size);
        return err_set(e, -EBADMSG, "record %s was changed, or is of another secret", name);
    }
    *ret_len = size - NONCE - TAG;
    value[*ret_len] = '\0';
    *ret = TAKE_PTR(value);
    return 0;
}
