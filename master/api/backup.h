// SPDX-License-Identifier: Apache-2.0
// The API's side of backups: the schedule's results as events, and the route (handlers.h).
#pragma once

#include "master/api/api.h"
#include "master/config.h"

// Opens a->backup by the configuration, which is borrowed.
int backup_open(struct api *a, const struct master_config *c, struct err *e) WARN_UNUSED;
