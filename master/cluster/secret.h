// SPDX-License-Identifier: Apache-2.0
// Secrets of users, by name. In memory as in the store they are sealed; a value is opened only for
// the assignment of the node that runs an attempt with it.
#pragma once

#include "master/cluster/model.h"
#include "proto/attempt_secret.h"

struct secret {
    char *ref; // "<user>/<name>"
    char user[NAME_BYTES], name[NAME_BYTES];
    char *sealed;
    int64_t version; // counts changes
    int64_t created_ms, changed_ms;
    UT_hash_handle hh; // by ref
};

// Makes or opens FOLDER/secrets.key; before the records are loaded.
int cluster_secrets_open(struct cluster *c, const char *folder, struct err *e) WARN_UNUSED;

const struct secret *cluster_secrets(const struct cluster *c); // uthash head (hh)
// NULL = the user has none of that name. Borrowed until the next change.
const struct secret *cluster_secret_find(const struct cluster *c, const char *user,
                                         const char *name);
// Adds or replaces; copies. -EINVAL: bad name; -EFBIG: over SECRET_MAX_BYTES; -ENOSPC: the user has
// too many; -ENOTSUP: no key was opened.
int cluster_secret_put(struct cluster *c, const char *user, const char *name, const char *value,
                       size_t len, struct err *e) WARN_UNUSED;
int cluster_secret_remove(struct cluster *c, const char *user,
                          const char *name) WARN_UNUSED; // -ENOENT
// The first secret of the job's that its user does not have; NULL = all are there.
const char *cluster_secret_missing(const struct cluster *c, const struct job_spec *spec,
                                   const char *user);

json_t *secret_view(const struct secret *s); // without any value; NULL = out of memory
