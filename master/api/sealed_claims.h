// SPDX-License-Identifier: Apache-2.0
// What a signed request says, checked: {method, path, headers, body, iat, exp, jti, aud, sub, to,
// response_key}. Pure: no state, no clock of its own.
#pragma once

#include "common/http_inner.h"
#include "common/jose/jwk.h"

#define SEALED_HEADERS_MAX 3
#define SEALED_JTI_BYTES 65
#define SEALED_LIFE_MAX_S 240 // exp - iat
#define SEALED_AHEAD_S 30     // how far a client's clock may be ahead

struct sealed_claims {
    const char *method, *path; // these borrow from the JSON
    struct http_inner_header headers[SEALED_HEADERS_MAX];
    size_t n_headers;
    const char *body;
    size_t body_len;
    char *body_text;  // owned: of a body that was given as a JSON value
    int64_t iat, exp; // seconds
    char jti[SEALED_JTI_BYTES];
};

struct sealed_expected {
    const char *cluster, *user, *sealed_to;
    int64_t now_s;
};

// The key that the answer is to be sealed with: an oct JWK of 32 or 64 bytes. NULL when there is
// none: then nothing can be answered in secret. Owned by the caller.
struct jwk *sealed_response_key(const json_t *claims);
// The request's own id, 16 to 64 characters of A-Z a-z 0-9 - _. -EPROTO.
int sealed_jti(const json_t *claims, char ret[SEALED_JTI_BYTES], struct err *e) WARN_UNUSED;

// Fills *ret or returns the status to answer with (400, 401, 403, 413) and its text.
int sealed_claims_check(const json_t *claims, const struct sealed_expected *x,
                        struct sealed_claims *ret, struct err *e) WARN_UNUSED;
void sealed_claims_reset(struct sealed_claims *c);
