// SPDX-License-Identifier: Apache-2.0
// Encrypted texts (RFC 7516), compact: RSA-OAEP-256 to a public key, or `dir` with a shared one;
// content by A256GCM or A256CBC-HS512 (RFC 7518 sections 4.3, 4.5, 5). Nothing else is taken.
#pragma once

#include "common/jose/compact.h"
#include "common/jose/jwk.h"

enum jwe_enc { JWE_A256GCM, JWE_A256CBC_HS512, JWE_ENC_MAX };
enum jwe_alg { JWE_RSA_OAEP_256, JWE_DIR };

struct jwe {
    enum jwe_alg alg;
    enum jwe_enc enc;
    json_t *header; // all of it
    struct span parts[5];
};

// How many bytes the content key has: 32, 64.
size_t jwe_key_bytes(enum jwe_enc enc);

// Takes the text apart. `alg` is the only one expected; the header may hold alg, enc, kid, typ,
// cty, and with JWE_DIR also jti, status and iat. -EPROTO for anything else. On success jwe_reset
// is due; the text must outlive *ret.
int jwe_parse(const char *text, size_t len, enum jwe_alg alg, struct jwe *ret) WARN_UNUSED;
// Opens it with the private RSA key, or the oct key of exactly the right size. -EACCES for every
// failure, found out only by the tag: a wrong encrypted key is replaced by a random one (RFC 7516
// section 11.5), so nothing tells where it failed. Caller frees *ret (NUL-terminated) and wipes it.
int jwe_open(const struct jwe *x, const struct jwk *key, unsigned char **ret,
             size_t *ret_len) WARN_UNUSED;
void jwe_reset(struct jwe *x);

// Seals to an RSA key. kid NULL = none; caller frees *ret.
int jwe_seal(const struct jwk *to, enum jwe_enc enc, const char *kid, const void *data, size_t len,
             char **ret, struct err *e) WARN_UNUSED;
// Seals with an oct key of 32 bytes (A256GCM) or 64 (A256CBC-HS512). `extra` holds further header
// members (borrowed, may be NULL).
int jwe_seal_dir(const struct jwk *key, const json_t *extra, const void *data, size_t len,
                 char **ret, struct err *e) WARN_UNUSED;
