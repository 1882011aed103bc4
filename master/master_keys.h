// SPDX-License-Identifier: Apache-2.0
// The master's own RSA keys, to which requests are sealed: the current one and, after a rotation,
// the one before it, so that clients have time to learn the new one. Files of the data folder
// (identity/sealed.key, identity/sealed-previous.key; 0600).
#pragma once

#include "common/jose/jwk.h"

struct master_keys;

#define MASTER_KEY_BITS 2048

// Opens them, or makes the first key. Caller owns *ret.
int master_keys_open(const char *data_dir, struct master_keys **ret, struct err *e) WARN_UNUSED;
void master_keys_free(struct master_keys *m); // NULL allowed

// The key with that thumbprint, owned by the caller; NULL when it is none of the two. From any
// thread.
struct jwk *master_keys_find(struct master_keys *m, const char *thumbprint);

struct master_key_info {
    char thumbprint[JWK_THUMBPRINT_BYTES]; // "" = there is none
    unsigned bits;
    json_t *jwk; // owned by the receiver
    char *pem;   // owned by the receiver
};
// The current key, or the previous one.
int master_keys_info(struct master_keys *m, bool previous, struct master_key_info *ret,
                     struct err *e) WARN_UNUSED;
void master_key_info_reset(struct master_key_info *i);
const char *master_keys_thumbprint(const struct master_keys *m); // of the current one

// Makes `key` (taken) the current one and the current one the previous; durable when it returns.
int master_keys_rotate(struct master_keys *m, struct jwk *key, struct err *e) WARN_UNUSED;
