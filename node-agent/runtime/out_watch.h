// SPDX-License-Identifier: Apache-2.0
// Tells when meadow-init has put a record into an attempt's out folder: one inotify descriptor for
// all of them.
#pragma once

#include "node-agent/attempt_dir.h"
#include <uv.h>

struct out_watch;

// `changed`: a record (`started` or `exit`) of the attempt appeared; read them. Also called when
// events were lost. The folders are borrowed.
int out_watch_new(uv_loop_t *loop, const struct attempt_dirs *dirs,
                  void (*changed)(const char *id, void *userdata), void *userdata,
                  struct out_watch **ret, struct err *e) WARN_UNUSED;
// From now on; idempotent. Records that are there already are not told.
int out_watch_add(struct out_watch *w, const char *id, struct err *e) WARN_UNUSED;
void out_watch_remove(struct out_watch *w, const char *id);
// Frees from the loop; no call afterwards.
void out_watch_close(struct out_watch *w);
