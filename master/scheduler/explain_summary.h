// SPDX-License-Identifier: Apache-2.0
// The one sentence of an explanation.
#pragma once

#include "master/scheduler/explain_lack.h"

// Of a task that fits on none of the nodes, were it alone.
void summary_of_task(const struct plan_node *nodes, size_t n, const struct plan_demand *d,
                     char *out, size_t size);
// Of a job whose tasks each fit, but not all together: `next` is the first that found no place
// after `fitted` others had theirs; `before` is as if none had, `after` has the nodes then.
void summary_of_gang(const struct plan_index *before, const struct plan_node *after,
                     const struct plan_job *job, const struct plan_demand *next, size_t fitted,
                     char *out, size_t size);
