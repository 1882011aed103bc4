// SPDX-License-Identifier: Apache-2.0
// Keys as JSON (RFC 7517, RFC 7518 section 6, RFC 8037): RSA of 2048 to 4096 bits, EC P-256,
// OKP Ed25519, and oct. A key is immutable and counted, so that it may be used by several threads.
#pragma once

#include "common/err.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum jwk_kind { JWK_RSA, JWK_EC, JWK_OKP, JWK_OCT };
struct jwk;

#define JWK_THUMBPRINT_BYTES 44 // base64url of SHA-256, with NUL
#define JWK_OCT_MAX 64          // bytes

// From a JWK object; unknown members are ignored, as RFC 7517 section 4 asks. A private key is
// taken with its private part. -EPROTO with text when it is none of ours, of another size, or not
// on its curve. The caller owns *ret.
int jwk_parse(const json_t *j, struct jwk **ret, struct err *e) WARN_UNUSED;
// From a JWK's text, with duplicate members refused.
int jwk_parse_text(const char *text, size_t len, struct jwk **ret, struct err *e) WARN_UNUSED;
// From PEM: a private key (PKCS#8, not encrypted) or a public one (SubjectPublicKeyInfo).
int jwk_from_pem(const char *pem, struct jwk **ret, struct err *e) WARN_UNUSED;
// A new RSA key of `bits`, EC P-256 or Ed25519 key (bits ignored).
int jwk_generate(enum jwk_kind kind, unsigned bits, struct jwk **ret, struct err *e) WARN_UNUSED;
// An oct key of 1 to JWK_OCT_MAX bytes, copied.
int jwk_from_bytes(const void *data, size_t len, struct jwk **ret, struct err *e) WARN_UNUSED;

struct jwk *jwk_ref(struct jwk *k); // the same key, owned once more
void jwk_free(struct jwk *k);       // NULL allowed; the last owner wipes it

enum jwk_kind jwk_kind_of(const struct jwk *k);
bool jwk_is_private(const struct jwk *k); // oct keys are
// The size of the key: of the modulus, the curve, the secret.
unsigned jwk_bits(const struct jwk *k);

// The public part alone (of an oct key nothing but its type); NULL when out of memory.
json_t *jwk_public_json(const struct jwk *k);
// PEM of the public (SubjectPublicKeyInfo) or private (PKCS#8) part; caller frees (and wipes).
int jwk_public_pem(const struct jwk *k, char **ret, struct err *e) WARN_UNUSED;
int jwk_private_pem(const struct jwk *k, char **ret, struct err *e) WARN_UNUSED;
// RFC 7638 with SHA-256.
int jwk_thumbprint(const struct jwk *k, char out[JWK_THUMBPRINT_BYTES]) WARN_UNUSED;
