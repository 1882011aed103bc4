// SPDX-License-Identifier: Apache-2.0
// When the plan runs and on what: the bridge between the cluster model and the pure library
// (plan.h).
#pragma once

#include <stdbool.h>

struct cluster;

// Once per turn in which something changed, from the commit queue's collect. With `capacity_grew`
// every waiting job is looked at, else only those not tried since capacity last grew (a job that
// did not fit then does not fit now).
void scheduler_run(struct cluster *c, bool capacity_grew);
