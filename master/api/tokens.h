// SPDX-License-Identifier: Apache-2.0
// Bearer tokens of people and join tokens of nodes: random, shown once, stored as SHA-256,
// expiring.
#pragma once

#include "master/api/api.h"

#define TOKEN_TEXT_BYTES 160

// An empty table (the cluster is borrowed); NULL when out of memory. tokens_free forgets all.
struct tokens *tokens_new(struct cluster *c);
void tokens_free(struct tokens *t);
// A loaded record ("token:..." or "jointoken:..."); -ENOENT for other keys.
int tokens_load(struct tokens *t, const char *key, const char *json, size_t len,
                struct err *e) WARN_UNUSED;
// Constant-time on the secret. Fills role (never above the user's), rights, user and token id.
// False as well when the user is unknown or disabled.
bool tokens_check(struct tokens *t, const char *text, struct principal *ret);
// A new token of `user`; the text goes into ret_text once. ttl_ms 0 = for ever. -EBUSY: too many.
int tokens_create(struct tokens *t, const char *user, enum role role, const char *name,
                  int64_t ttl_ms, char ret_text[TOKEN_TEXT_BYTES], char ret_id[ID_BYTES],
                  struct err *e) WARN_UNUSED;
// All tokens of the user, at once.
void tokens_revoke_user(struct tokens *t, const char *user);
// After loading: a user that has tokens but no record (a store written before there were users)
// gets one, with the highest role of his tokens.
int tokens_adopt(struct tokens *t, struct err *e) WARN_UNUSED;
int tokens_revoke(struct tokens *t, const char *id) WARN_UNUSED; // -ENOENT
// Without secrets; user NULL = everybody's.
json_t *tokens_list(const struct tokens *t, const char *user);
json_t *tokens_view(const struct tokens *t, const char *id);     // JSON null when there is none
const char *tokens_user(const struct tokens *t, const char *id); // NULL when there is none
bool tokens_valid(const struct tokens *t, const char *id);       // there is one, not expired

// "mjoin_<ca fingerprint>_<secret>".
int tokens_join_create(struct tokens *t, const char *ca_fingerprint, int64_t uses, int64_t ttl_ms,
                       bool approved, char ret_text[TOKEN_TEXT_BYTES], int64_t *ret_expires_ms,
                       struct err *e) WARN_UNUSED;
// JOIN_KNOWN: for a key that has joined already, uses don't matter; JOIN_LOOK: one must be left;
// JOIN_SPEND: takes it. -EACCES when wrong, expired or used up.
enum join_use { JOIN_KNOWN, JOIN_LOOK, JOIN_SPEND };
int tokens_join_use(struct tokens *t, const char *text, enum join_use use, bool *ret_approved,
                    struct err *e) WARN_UNUSED;
