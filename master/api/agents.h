// SPDX-License-Identifier: Apache-2.0
// The agents' routes (proto/AGENT.md): join, sync (held), report, logs.
#pragma once

#include "master/api/api.h"

void agents_join(struct call *call);
void agents_sync(struct call *call);
void agents_report(struct call *call);
void agents_logs(struct call *call);
// The cluster's assignment_moved: answers the node's held sync if there is news for it.
void agents_wake(struct node *n);
// At closing: answers every held sync.
void agents_release(struct api *a);
