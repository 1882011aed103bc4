// SPDX-License-Identifier: Apache-2.0
// cgroupfs by hand. The position in `controllers` is the index of the folder in a v1 leaf; in v2
// all is in dirs[0].
#include "node-agent/runtime/cgroup.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#define ROOT "/sys/fs/cgroup"
#define PERIOD_US 100000
#define PARENT_DEFAULT "meadow"

enum { V1_MEMORY, V1_CPU, V1_PIDS, V1_FREEZER };
static const char *const controllers[CGROUP_DIRS] = {"memory", "cpu", "pids", "freezer"};

static bool is_v2(void)
{
    return access(ROOT "/cgroup.controllers", F_OK) == 0;
}

static int open_leaf(const char *dir, const char *file, int flags)
{
    char path[CGROUP_PATH + 64];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, file);
    return open(path, flags | O_CLOEXEC);
}

static bool put(const char *dir, const char *file, const char *text)
{
    cleanup_close int fd = open_leaf(dir, file, O_WRONLY);
    return fd >= 0 && write(fd, text, strlen(text)) >= 0;
}

static bool put_number(const char *dir, const char *file, int64_t value)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%" PRId64, value);
    return put(dir, file, text);
}

static bool get(const char *dir, const char *file, char *text, size_t size)
{
    cleanup_close int fd = open_leaf(dir, file, O_RDONLY);
    ssize_t n = fd >= 0 ? read(fd, text, size - 1) : -1;
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

// The number behind "key " in a file of such lines; key "" = the file is the number.
static int64_t get_number(const char *dir, const char *file, const char *key)
{
    char text[4096];
    if (!get(dir, file, text, sizeof(text)))
        return -1;
    for (const char *line = text; line && *line;
         line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, key, strlen(key)) == 0 && (!*key || line[strlen(key)] == ' '))
            return strtoll(line + strlen(key), NULL, 10);
    return -1;
}

static void path_of(const char *controller, const char *parent, const char *id,
                    char out[CGROUP_PATH])
{
    while (*parent == '/')
        parent++;
    (void)snprintf(out, CGROUP_PATH, ROOT "%s%s/%.120s%s%s", *controller ? "/" : "", controller,
                   *parent ? parent : PARENT_DEFAULT, *id ? "/" : "", id);
}

static bool make_path(const char *path)
{
    char part[CGROUP_PATH];
    for (const char *p = path + sizeof(ROOT); (p = strchr(p, '/')); p++) {
        (void)snprintf(part, sizeof(part), "%.*s", (int)(p - path), path);
        if (mkdir(part, 0755) < 0 && errno != EEXIST)
            return false;
        if (is_v2()) // controllers reach a folder only through all folders above it
            (void)put(part, "cgroup.subtree_control", "+cpu +memory +pids");
    }
    return mkdir(path, 0755) == 0 || errno == EEXIST;
}

static void limit_v1(const struct cgroup_leaf *leaf, const struct resources *r)
{
    if (r->memory > 0) {
        (void)put_number(leaf->dirs[V1_MEMORY], "memory.limit_in_bytes", r->memory);
        (void)put_number(leaf->dirs[V1_MEMORY], "memory.memsw.limit_in_bytes", r->memory);
    }
    if (r->cpu_milli > 0) {
        (void)put_number(leaf->dirs[V1_CPU], "cpu.cfs_period_us", PERIOD_US);
        (void)put_number(leaf->dirs[V1_CPU], "cpu.cfs_quota_us", r->cpu_milli * PERIOD_US / 1000);
    }
}

static void limit_v2(const char *dir, const struct resources *r)
{
    char text[64];
    if (r->memory > 0) {
        (void)put_number(dir, "memory.max", r->memory);
        (void)put(dir, "memory.swap.max", "0");
    }
    (void)snprintf(text, sizeof(text), "%" PRId64 " %d", r->cpu_milli * PERIOD_US / 1000,
                   PERIOD_US);
    if (r->cpu_milli > 0)
        (void)put(dir, "cpu.max", text);
}

static void fill_paths(const char *parent, const char *id, struct cgroup_leaf *ret)
{
    *ret = (struct cgroup_leaf){.v2 = is_v2()};
    ret->n = ret->v2 ? 1 : CGROUP_DIRS;
    for (size_t i = 0; i < ret->n; i++)
        path_of(ret->v2 ? "" : controllers[i], parent, id, ret->dirs[i]);
}

void cgroup_make(const char *parent, const char *id, const struct resources *limits,
                 struct cgroup_leaf *ret)
{
    *ret = (struct cgroup_leaf){0};
    if (limits->cpu_milli <= 0 && limits->memory <= 0)
        return;
    struct cgroup_leaf leaf;
    fill_paths(parent, id, &leaf);
    if (leaf.v2)
        (void)put(ROOT, "cgroup.subtree_control", "+cpu +memory +pids");
    for (size_t i = 0; i < leaf.n; i++) {
        if (make_path(leaf.dirs[i]))
            continue;
        log_debug("runtime", "no control group %s: %s", leaf.dirs[i], strerror(errno));
        cgroup_remove(&leaf);
        return;
    }
    if (leaf.v2)
        limit_v2(leaf.dirs[0], limits);
    else
        limit_v1(&leaf, limits);
    *ret = leaf;
}

void cgroup_find(const char *parent, const char *id, struct cgroup_leaf *ret)
{
    fill_paths(parent, id, ret);
    if (access(ret->dirs[0], F_OK) < 0)
        ret->n = 0;
}

void cgroup_find_container(const char *parent, const char *container, struct cgroup_leaf *ret)
{
    char scope[128];
    (void)snprintf(scope, sizeof(scope), "docker-%.80s.scope",
                   container); // engines that leave it to systemd
    cgroup_find(*parent ? parent : "docker", container, ret);
    if (ret->n == 0)
        cgroup_find(*parent ? parent : "system.slice", scope, ret);
}

bool cgroup_had_oom(const struct cgroup_leaf *leaf)
{
    if (leaf->n == 0)
        return false;
    return get_number(leaf->dirs[0], leaf->v2 ? "memory.events" : "memory.oom_control",
                      "oom_kill") > 0;
}

bool cgroup_usage(const struct cgroup_leaf *leaf, int64_t *ret_cpu_ms, int64_t *ret_memory)
{
    if (leaf->n == 0)
        return false;
    int64_t memory =
        get_number(leaf->dirs[0], leaf->v2 ? "memory.current" : "memory.usage_in_bytes", "");
    int64_t cpu = leaf->v2 ? get_number(leaf->dirs[0], "cpu.stat", "usage_usec")
                           : get_number(leaf->dirs[V1_CPU], "cpuacct.usage", "") / 1000;
    if (memory < 0 || cpu < 0)
        return false;
    *ret_memory = memory;
    *ret_cpu_ms = cpu / 1000;
    return true;
}

void cgroup_kill_all(const struct cgroup_leaf *leaf)
{
    char text[65536], *end;
    if (leaf->n == 0 || (leaf->v2 && put(leaf->dirs[0], "cgroup.kill", "1")))
        return;
    (void)get(leaf->dirs[0], "cgroup.procs", text, sizeof(text));
    for (char *p = text; *p; p = end) {
        long pid = strtol(p, &end, 10);
        if (end == p)
            break;
        if (*end == '\n' && pid > 1)
            (void)kill((pid_t)pid, SIGKILL);
    }
}

void cgroup_remove(struct cgroup_leaf *leaf)
{
    for (size_t i = 0; i < leaf->n; i++)
        (void)rmdir(leaf->dirs[i]);
    leaf->n = 0;
}

void cgroup_find_unit(const char *id, struct cgroup_leaf *ret)
{
    *ret = (struct cgroup_leaf){.v2 = true};
    (void)snprintf(ret->dirs[0], sizeof(ret->dirs[0]),
                   ROOT "/system.slice/meadow-attempt-%.40s.service", id);
    ret->n = is_v2() && access(ret->dirs[0], F_OK) == 0;
}
