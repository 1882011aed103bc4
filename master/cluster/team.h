// SPDX-License-Identifier: Apache-2.0
// What users have in common as a team: weight of its share, quota. A record (`team:<name>`) is
// there only when something was set; a team is whoever names it.
#pragma once

#include "master/cluster/model.h"
#include "master/scheduler/queue.h"

struct team {
    char name[NAME_BYTES];
    int64_t weight; // 1 to USER_WEIGHT_MAX
    struct plan_quota quota;
    UT_hash_handle hh;
};

// The record, or what holds without one. False: neither a record nor a user names it.
bool cluster_team_find(const struct cluster *c, const char *name, struct team *ret);
// Calls for each team there is, in no order.
void cluster_teams(const struct cluster *c, void (*each)(const struct team *t, void *userdata),
                   void *userdata);
// Sets the record. -EINVAL: name or weight; -ENOSPC, -ENOMEM.
int cluster_team_put(struct cluster *c, const struct team *t, struct err *e) WARN_UNUSED;
// Back to weight 1 and no quota; its users stay. -ENOENT: it has no record.
int cluster_team_remove(struct cluster *c, const char *name) WARN_UNUSED;
// {name, weight, quota, users}; NULL = out of memory.
json_t *team_view(const struct cluster *c, const struct team *t);
