// SPDX-License-Identifier: Apache-2.0
// Who had how much of the cluster, lately. Integers only, so that every machine orders alike.
//
// What counts is the dominant share: of cpu, memory and cards, the one of which a user has the
// largest part of the cluster (Ghodsi et al., "Dominant Resource Fairness", NSDI 2011). Over time
// it is the share multiplied by how long it was held, and old use counts less: half after one half
// life. Instead of decaying everybody all the time, new use weighs more the later it is (Cormode et
// al., "Forward Decay", ICDE 2009): 64 steps per half life, and at each full one all are halved.
// What is held now counts as if it had been held for one half life, so that of two users with no
// past the one who holds less comes first.
#pragma once

#include "proto/job_spec.h"

#define SHARE_KINDS 3 // cpu, memory, gpu

struct share_usage {
    int64_t used[SHARE_KINDS]; // parts of PLAN_SHARE_ONE x ms x weight of the time
    int64_t at_ms;             // accounted up to here; real time
};

#define SHARE_HALF_LIFE_MIN INT64_C(60000)
#define SHARE_HALF_LIFE_MAX INT64_C(2073600000) // 24 days: larger ones overflow

// More than one has is not counted: a rank is within int64_t then, and a sum of two.
#define SHARE_USED_MAX (INT64_MAX / 4)

// Accounts what was held until now. Going back in time is no step. Splitting a stretch of time in
// two gives the same sum, to the last bit.
void share_advance(struct share_usage *u, const struct resources *held,
                   const struct resources *total, int64_t now_ms, int64_t half_life_ms);
// The dominant share, past and present; smaller comes first. u->at_ms must be now.
int64_t share_rank(const struct share_usage *u, const struct resources *held,
                   const struct resources *total, int64_t half_life_ms);
// As if all had been accounted with another half life.
void share_rescale(struct share_usage *u, int64_t old_half_life_ms, int64_t half_life_ms);
