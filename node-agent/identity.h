// SPDX-License-Identifier: Apache-2.0
// Who this node is: its key, the certificate it got for it, and the cluster it joined. Kept in
// STATE/identity/ (0700, files 0600). The key is durable before anything is asked for with it.
#pragma once

#include "common/err.h"
#include <stdbool.h>

struct identity { // owned texts; identity_free
    char *key_pem;
    char *cert_pem; // NULL = not joined
    char *ca_pem;
    char *cluster_id;
    char *cluster_name;
    char *node_id;
    char *name;
    char *removed;       // why the cluster wants no more of this node; NULL = it does
    char *removed_token; // SHA-256 of the join token that was configured then; "" = none
};

// Reads what is there; makes and stores a key when there is none. `joined` = all of it is there.
int identity_load(const char *state_dir, struct identity **ret, struct err *e) WARN_UNUSED;
bool identity_joined(const struct identity *id);
// Takes over the answer of a join (texts are copied) and stores it durably.
int identity_store(struct identity *id, const char *state_dir, const struct identity *joined,
                   struct err *e) WARN_UNUSED;
// Another certificate and bundle of CAs for the same key, stored durably, then taken over.
int identity_renewed(struct identity *id, const char *state_dir, const char *cert_pem,
                     const char *ca_pem, struct err *e) WARN_UNUSED;
// The cluster has removed the node: it stays away, also after a restart, until it gets another join
// token than the one configured now (NULL = none).
int identity_set_removed(struct identity *id, const char *state_dir, const char *why,
                         const char *token, struct err *e) WARN_UNUSED;
// Whether a removed node has got another token since.
bool identity_may_return(const struct identity *id, const char *token);
// Forgets all of it, the key too. Takes *id; load again for a new one.
int identity_forget(struct identity *id, const char *state_dir, struct err *e) WARN_UNUSED;
void identity_free(struct identity *id); // NULL allowed; wipes the key
