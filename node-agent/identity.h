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
};

// Reads what is there; makes and stores a key when there is none. `joined` = all of it is there.
int identity_load(const char *state_dir, struct identity **ret, struct err *e) WARN_UNUSED;
bool identity_joined(const struct identity *id);
// Takes over the answer of a join (texts are copied) and stores it durably.
int identity_store(struct identity *id, const char *state_dir, const struct identity *joined,
                   struct err *e) WARN_UNUSED;
void identity_free(struct identity *id); // NULL allowed; wipes the key
