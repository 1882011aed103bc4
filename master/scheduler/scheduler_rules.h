// SPDX-License-Identifier: Apache-2.0
// The rules of a job (plan.h) from its spec and from those of others, and where the tasks are that
// they speak of.
#pragma once

#include "master/cluster/model.h"
#include "master/scheduler/plan.h"

struct job_rules;

// The job's rules, made anew: not while it is queued. It has none: NULL. -ENOMEM.
int rules_make(struct cluster *c, struct job *j) WARN_UNUSED;
void rules_free(struct job *j);
const struct plan_rules *rules_of(const struct job *j); // NULL = none

// Where tasks of the groups of the job's rules are. *ret: valid until the next call. -ENOMEM.
int rules_peers(struct cluster *c, const struct job *j, const struct plan_peer **ret,
                size_t *ret_n) WARN_UNUSED;
