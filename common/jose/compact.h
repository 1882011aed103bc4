// SPDX-License-Identifier: Apache-2.0
// The outer form that JWS and JWE share: parts between dots (RFC 7515 section 3.1, RFC 7516
// section 3.1), the first of them a JSON header.
#pragma once

#include "common/err.h"
#include <jansson.h>
#include <stddef.h>

#define COMPACT_HEADER_MAX 4096 // characters, encoded

struct span {
    const char *text; // borrowed, not terminated
    size_t len;
};

// Exactly n parts; -EPROTO otherwise.
int compact_split(const char *text, size_t len, struct span *parts, size_t n) WARN_UNUSED;
// The header of a part: a JSON object without duplicate members, all of them among `known` (ends
// with NULL). So whatever would ask for compression (zip), for keys from elsewhere (jku, x5u, jwk,
// x5c), for passwords (p2s, p2c) or for extensions (crit, b64) is refused. Caller owns *ret.
int compact_header(const struct span *part, const char *const *known, json_t **ret) WARN_UNUSED;
