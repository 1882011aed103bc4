// SPDX-License-Identifier: Apache-2.0
// Signed texts (RFC 7515), compact: PS256, RS256, ES256 (RFC 7518 section 3) and EdDSA (RFC 8037).
// Which algorithm may be used is said by the key's type, never by the message alone: no HS*, no
// "none".
#pragma once

#include "common/jose/compact.h"
#include "common/jose/jwk.h"

#define JWS_KID_BYTES 64

enum jws_alg { JWS_PS256, JWS_RS256, JWS_ES256, JWS_EDDSA, JWS_ALG_MAX };

struct jws {
    enum jws_alg alg;
    char kid[JWS_KID_BYTES]; // "" = none
    struct span signing_input;
    struct span signature;
    unsigned char *payload; // NUL-terminated
    size_t payload_len;
};

// Takes the text apart; nothing is verified. -EPROTO for anything unusual. On success jws_reset is
// due; the text must outlive *ret.
int jws_parse(const char *text, size_t len, struct jws *ret) WARN_UNUSED;
// -EACCES when the signature is not this key's or its algorithm not this key type's.
int jws_verify(const struct jws *s, const struct jwk *key) WARN_UNUSED;
void jws_reset(struct jws *s); // wipes the payload

// The algorithm that is used for a key when nobody chose: PS256, ES256, EdDSA.
enum jws_alg jws_default_alg(const struct jwk *key);
const char *jws_alg_to_string(enum jws_alg alg);
int jws_alg_from_string(const char *text, enum jws_alg *ret) WARN_UNUSED;
// Signs with a private key; caller frees *ret. kid NULL = none.
int jws_sign(const struct jwk *key, enum jws_alg alg, const char *kid, const void *payload,
             size_t len, char **ret, struct err *e) WARN_UNUSED;
