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
#include <sys/stat.h>
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

#define ROOT "/sys/fs/cgroup"

// The path behind "0::" of our own cgroup.
static bool own_path(char *out, size_t size)
{
    char text[4096];
    int fd = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    if (fd >= 0)
        (void)close(fd);
    text[n > 0 ? n : 0] = '\0';
    char *at = strncmp(text, "0::/", 4) == 0 ? text + 3 : strstr(text, "\n0::/");
    if (!at)
        return false;
    at += at == text + 3 ? 0 : 4;
    at[strcspn(at, "\n")] = '\0';
    return snprintf(out, size, ROOT "%s", at) < (int)size;
}

static bool make_own(const char *base, const char *leaf, char *out, size_t size)
{
    return snprintf(out, size, "%s/%s", base, leaf) < (int)size &&
           (mkdir(out, 0755) == 0 || errno == EEXIST);
}

void cgroup_own(struct init_args *a)
{
    static char command[512];
    char base[400], own[512];
    if (!a->delegated || a->n_cgroups == INIT_CGROUPS_MAX || !own_path(base, sizeof(base)) ||
        !make_own(base, "init", own, sizeof(own)) ||
        !make_own(base, "command", command, sizeof(command)))
        return;
    int fd = open_in(own, "cgroup.procs", O_WRONLY);
    if (fd >= 0 && write(fd, "0", 1) == 1)
        a->cgroups[a->n_cgroups++] = command;
    if (fd >= 0)
        (void)close(fd);
    fd = open_in(base, "cgroup.subtree_control", O_WRONLY);
    if (fd >= 0)
        (void)!write(fd, "+memory", 7); // for its count of kills
    if (fd >= 0)
        (void)close(fd);
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

static bool counts_kills(int fd)
{
    char text[1024];
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    if (fd >= 0)
        (void)close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *at = strstr(text, "oom_kill ");
    return at && at[9] != '0';
}

// As pid 1 of a container what stands at the root is our own (cgroup namespace, or v1 as engines
// mount it); the engine's own word comes late, and under load not at all.
bool cgroup_command_had_oom(const struct init_args *a)
{
    if (a->n_cgroups)
        return counts_kills(open_in(a->cgroups[0], "memory.events", O_RDONLY));
    return getpid() == 1 && (counts_kills(open_in(ROOT, "memory.events", O_RDONLY)) ||
                             counts_kills(open_in(ROOT, "memory/memory.oom_control", O_RDONLY)));
}
