// SPDX-License-Identifier: Apache-2.0
// Jobs that keep off others by name (`anti_affinity: [job:NAME]`), so that those keep off them,
// too.
#pragma once

#include "master/cluster/model.h"

#include <uthash.h>

struct keeper { // a component of a job, in the list of those that keep off one name
    struct job *job;
    int component;
    struct kept_off *of;
    struct keeper *prev, *next;
    struct keeper *next_of_job;
};

struct kept_off { // a name of one user's jobs
    char *key;
    struct keeper *keepers; // at least one
    UT_hash_handle hh;
};

// Notes whom the job's tasks keep off; those that wait are to be queued anew. Repeating is
// harmless; for a job that is over, it is as keepers_withdraw. -ENOMEM: nothing is noted.
int keepers_announce(struct cluster *c, struct job *j) WARN_UNUSED;
void keepers_withdraw(struct cluster *c, struct job *j);
void keepers_free(struct kept_off *all);
// Those that keep off the job, through `next`; NULL = none. Some may be over: they hold nothing.
const struct keeper *keepers_of(struct cluster *c, const struct job *j);
