// SPDX-License-Identifier: Apache-2.0
// cgroup.procs and cgroup.kill. We ourselves stay outside, so that the memory limit and a freezer
// never hit us.
#include "node-agent/init/cgroup.h"

#include "node-agent/init/pids.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int open_in(const char *dir, const char *leaf, int flags)
{
    char path[512];
    int n = snprintf(path, sizeof(path), "%s/%s", dir, leaf);
    if (n < 0 || (size_t)n >= sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(path, flags | O_CLOEXEC);
}

int cgroup_open(struct init_args *a)
{
    for (size_t i = 0; i < a->n_cgroups; i++) {
        a->cgroup_fds[i] = open_in(a->cgroups[i], "cgroup.procs", O_WRONLY);
        if (a->cgroup_fds[i] < 0)
            return -1;
        a->freezer_fds[i] = open_in(a->cgroups[i], "cgroup.freeze", O_WRONLY);
        if (a->freezer_fds[i] < 0)
            a->freezer_fds[i] = open_in(a->cgroups[i], "freezer.state", O_WRONLY);
    }
    return 0;
}

int cgroup_enter(const struct init_args *a)
{
    for (size_t i = 0; i < a->n_cgroups; i++) {
        ssize_t n = write(a->cgroup_fds[i], "0", 1);
        // Allowed to make the group but not to fill it (a delegated tree can be so): runs without
        // limits.
        if (n != 1 && errno != EACCES && errno != EPERM)
            return -1;
    }
    return 0;
}

static void kill_each(const char *dir)
{
    char text[4096];
    const char *p = text;
    // A list longer than this is ended over several rounds: each death brings the next one.
    pids_read(open_in(dir, "cgroup.procs", O_RDONLY), text, sizeof(text));
    for (pid_t pid; (pid = pids_next(&p)) > 0;)
        (void)kill(pid, SIGKILL);
}

void cgroup_kill(const struct init_args *a)
{
    if (a->n_cgroups == 0)
        return;
    int fd = open_in(a->cgroups[0], "cgroup.kill", O_WRONLY);
    bool done = fd >= 0 && write(fd, "1", 1) == 1;
    if (fd >= 0)
        (void)close(fd);
    if (!done)
        kill_each(a->cgroups[0]);
}

// One write serves both kinds: each takes its own word and refuses the other's.
static bool put(int fd, const char *v2, const char *v1)
{
    return fd >= 0 && (pwrite(fd, v2, strlen(v2), 0) > 0 || pwrite(fd, v1, strlen(v1), 0) > 0);
}

// The command runs outside when the group was not ours to fill.
static bool has_members(const char *dir)
{
    char text[64];
    pids_read(open_in(dir, "cgroup.procs", O_RDONLY), text, sizeof(text));
    return text[0] != '\0';
}

bool cgroup_freeze(const struct init_args *a, bool freeze)
{
    for (size_t i = 0; i < a->n_cgroups; i++)
        if ((!freeze || has_members(a->cgroups[i])) &&
            put(a->freezer_fds[i], freeze ? "1" : "0", freeze ? "FROZEN" : "THAWED"))
            return true;
    return false;
}

bool cgroup_frozen(const struct init_args *a)
{
    char text[256];
    for (size_t i = 0; i < a->n_cgroups; i++) {
        pids_read(open_in(a->cgroups[i], "freezer.state", O_RDONLY), text, sizeof(text));
        if (strncmp(text, "FROZEN", 6) == 0)
            return true;
        pids_read(open_in(a->cgroups[i], "cgroup.events", O_RDONLY), text, sizeof(text));
        if (strstr(text, "frozen 1"))
            return true;
    }
    return false;
}
