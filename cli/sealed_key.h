// SPDX-License-Identifier: Apache-2.0
// The caller's own keys for sealed requests: NAME.pem (private, 0600), NAME.json (what it was
// registered as, and the master's key that is pinned) and NAME.master.pem (that key once more), in
// the folder `keys` beside the contexts.
#pragma once

#include "cli/context.h"
#include "common/err.h"
#include "common/jose/jwk.h"

#define SEALED_KEY_DEFAULT "default"

struct sealed_key {
    char *name, *pem_file, *json_file;
    struct jwk *key;
    char id[JWK_THUMBPRINT_BYTES];
    // of a registered key; else NULL and ""
    char *user, *cluster, *url;
    struct jwk *master;
    char master_id[JWK_THUMBPRINT_BYTES]; // pinned
};

// Names the files of key NAME. -EINVAL for a name with other characters than A-Z a-z 0-9 . _ -.
int sealed_key_name(const char *name, struct sealed_key *ret, struct err *e) WARN_UNUSED;
void sealed_key_reset(struct sealed_key *k);
// Reads it, with what it was registered as when it was. -ENOENT: there is no such key.
int sealed_key_load(const char *name, struct sealed_key *ret, struct err *e) WARN_UNUSED;
// Writes the private key; -EEXIST rather than over an old one.
int sealed_key_save(const struct sealed_key *k, struct err *e) WARN_UNUSED;
// Writes user, cluster, url and the master's key (pinned from then on).
int sealed_key_save_registration(const struct sealed_key *k, struct err *e) WARN_UNUSED;
// Takes the master's current key from the answer of GET /v1/keys/master, which must have the
// thumbprint `pinned` (NULL = whichever it is). -EACCES otherwise.
int sealed_key_take_master(struct sealed_key *k, const json_t *answer, const char *pinned,
                           struct err *e) WARN_UNUSED;
// The master to speak to: the one that options name, else the one where the key was registered.
// Without a CA its certificate is not looked at: the envelope is what is trusted.
int sealed_key_target(const struct sealed_key *k, const struct context_choice *c,
                      struct api_target *ret, struct err *e) WARN_UNUSED;
