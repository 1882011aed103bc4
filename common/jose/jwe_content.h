// SPDX-License-Identifier: Apache-2.0
// Authenticated encryption of a JWE's content: A256GCM and A256CBC-HS512 (RFC 7518 sections 5.3,
// 5.2.5).
#pragma once

#include "common/jose/jwe.h"

#define CONTENT_KEY_MAX 64
#define CONTENT_IV_MAX 16
#define CONTENT_TAG_MAX 32

// Sizes that the algorithm has: 12 and 16 of A256GCM, 16 and 32 of A256CBC-HS512.
size_t content_iv_bytes(enum jwe_enc enc);
size_t content_tag_bytes(enum jwe_enc enc);

// `out` holds len + 16 bytes. Sizes of key, iv and tag are the algorithm's. False on failure.
bool content_encrypt(enum jwe_enc enc, const unsigned char *key, const unsigned char *iv,
                     const struct span *aad, const void *data, size_t len, unsigned char *out,
                     size_t *ret_len, unsigned char *ret_tag);
// `out` holds len + 1 bytes. The tag is compared in constant time, and of A256CBC-HS512 before
// anything is decrypted, so that padding can't be probed. False when it doesn't match.
bool content_decrypt(enum jwe_enc enc, const unsigned char *key, const unsigned char *iv,
                     const struct span *aad, const unsigned char *data, size_t len,
                     const unsigned char *tag, unsigned char *out, size_t *ret_len);
