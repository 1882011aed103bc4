// SPDX-License-Identifier: Apache-2.0
// Read-only API on RUN/agent.sock for whoever stands at this machine: /healthz, /v1/tasks,
// /metrics.
#pragma once

#include "common/err.h"

struct agent;
struct status_api;

// Listens on agent.sock of the run folder. A negative errno with text.
int status_api_start(struct agent *a, struct status_api **ret, struct err *e) WARN_UNUSED;
// Frees from the loop. NULL allowed.
void status_api_stop(struct status_api *api);
