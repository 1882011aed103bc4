// SPDX-License-Identifier: Apache-2.0
// The agents' routes (proto/AGENT.md): join, sync (held), report, logs.
#pragma once

#include "master/api/api.h"
#include "master/logs/log_store.h"

// Handlers of the routes of agents (api_routes).
void agents_join(struct call *call);
void agents_renew(struct call *call);
void agents_sync(struct call *call);
void agents_report(struct call *call);
void agents_logs(struct call *call);
// Who the client certificate makes the caller: fills call->who. False when it is refused, and the
// call answered: unknown or removed node, a certificate that was replaced, one that is over (which
// opens the renewal alone).
bool agents_authenticate(struct call *call, const struct http_peer *peer);
// Answers a caller whose node is not here (any more).
void agents_refuse_unknown(struct call *call, const char *node_id);
// The body of agents_logs: frames of one stream from `offset` on; *ret_next is where the next one
// belongs. -EPROTO for a cut frame, else what log_store_append returns.
int agents_logs_append(struct log_store *s, const char *attempt, enum log_channel channel,
                       uint64_t offset, const char *data, size_t len,
                       uint64_t *ret_next) WARN_UNUSED;
// The cluster's assignment_moved: answers the node's held sync if there is news for it.
void agents_wake(struct node *n);
// At closing: answers every held sync.
void agents_release(struct api *a);
