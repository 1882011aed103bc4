// SPDX-License-Identifier: Apache-2.0
// Administrators by the unix socket: the kernel says who calls.
#pragma once

#include "master/api/api.h"

// Whether the OS user is root, the master's own user, or a member of the socket's group (asked from
// the system's user database; the answer is kept for 5 s). Fills the name: that of the OS user, or
// "uid-1234".
bool local_user_allowed(gid_t group, uid_t uid, gid_t gid, char ret_name[NAME_BYTES]);
