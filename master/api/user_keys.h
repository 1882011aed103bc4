// SPDX-License-Identifier: Apache-2.0
// The public keys with which people sign sealed requests. A key's name is its thumbprint, unique in
// the cluster; it is registered by its owner with a proof that he has the private part.
#pragma once

#include "common/jose/jwk.h"
#include "master/api/api.h"

struct user_keys;

#define USER_KEYS_MAX 32 // of one user

struct user_keys *user_keys_new(struct cluster *c); // NULL = out of memory
void user_keys_free(struct user_keys *k);
// A loaded record ("key:..."); -ENOENT for other keys.
int user_keys_load(struct user_keys *k, const char *key, const char *json, size_t len,
                   struct err *e) WARN_UNUSED;

// Registers jwk (borrowed) as the user's. `proof` is a JWS by that key over {"cluster": ID, "user":
// NAME}. -EACCES: the proof is none; -EEXIST: it is somebody else's; -ENOSPC: too many;
// -EINVAL: private, or not a key to sign with. ret_id is the thumbprint.
// `role`: of who registers it; the key is never worth more. The user's own key again takes role and
// name anew: its answer may have been lost.
int user_keys_add(struct user_keys *k, const struct jwk *jwk, const char *proof, const char *user,
                  enum role role, const char *name, char ret_id[JWK_THUMBPRINT_BYTES],
                  struct err *e) WARN_UNUSED;
// user NULL = whoever's it is. -ENOENT.
int user_keys_remove(struct user_keys *k, const char *id, const char *user) WARN_UNUSED;
// All keys of a user who is removed.
void user_keys_remove_user(struct user_keys *k, const char *user);
// Of one user, or of all (NULL), oldest first.
json_t *user_keys_list(const struct user_keys *k, const char *user);

// The key to verify with, owned by the caller; NULL when there is none. From any thread.
struct jwk *user_keys_find(struct user_keys *k, const char *id);
// Who signs with that key, as of now; false when key or user are gone or disabled.
bool user_keys_principal(const struct user_keys *k, const char *id, struct principal *ret);
