// SPDX-License-Identifier: Apache-2.0
// A quota as JSON: {"cpu": "8", "memory": "16384m", "gpu": 2, "jobs": 5}; null or left out = no
// limit.
#pragma once

#include "common/err.h"
#include "master/scheduler/queue.h"
#include <jansson.h>

json_t *quota_to_json(const struct plan_quota *q); // NULL = out of memory
// NULL or null: no limits. -EINVAL with text naming the member.
int quota_from_json(const json_t *j, struct plan_quota *ret, struct err *e) WARN_UNUSED;
