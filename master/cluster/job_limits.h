// SPDX-License-Identifier: Apache-2.0
// Jobs that must have started (`wait_limit`), or be over (`deadline`). What is counted from the
// submission goes by CLOCK_BOOTTIME, so that a wrong clock that is put right moves no promise; it
// is stored with the boot's id, and after a reboot the wall clock tells. A deadline that is a time
// of day goes by that. For each clock a heap by what is due next, and a timer for its top.
#pragma once

#include "master/cluster/model.h"

// When the job must be over, or have started, by the wall clock as it is now; 0 = no such limit.
int64_t job_deadline(const struct job *j);
int64_t job_start_by(const struct job *j);

void job_limits_init(struct cluster *c);
// The job is new, was loaded, or its state changed. Harmless for all others.
void job_limits_update(struct cluster *c, struct job *j);
int job_limits_start(struct cluster *c, struct err *e) WARN_UNUSED;
void job_limits_stop(struct cluster *c);
void job_limits_free(struct cluster *c);
// Ends what is due by that clock, as the timer does.
void job_limits_look(struct cluster *c, enum limit_clock w, int64_t now_ms);
// When the next one is due by CLOCK_BOOTTIME; INT64_MAX = none.
int64_t job_limits_due(const struct cluster *c);
// submitted_boot_ms, where something is counted from it; reading comes after the spec and
// submitted_ms.
void job_limits_to_record(const struct job *j, json_t *r);
void job_limits_from_record(struct job *j, const json_t *r);
