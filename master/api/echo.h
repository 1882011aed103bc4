// SPDX-License-Identifier: Apache-2.0
// Agents echo the highest (epoch, commit) they saw: who has seen more than the store has shows that
// it went back.
#pragma once

#include "master/api/api.h"
#include "proto/sync.h"

// At the start of work: does the store have what was acknowledged?
void echo_start(struct api *a);
// Looks at a node's first message since this start. False when it can't be taken now, with the
// reason in `e`: a new epoch is being taken, the agent tries again.
bool echo_admits(struct api *a, struct node *n, const struct sync_request *msg,
                 struct err *e) WARN_UNUSED;
