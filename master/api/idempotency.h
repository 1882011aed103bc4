// SPDX-License-Identifier: Apache-2.0
// Idempotency-Key: the answer to a change is kept 24 h under (user, route, key), in the same batch
// as the change.
#pragma once

#include "master/api/api.h"

// NULL when out of memory. idempotency_free forgets all; NULL is fine.
struct idempotency *idempotency_new(void);
void idempotency_free(struct idempotency *x);
// A loaded record ("idem:..."); -ENOENT for other keys.
int idempotency_load(struct idempotency *x, const char *key, const char *json, size_t len,
                     struct err *e) WARN_UNUSED;
// Before the handler: true = go on (the call now has its digest). False = answered: the stored
// answer (with Idempotent-Replay: true), 422 for another body under the same key, 400 for a bad
// key.
bool idempotency_admit(struct idempotency *x, struct call *call);
// After the verb, before the answer is parked. Does nothing for calls without a key.
void idempotency_remember(struct idempotency *x, const struct call *call, int status,
                          const char *answer);
