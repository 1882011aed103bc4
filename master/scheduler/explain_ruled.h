// SPDX-License-Identifier: Apache-2.0
// Why a job with rules waits.
#pragma once

#include "master/scheduler/explain_lack.h"
#include "master/scheduler/scope.h"

// Of a scope that is stuck: the summary, and the reason of each node (ret->reasons is there).
void explain_ruled(const struct scope *s, struct plan_explanation *ret, struct tally *tally);
