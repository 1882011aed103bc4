// SPDX-License-Identifier: Apache-2.0
// The order matters: groups and the bounding set need the rights that the change of user takes
// away.
#include "node-agent/init/rights.h"

#include <errno.h>
#include <grp.h>
#include <sys/prctl.h>
#include <unistd.h>

#define CAPABILITIES 64 // numbers asked for; those that the kernel doesn't know are refused by it

static int drop_bounding(uint64_t keep)
{
    for (unsigned long i = 0; i < CAPABILITIES; i++)
        if (!(keep & (UINT64_C(1) << i)) && prctl(PR_CAPBSET_READ, i, 0, 0, 0) == 1 &&
            prctl(PR_CAPBSET_DROP, i, 0, 0, 0) < 0)
            return -errno;
    return 0;
}

int rights_drop(const struct init_args *a, const char **ret_what)
{
    *ret_what = "no new privileges";
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    if (a->uid < 0 || a->gid < 0)
        return 0;
    *ret_what = "leave the groups";
    if (setgroups(0, NULL) < 0)
        return -errno;
    *ret_what = "drop the capabilities";
    int r = drop_bounding(a->keep_capabilities);
    if (r < 0)
        return r;
    *ret_what = "become the task's user";
    gid_t gid = (gid_t)a->gid;
    uid_t uid = (uid_t)a->uid;
    return setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0 ? -errno : 0;
}
