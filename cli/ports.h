// SPDX-License-Identifier: Apache-2.0
// Port ranges for the tasks of local nodes: disjoint between all local clusters of a machine.
#pragma once

#include "common/err.h"

struct port_claim {
    int first, count;
    int fd; // holds the claim as long as any process has it open; -1 = the range is not claimed
};

// A free range, the search beginning at a place that depends on `seed`. Outside of the kernel's own
// ports. -ENOSPC.
int ports_claim(const char *seed, int count, struct port_claim *ret, struct err *e) WARN_UNUSED;
// The claim of a range known from before; fd -1 when somebody else holds it (tasks that still run,
// for one).
void ports_claim_again(int first, int count, struct port_claim *ret);
