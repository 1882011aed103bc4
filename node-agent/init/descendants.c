// SPDX-License-Identifier: Apache-2.0
// Walks the tree by /proc/<pid>/task/<tid>/children where the kernel has it (cheap: only our own
// tree is looked at), else by one pass over all of /proc after the other, until a pass finds nobody
// new.
#include "node-agent/init/descendants.h"

#include "node-agent/init/pids.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOUND_MAX 4096 // more are ended in the next round, which a death of these brings

static pid_t found[FOUND_MAX];
static size_t n_found;

static bool is_found(pid_t pid)
{
    for (size_t i = 0; i < n_found; i++)
        if (found[i] == pid)
            return true;
    return false;
}

static bool add(pid_t pid)
{
    if (n_found == FOUND_MAX || is_found(pid))
        return false;
    found[n_found++] = pid;
    return true;
}

struct stat_line {
    char state;
    pid_t ppid;
};

static bool read_stat(const char *name, struct stat_line *ret)
{
    char path[64], text[256];
    (void)snprintf(path, sizeof(path), "/proc/%.20s/stat", name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *after = strrchr(text, ')'); // the name in brackets may hold anything
    return after && sscanf(after, ") %c %d", &ret->state, &ret->ppid) == 2;
}

static pid_t parent_of(const char *name)
{
    struct stat_line line;
    return read_stat(name, &line) ? line.ppid : -1;
}

// One pass; true when somebody new was found.
static bool pass(DIR *proc, pid_t self)
{
    const struct dirent *entry;
    bool more = false;
    rewinddir(proc);
    while ((entry = readdir(proc))) {
        pid_t pid = (pid_t)atoi(entry->d_name);
        if (pid <= 1 || pid == self)
            continue;
        pid_t ppid = parent_of(entry->d_name);
        if (ppid == self || (ppid > 1 && is_found(ppid)))
            more |= add(pid);
    }
    return more;
}

static void scan_all(pid_t self)
{
    DIR *proc = opendir("/proc");
    if (!proc)
        return;
    while (pass(proc, self))
        ;
    (void)closedir(proc);
}

// Adds the children of all threads of a process.
static void add_children(pid_t pid)
{
    char path[80], text[4096];
    const struct dirent *entry;
    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    while (tasks && (entry = readdir(tasks))) {
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof(path), "/proc/%d/task/%.20s/children", (int)pid, entry->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        pids_read(fd, text, sizeof(text));
        const char *p = text;
        for (pid_t child; (child = pids_next(&p)) > 0;)
            (void)add(child);
    }
    if (tasks)
        (void)closedir(tasks);
}

static void collect(void)
{
    pid_t self = getpid();
    n_found = 0;
    add_children(self);
    for (size_t i = 0; i < n_found; i++)
        add_children(found[i]);
    if (n_found == 0)
        scan_all(self);
}

void descendants_signal(int signo)
{
    collect();
    for (size_t i = 0; i < n_found; i++)
        (void)kill(found[i], signo);
}

// A process that waits for the disk (D) has the signal pending: it returns to no code of its own.
static bool may_run(const struct stat_line *line)
{
    return line->state == 'R' || line->state == 'S' || line->state == 'I';
}

// As pid 1: the kernel signals all at once, so nobody forks in between.
static bool stop_everybody(void)
{
    const struct dirent *entry;
    struct stat_line line;
    bool any = false;
    (void)kill(-1, SIGSTOP);
    DIR *proc = opendir("/proc");
    while (proc && (entry = readdir(proc)))
        if (atoi(entry->d_name) > 1 && read_stat(entry->d_name, &line))
            any |= may_run(&line);
    if (proc)
        (void)closedir(proc);
    return !any;
}

bool descendants_stop(void)
{
    char name[24];
    struct stat_line line;
    bool any = false;
    if (getpid() == 1)
        return stop_everybody();
    descendants_signal(SIGSTOP);
    collect(); // also who was forked before its parent stopped
    for (size_t i = 0; i < n_found; i++) {
        (void)snprintf(name, sizeof(name), "%d", (int)found[i]);
        if (read_stat(name, &line))
            any |= may_run(&line);
    }
    return !any && n_found < FOUND_MAX;
}
