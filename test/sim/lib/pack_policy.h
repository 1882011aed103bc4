// SPDX-License-Identifier: Apache-2.0
// What pack.c and pack_policy.c share.
#pragma once

#include "test/sim/lib/pack.h"

// What a policy found for a kind on a node, while what is free there is the same.
struct pack_seen {
    uint32_t version; // of the node; 0 = never looked at
    int8_t card;      // of a shared one; -1 = whole ones
    bool fits;
    double score; // less is better
};
