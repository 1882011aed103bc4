// SPDX-License-Identifier: Apache-2.0
// What this cluster's settings ask of a job file, beyond its form.
#pragma once

#include "master/api/api.h"

// 0, or -EINVAL when the problems were answered.
int job_checks(struct call *call, const struct job_spec *spec) WARN_UNUSED;
json_t *job_problems_json(const struct job_problems *p);
