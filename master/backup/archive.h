// SPDX-License-Identifier: Apache-2.0
// A cluster in one file: a tar with manifest.json (what is in it, with SHA-256), the store as Redis
// dumps it at one commit, and the data folder's own files (identity and keys). Logs are not in it.
// Synchronous: run in a process of its own.
#pragma once

#include "master/config.h"

#define ARCHIVE_FORMAT 1

// Writes it while the master runs or not at all: `out` (0600) appears whole and durable, or not.
// Redis must answer on the master's socket.
// The mark that archive_restore leaves in the data folder, until work is placed again.
#define ARCHIVE_RESTORED "restored"

// Writes the store as of one moment, and identity and keys, to the file `out` (0600), while the
// master runs: Redis hands its state over as to a replica. -EOPNOTSUPP with an external Redis, else
// a negative errno; with text.
int archive_write(const struct master_config *c, const char *out, struct err *e) WARN_UNUSED;

// Lays it into an empty data folder; the next start of the master goes on from there. -EEXIST when
// a cluster is there, -EWOULDBLOCK when a master runs on it, -EPROTO when the file is damaged or of
// a newer format. Nothing is in the folder then that was not there before.
int archive_restore(const struct master_config *c, const char *in, struct err *e) WARN_UNUSED;
