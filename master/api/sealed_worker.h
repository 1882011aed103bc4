// SPDX-License-Identifier: Apache-2.0
// The thread that opens envelopes: one RSA operation and one signature for each, in order, behind a
// short queue, so that a flood of them costs one core at most and never the loop.
#pragma once

#include "common/jose/jwk.h"
#include <uv.h>

struct sealed_worker;
struct master_keys;
struct user_keys;

#define SEALED_QUEUE_MAX 64

struct sealed_opened {
    json_t *claims;                       // NULL = it doesn't open
    char key_id[JWK_THUMBPRINT_BYTES];    // whose signature it is
    char sealed_to[JWK_THUMBPRINT_BYTES]; // of the master's key
};

// `loop` gets the results; both key stores are borrowed. NULL when it can't be made.
struct sealed_worker *sealed_worker_new(uv_loop_t *loop, struct master_keys *master,
                                        struct user_keys *users);
// Opens the text (copied) and calls `done` from the loop, once; what that does not take from
// *opened is freed after it. -EBUSY when the queue is full, -ENOMEM.
int sealed_worker_open(struct sealed_worker *w, const char *text, size_t len,
                       void (*done)(struct sealed_opened *opened, void *userdata),
                       void *userdata) WARN_UNUSED;
// Waits for the envelope under way; the others' `done` is called without a result. Then it goes
// away by itself when its handle is closed. NULL allowed.
void sealed_worker_close(struct sealed_worker *w);

struct sealed_stats {
    uint64_t rsa_operations, opened, refused, full;
};
// Counts since its start.
void sealed_worker_stats(struct sealed_worker *w, struct sealed_stats *ret);
