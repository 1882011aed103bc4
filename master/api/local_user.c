// SPDX-License-Identifier: Apache-2.0
// Who may administrate through the unix socket. Looking a user up may ask a directory service, so
// answers are kept for a few seconds; a member who leaves the group is refused that much later.
#include "master/api/local_user.h"

#include "common/clock.h"

#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define KEEP_MS 5000
#define KNOWN_MAX 16
#define GROUPS_MAX 1024

struct known {
    bool used, allowed;
    uid_t uid;
    gid_t gid, group;
    int64_t until_boot_ms;
    char name[NAME_BYTES];
};

static struct known known[KNOWN_MAX];
static size_t next_place;

static bool member(const char *name, gid_t gid, gid_t group)
{
    gid_t groups[GROUPS_MAX];
    int n = GROUPS_MAX;
    if (gid == group)
        return true;
    if (getgrouplist(name, gid, groups, &n) < 0)
        n = GROUPS_MAX; // in more than fit: the first ones count
    for (int i = 0; i < n; i++)
        if (groups[i] == group)
            return true;
    return false;
}

static void look_up(struct known *k)
{
    const struct passwd *pw = getpwuid(k->uid);
    if (pw)
        (void)snprintf(k->name, sizeof(k->name), "%s", pw->pw_name);
    else
        (void)snprintf(k->name, sizeof(k->name), "uid-%u", (unsigned)k->uid);
    k->allowed = k->uid == 0 || k->uid == geteuid() ||
                 (k->group != (gid_t)-1 && pw && member(pw->pw_name, k->gid, k->group));
}

bool local_user_allowed(gid_t group, uid_t uid, gid_t gid, char ret_name[NAME_BYTES])
{
    int64_t now = clock_boot_ms();
    struct known *k = NULL;
    for (size_t i = 0; i < KNOWN_MAX && !k; i++)
        if (known[i].used && known[i].uid == uid && known[i].gid == gid && known[i].group == group)
            k = &known[i];
    if (!k) {
        k = &known[next_place++ % KNOWN_MAX];
        *k = (struct known){.used = true, .uid = uid, .gid = gid, .group = group};
    }
    if (now >= k->until_boot_ms) {
        look_up(k);
        k->until_boot_ms = now + KEEP_MS;
    }
    memcpy(ret_name, k->name, NAME_BYTES);
    return k->allowed;
}
