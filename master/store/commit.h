// SPDX-License-Identifier: Apache-2.0
// Group commit: what changed in a loop turn becomes one batch; what depends on it waits until Redis
// has it on disk.
#pragma once

#include "master/store/store.h"

struct commit;

// `collect` is called at the end of a turn in which commit_mark was called (and no batch is in
// flight): it must commit_put / _del / _append everything that is dirty.
struct commit *commit_new(uv_loop_t *loop, struct store *s, void (*collect)(void *userdata),
                          void *userdata); // NULL = out of memory
void commit_close(struct commit *c, void (*closed)(void *userdata),
                  void *userdata); // waiting callbacks get -ECANCELED

// Something is dirty: collect will be called this turn or as soon as the batch in flight is done.
void commit_mark(struct commit *c);

// Inside collect only. Texts are taken (malloc'd); NULL json = out of memory, which makes the
// process stop accepting.
void commit_put(struct commit *c, const char *key, char *json, int64_t ttl_ms);
void commit_del(struct commit *c, const char *key);
void commit_append(struct commit *c, const char *stream, int64_t id, char *json, int64_t max_len);

// Calls fn once everything marked so far is durable: with 0, or -ECANCELED at close, or -ETIMEDOUT
// when timeout_ms (> 0) passed first (outcome unknown: the batch stays in line). When nothing is
// pending, fn is called at the end of this turn, never from inside. Order: callbacks run in the
// order they were registered.
int commit_then(struct commit *c, int64_t timeout_ms, void (*fn)(int result, void *userdata),
                void *userdata) WARN_UNUSED;
bool commit_pending(const struct commit *c); // dirty or in flight
