// SPDX-License-Identifier: Apache-2.0
// Which sealed requests were accepted already. A request's record is made in the turn of its
// effect, so both are in one batch. Records are forgotten only when the request has expired, and in
// the same batch a watermark rises over what is forgotten: nothing at or below it is ever accepted
// again, whatever becomes of the clock. What was made before this start of the master is refused as
// well: a store that was put back to an older state doesn't know what it had accepted since.
#pragma once

#include "common/err.h"
#include "master/cluster/cluster.h"

struct sealed_seen;

#define SEALED_SEEN_MAX 200000

struct sealed_seen *sealed_seen_new(struct cluster *c, int64_t started_ms); // NULL = out of memory
void sealed_seen_free(struct sealed_seen *s);
// A loaded record ("sealed:..."); -ENOENT for other keys.
int sealed_seen_load(struct sealed_seen *s, const char *key, const char *json, size_t len,
                     struct err *e) WARN_UNUSED;

// Accepts the request of that key and jti and remembers it, or: -EEXIST it was accepted before;
// -ESTALE it is older than what can be told apart; -ENOSPC too many are remembered now.
int sealed_seen_accept(struct sealed_seen *s, const char *key_id, const char *jti, int64_t iat_s,
                       int64_t exp_s, int64_t now_s) WARN_UNUSED;
unsigned sealed_seen_count(const struct sealed_seen *s); // how many are remembered now
