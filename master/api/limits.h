// SPDX-License-Identifier: Apache-2.0
// How many requests a caller may make: by address before anything is looked up, by identity after.
// Agents (a certificate of a node that the cluster knows) and local callers are not counted.
#pragma once

#include "master/api/api.h"

struct limits;

struct limits_options {
    uint32_t address_rate, address_burst;   // requests a second of one address; rate 0 = any
    uint32_t identity_rate, identity_burst; // of one user, over all tokens and keys
};
struct limits_counts { // requests answered 429, since the start
    uint64_t by_address, by_identity;
};

// *ret is owned by the caller: limits_free. -ENOMEM.
int limits_new(const struct limits_options *o, struct limits **ret) WARN_UNUSED;
void limits_free(struct limits *l); // NULL allowed
// False when the call was answered with 429. NULL for l: always true.
bool limits_admit_address(struct limits *l, struct call *call) WARN_UNUSED;
// After the caller is known (call->who).
bool limits_admit_identity(struct limits *l, struct call *call) WARN_UNUSED;
// The front refused an address ("connections", "handshakes"): a line in the log, one a minute.
void limits_offence(struct limits *l, const char *address, const char *what);
struct limits_counts limits_counts(const struct limits *l);
