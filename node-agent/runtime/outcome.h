// SPDX-License-Identifier: Apache-2.0
// From meadow-init's records to the status that is reported; the same for all drivers.
#pragma once

#include "node-agent/attempt_dir.h"

// RUNNING, with started_ms when it is known.
void outcome_running(const struct attempt_dirs *d, const char *id, struct attempt_status *ret);
// ENDED as the exit record says. -ENOENT: none yet; -EPROTO: there is one, damaged; *ret is filled
// only with 0.
int outcome_ended(const struct attempt_dirs *d, const char *id,
                  struct attempt_status *ret) WARN_UNUSED;
// ENDED without a record.
void outcome_failed(const struct attempt_dirs *d, const char *id, enum attempt_cause cause,
                    const char *reason, struct attempt_status *ret);
// Turns a kill by the kernel for memory into its cause; a survivor's exit keeps its cause and shows
// the flag.
void outcome_mark_oom(struct attempt_status *s);
// ENDED: nothing of it lives, and nobody wrote how it ended. `init_status` is meadow-init's for
// wait(2), -1 = not known.
void outcome_unseen(const struct attempt_dirs *d, const char *id, int init_status,
                    struct attempt_status *ret);
// Makes sure that it does not begin any more: a record with `cause` unless there is one. False: it
// lives, or did.
bool outcome_bar_start(const struct attempt_dirs *d, const char *id, enum attempt_cause cause,
                       const char *why) WARN_UNUSED;
// Writes the request to stop for meadow-init (proto/AGENT.md); grace_ms < 0 = the attempt's own.
void outcome_write_stop(const struct attempt_dirs *d, const char *id, int64_t grace_ms);
