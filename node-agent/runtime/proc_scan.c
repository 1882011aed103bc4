// SPDX-License-Identifier: Apache-2.0
// Reads /proc. The whole environment of a process is looked through, as shells put theirs in
// another order.
#include "node-agent/runtime/proc_scan.h"

#include "common/cleanup.h"
#include "common/strbuf.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#define ENVIRON_MAX (4u << 20)
#define TREE_MAX 4096

static int open_proc(pid_t pid, const char *leaf)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, leaf);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static void read_all(int fd, struct strbuf *b)
{
    char piece[16384];
    ssize_t n;
    while (b->len < ENVIRON_MAX && (n = read(fd, piece, sizeof(piece))) > 0)
        strbuf_append(b, piece, (size_t)n);
}

// Whether the environment (variables ended by NUL) names an attempt.
static bool environment_owner(const struct strbuf *env, char id[ATTEMPT_ID_BYTES])
{
    const size_t prefix = sizeof(ATTEMPT_ENV "=") - 1;
    for (size_t at = 0; at < env->len; at += strlen(env->data + at) + 1) {
        const char *var = env->data + at;
        if (strncmp(var, ATTEMPT_ENV "=", prefix) != 0 || strlen(var + prefix) >= ATTEMPT_ID_BYTES)
            continue;
        (void)snprintf(id, ATTEMPT_ID_BYTES, "%s", var + prefix);
        return true;
    }
    return false;
}

static bool process_owner(pid_t pid, struct proc_owner *ret)
{
    cleanup_strbuf struct strbuf env = {0};
    cleanup_close int fd = open_proc(pid, "environ");
    if (fd < 0)
        return false;
    read_all(fd, &env);
    ret->pid = pid;
    return !env.failed && env.len > 0 && environment_owner(&env, ret->id);
}

int proc_owners(struct proc_owner **ret, size_t *ret_n)
{
    cleanup_strbuf struct strbuf found = {0};
    const struct dirent *entry;
    DIR *proc = opendir("/proc");
    if (!proc)
        return -errno;
    while ((entry = readdir(proc))) {
        struct proc_owner owner = {0};
        pid_t pid = (pid_t)atoi(entry->d_name);
        if (pid > 1 && pid != getpid() && process_owner(pid, &owner))
            strbuf_append(&found, &owner, sizeof(owner));
    }
    (void)closedir(proc);
    *ret_n = found.len / sizeof(struct proc_owner);
    *ret = (struct proc_owner *)(void *)strbuf_take(&found);
    return *ret ? 0 : -ENOMEM;
}

static bool add_usage(pid_t pid, int64_t *cpu_ticks, int64_t *pages)
{
    char text[1024];
    long long t[4], rss;
    cleanup_close int fd = open_proc(pid, "stat");
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    if (n <= 0)
        return false;
    text[n] = '\0';
    const char *after = strrchr(text, ')');
    if (!after ||
        sscanf(after,
               ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lld %lld %lld %lld %*d %*d %*d %*d "
               "%*u %*u %lld",
               &t[0], &t[1], &t[2], &t[3], &rss) != 5)
        return false;
    *cpu_ticks += t[0] + t[1] + t[2] + t[3]; // its children that were reaped count too
    *pages += rss;
    return true;
}

static size_t add_children(pid_t pid, pid_t *list, size_t n)
{
    char path[80], text[4096], *p, *end;
    const struct dirent *entry;
    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    while (tasks && (entry = readdir(tasks))) {
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof(path), "task/%.20s/children", entry->d_name);
        cleanup_close int fd = open_proc(pid, path);
        ssize_t got = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
        text[got > 0 ? got : 0] = '\0';
        for (p = text; n < TREE_MAX; p = end) {
            long child = strtol(p, &end, 10);
            if (end == p || *end != ' ')
                break;
            list[n++] = (pid_t)child;
        }
    }
    if (tasks)
        (void)closedir(tasks);
    return n;
}

void proc_tree_usage(pid_t pid, int64_t *ret_cpu_ms, int64_t *ret_memory)
{
    int64_t ticks = 0, pages = 0;
    cleanup_free pid_t *list = calloc(TREE_MAX, sizeof(*list));
    size_t n = 0;
    if (list)
        list[n++] = pid;
    for (size_t i = 0; i < n; i++) {
        (void)add_usage(list[i], &ticks, &pages);
        n = add_children(list[i], list, n);
    }
    *ret_cpu_ms = ticks * 1000 / sysconf(_SC_CLK_TCK);
    *ret_memory = pages * sysconf(_SC_PAGESIZE);
}

bool proc_owners_have(const struct proc_owner *owners, size_t n, const char *id)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(owners[i].id, id) == 0)
            return true;
    return false;
}

pid_t proc_owner_find(const char *id)
{
    cleanup_free struct proc_owner *owners = NULL;
    size_t n = 0;
    if (proc_owners(&owners, &n) < 0)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (strcmp(owners[i].id, id) == 0)
            return owners[i].pid;
    return 0;
}
