// SPDX-License-Identifier: Apache-2.0
// Keeps the node's certificate valid: renewed over the agent's route at two thirds of its life,
// with the same key. Also brings a new bundle of CAs.
#pragma once

#include "common/http_client.h"
#include "node-agent/identity.h"
#include <uv.h>

struct renew;

struct renew_options {
    uv_loop_t *loop;
    const char *state_dir;
    struct identity *identity;       // joined; changed when a new certificate is stored
    struct http_client *client;      // weak; closed before renew_close
    void (*renewed)(void *userdata); // the identity has the new certificate, durably
    void *userdata;
};

// Plans the renewal of the certificate that the identity has now. -ENOMEM or a negative errno.
int renew_new(const struct renew_options *options, struct renew **ret, struct err *e) WARN_UNUSED;
// Now rather than when it is due (the master said that it is over, or has other CAs). Does nothing
// while one is under way or waits for its next try.
void renew_now(struct renew *r);
void renew_close(struct renew *r); // frees; NULL allowed
