// SPDX-License-Identifier: Apache-2.0
// Shared by jwk.c, jwk_parse.c, jws.c and jwe.c.
#pragma once

#include "common/jose/jwk.h"

#include <openssl/evp.h>
#include <stdatomic.h>

struct jwk {
    atomic_uint refs;
    enum jwk_kind kind;
    bool is_private;
    EVP_PKEY *key; // not for oct
    unsigned char oct[JWK_OCT_MAX];
    size_t oct_len;
};

// Takes the key, checks kind and size. -EPROTO with text.
int jwk_adopt(EVP_PKEY *key, bool is_private, struct jwk **ret, struct err *e) WARN_UNUSED;
