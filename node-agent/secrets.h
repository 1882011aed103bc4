// SPDX-License-Identifier: Apache-2.0
// Secrets of attempts as files in memory: a folder for each attempt, its user's alone, gone with
// the attempt.
#pragma once

#include "proto/attempt.h"

#define SECRETS_PATH_BYTES 200

// Where secrets go: RUN/secrets where RUN is on tmpfs, else a folder of this agent in /dev/shm.
// Makes it. -ENODEV: neither is memory, and a disk won't do.
int secrets_folder(const char *run_dir, const char *state_dir, char out[SECRETS_PATH_BYTES],
                   struct err *e) WARN_UNUSED;
// "<folder>/<attempt id>".
void secrets_path(const char *folder, const char *id, char out[SECRETS_PATH_BYTES]);
// Writes the files (0400, the spec's user) and wipes the values from the spec. -ENOKEY: one of them
// does not exist any more; e names it.
int secrets_write(const char *folder, struct attempt_spec *spec, struct err *e) WARN_UNUSED;
// Missing is fine.
void secrets_remove(const char *folder, const char *id);
// Removes those of attempts that `keep` does not know.
void secrets_sweep(const char *folder, bool (*keep)(const char *id, void *userdata),
                   void *userdata);
