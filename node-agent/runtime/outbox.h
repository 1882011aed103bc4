// SPDX-License-Identifier: Apache-2.0
// What a driver has to tell, queued and told from the loop: never from inside the call that asked,
// and never while the driver is in the middle of something that the listener's next call could pull
// from under it.
#pragma once

#include "node-agent/runtime/runtime.h"

struct outbox;

// The options are borrowed until outbox_close.
int outbox_new(const struct runtime_options *o, struct outbox **ret, struct err *e) WARN_UNUSED;
// Drops what is queued; frees from the loop, then calls `closed` (may be NULL).
void outbox_close(struct outbox *b, void (*closed)(void *userdata), void *userdata);

// One event each of struct runtime_events, in order, from the loop; texts are copied, `_stolen` is
// taken.
void outbox_engine(struct outbox *b, bool ok, const char *reason, json_t *info_stolen);
void outbox_listed(struct outbox *b, struct runtime_attempt *items_stolen, size_t n);
void outbox_phase(struct outbox *b, const char *id, const char *text);
void outbox_started(struct outbox *b, const struct attempt_status *status);
void outbox_ended(struct outbox *b, const struct attempt_status *status);
void outbox_removed(struct outbox *b, const char *id);
void outbox_images(struct outbox *b, json_t *names_stolen);
// Calls fn(userdata) in its turn.
void outbox_call(struct outbox *b, void (*fn)(void *userdata), void *userdata);
