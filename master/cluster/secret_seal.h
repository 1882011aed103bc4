// SPDX-License-Identifier: Apache-2.0
// Encryption of secrets at rest: AES-256-GCM under keys from a file outside the store. A nonce is
// random for each record; the record's key in the store is its additional data, so that no record
// can stand in for another.
#pragma once

#include "common/err.h"
#include <stddef.h>

#define SEAL_KEYS_MAX 8
#define SEAL_KEY_ID_BYTES 17 // 16 hex digits of the key's SHA-256, and NUL

struct seal_keys { // the first seals, all open
    struct seal_key {
        char id[SEAL_KEY_ID_BYTES];
        unsigned char bytes[32];
    } items[SEAL_KEYS_MAX];
    size_t n;
};

// Reads FOLDER/secrets.key: one key of 64 hex digits in a line, the newest first. Makes it (0600,
// durable) when it is missing. Its mode must be closed to others. -EINVAL, -EACCES.
int seal_keys_load(const char *folder, struct seal_keys *ret, struct err *e) WARN_UNUSED;
void seal_keys_wipe(struct seal_keys *keys);

// *ret: "<key id>.<base64 of nonce, ciphertext, tag>", owned by the caller. `name` is the record's
// key. -EIO: no random numbers, or the library failed.
int secret_seal(const struct seal_keys *keys, const char *name, const char *value, size_t len,
                char **ret, struct err *e) WARN_UNUSED;
// *ret is NUL-terminated and the caller's to wipe. -ENOKEY: sealed under a key that is not in the
// file; -EBADMSG: changed, or of another record.
int secret_unseal(const struct seal_keys *keys, const char *name, const char *sealed, char **ret,
                  size_t *ret_len, struct err *e) WARN_UNUSED;
