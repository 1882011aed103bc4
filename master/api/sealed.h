// SPDX-License-Identifier: Apache-2.0
// Sealed requests (POST /v1/sealed): an ordinary request inside a JWS inside a JWE, for callers
// that have no trust in the TLS below. Opened on a thread of its own, checked, remembered, and sent
// through the same router as every other, as the user whose key signed it.
#pragma once

#include "master/api/api.h"
#include "master/api/sealed_worker.h"

struct sealed;

// Opens the master's keys (or makes them) and hangs them, the users' keys and what is remembered of
// earlier requests on the api. `rate`: requests a second from one address.
int sealed_open(struct api *a, const char *data_dir, int64_t rate, struct err *e) WARN_UNUSED;
// A loaded record ("key:..." or "sealed:..."); -ENOENT for other keys.
int sealed_load(struct api *a, const char *key, const char *json, size_t len,
                struct err *e) WARN_UNUSED;
// At closing, before the connections: no envelope is opened any more.
void sealed_release(struct api *a);
void sealed_free(struct api *a); // after the loop has ended what it held
void sealed_get_stats(const struct api *a, struct sealed_stats *ret);

void sealed_post(struct call *call); // the route's handler
