// SPDX-License-Identifier: Apache-2.0
// People: who there is, what each may do, and whom a task of theirs is on the machine. Records of
// the cluster model (`user:<name>`); a token or key is worth no more than its user.
#pragma once

#include "master/cluster/model.h"
#include "master/scheduler/queue.h"

// Ordered: a role may do what the lower ones may. NODE stands apart (client certificate).
enum role { ROLE_OPEN, ROLE_VIEWER, ROLE_USER, ROLE_OPERATOR, ROLE_ADMIN, ROLE_NODE, ROLE_MAX };
const char *role_to_string(enum role r);
int role_from_string(const char *text, enum role *ret) WARN_UNUSED; // viewer, user, operator, admin

// Rights of their own, given by default to the role user and above; they can be taken away. A
// viewer never has one, whatever the record says.
enum user_right { RIGHT_EXEC = 1, RIGHT_DATA_WRITE = 2 };
#define RIGHTS_ALL (RIGHT_EXEC | RIGHT_DATA_WRITE)
const char *right_to_string(enum user_right r); // "exec", "data-write"
// Array of names <-> bits. -EINVAL with text naming the member that is none.
json_t *rights_to_json(unsigned rights); // NULL = out of memory
int rights_from_json(const json_t *list, unsigned *ret, struct err *e) WARN_UNUSED;

struct user {
    char name[NAME_BYTES];
    enum role role;
    unsigned rights;       // as recorded; what counts is user_rights()
    int64_t uid, gid;      // whose tasks run on the nodes; -1 = not mapped
    char team[NAME_BYTES]; // "" = none
    int64_t weight;        // of the share of the cluster, 1 to USER_WEIGHT_MAX
    struct plan_quota quota;
    bool disabled; // nothing of his is accepted; his tokens are gone
    int64_t created_ms;
    bool adopted; // not stored: made in this start for tokens that had no user
    UT_hash_handle hh;
};

#define USER_WEIGHT_MAX 1000000

// What the user may do beyond the role: none for viewers and disabled ones.
unsigned user_rights(const struct user *u);
// 1 to 63 characters of A-Z a-z 0-9 . _ @ -, the first a letter, digit or '_'. ASCII only, so that
// no two names look alike.
bool user_name_ok(const char *name);
// A record with the defaults of the role: all rights from user on, no mapping, no team, created
// now. `name` must be user_name_ok.
void user_init(struct user *u, const char *name, enum role role);

// NULL = unknown or removed. Weak: valid until the loop's next turn.
const struct user *cluster_user_find(const struct cluster *c, const char *name);
const struct user *cluster_users(const struct cluster *c); // uthash head (hh)
unsigned cluster_user_count(const struct cluster *c);
// Adds, or replaces the record of that name; copies. -EINVAL: bad name; -ENOSPC: too many; -ENOMEM.
// Tokens and keys are the caller's matter (api/users.c).
int cluster_user_put(struct cluster *c, const struct user *u, struct err *e) WARN_UNUSED;
int cluster_user_remove(struct cluster *c, const char *name) WARN_UNUSED; // -ENOENT

json_t *user_view(const struct user *u); // as docs/api.md; NULL = out of memory
