// SPDX-License-Identifier: Apache-2.0
// Joining a cluster: check the master's CA against the token's fingerprint, then ask for a
// certificate.
#pragma once

#include "node-agent/identity.h"
#include <uv.h>

struct join;

struct join_token {
    char fingerprint[65]; // SHA-256 of the CA certificate's DER, lower-case hex
    const char *secret;   // inside the text that was parsed
};
// "mjoin_<64 hex>_<secret>". -EINVAL otherwise.
int join_token_parse(const char *text, struct join_token *ret, struct err *e) WARN_UNUSED;

struct join_options {
    uv_loop_t *loop;
    const char *master_url;
    const char *ca_pem; // pinned by the operator, or NULL: fetched
    const char *token;
    const char *name;
    const char *machine_id;
    const char *key_pem;
    // `joined` has everything but key_pem (borrowed); NULL with e on failure. `permanent`: asking
    // again the same way can't help until somebody changes something.
    void (*done)(const struct identity *joined, bool permanent, const struct err *e,
                 void *userdata);
    void *userdata;
};
// `done` is called exactly once, from the loop. Owned by the caller; options' texts are borrowed
// until join_close.
int join_start(const struct join_options *options, struct join **ret, struct err *e) WARN_UNUSED;
// Cancels without a callback; frees from the loop. NULL allowed.
void join_close(struct join *j);
