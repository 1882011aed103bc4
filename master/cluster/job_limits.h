// SPDX-License-Identifier: Apache-2.0
// Jobs that must have started (`wait_limit`), or be over (`deadline`), by some time of the wall
// clock. A heap by the next of these times, and one timer, for its top. Nothing is stored: the
// times follow from the spec and the submission.
#pragma once

#include "master/cluster/model.h"

// When the job must be over, or have started; 0 = no such limit.
int64_t job_deadline(const struct job *j);
int64_t job_start_by(const struct job *j);

// The job is new, was loaded, or its state changed. Harmless for all others.
void job_limits_update(struct cluster *c, struct job *j);
int job_limits_start(struct cluster *c, struct err *e) WARN_UNUSED;
void job_limits_stop(struct cluster *c);
void job_limits_free(struct cluster *c);
// Ends what is due, as the timer does.
void job_limits_look(struct cluster *c, int64_t now_ms);
