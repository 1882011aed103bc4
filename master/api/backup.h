// SPDX-License-Identifier: Apache-2.0
// The API's side of backups: the schedule's results as events, and the route (handlers.h).
#pragma once

#include "master/api/api.h"
#include "master/config.h"

// Opens a->backup by the configuration, which is borrowed.
int backup_open(struct api *a, const struct master_config *c, struct err *e) WARN_UNUSED;
// Whether the data folder came from a backup and work is not placed yet; the mark goes with
// backup_settled.
bool backup_restored(const struct master_config *c);
// The store went back: it is as if restored, also for the next start.
int backup_note_rollback(const char *data_dir, struct err *e) WARN_UNUSED;
void backup_settled(const struct master_config *c);
