// SPDX-License-Identifier: Apache-2.0
// Refusals of a task by the policies of nodes.
#pragma once

#include "master/cluster/model.h"

// Node `n` refused the task. Whether another one of `nodes` (by id) may still take it: false when
// all that there are have refused it, or after ten refusals.
bool refusal_note(const struct node *nodes, struct task *t, const struct node *n);
