// SPDX-License-Identifier: Apache-2.0
// Lock and records in the out folder. Room for the records is allocated before the command starts,
// so that a disk filled by the task cannot hide how it ended. The `stop` file exists because a
// signal can come too early: pid 1 of a container drops SIGTERM until it listens for it, a file
// stays.
#include "node-agent/init/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define RECORD_ROOM 512

// The agent makes these files with the claim, so that nothing here waits for a disk that is busy
// syncing before the command runs; they are made here when they are missing.
static int reserve(int dir_fd, const char *name)
{
    static const char blank[RECORD_ROOM];
    int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return -errno;
    if (lseek(fd, 0, SEEK_END) >= RECORD_ROOM)
        return fd;
    // Written, not fallocated: that works on every file system and the length is cut at the end.
    ssize_t n = pwrite(fd, blank, sizeof(blank), 0);
    if (n == (ssize_t)sizeof(blank))
        return fd;
    int r = n < 0 ? -errno : -ENOSPC;
    (void)close(fd);
    return r;
}

static int take_lock(struct record *r, int lock_fd)
{
    if (lock_fd < 0)
        lock_fd = openat(r->dir_fd, "init.lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    else if (fcntl(lock_fd, F_SETFD, FD_CLOEXEC) < 0)
        return -errno;
    if (lock_fd < 0)
        return -errno;
    r->lock_fd = lock_fd;
    while (flock(lock_fd, LOCK_EX) < 0)
        if (errno != EINTR)
            return -errno;
    return 0;
}

void record_pid(struct record *r)
{
    char text[24];
    int n = snprintf(text, sizeof(text), "%d\n", (int)getpid());
    ssize_t written = pwrite(r->lock_fd, text, (size_t)n, 0); // what follows are NULs
    (void)written;
}

int record_open(struct record *r, const char *out, int lock_fd, const char **ret_what)
{
    *r = (struct record){.dir_fd = -1, .lock_fd = -1, .started_fd = -1, .exit_fd = -1};
    *ret_what = "open the out folder";
    r->dir_fd = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r->dir_fd < 0)
        return -errno;
    *ret_what = "lock init.lock";
    int err = take_lock(r, lock_fd);
    if (err < 0)
        return err;
    *ret_what = "start it again";
    if (faccessat(r->dir_fd, "started", F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
        faccessat(r->dir_fd, "exit", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return -EALREADY;
    *ret_what = "reserve room for the records";
    r->started_fd = reserve(r->dir_fd, "started.tmp");
    if (r->started_fd < 0)
        return r->started_fd;
    r->exit_fd = reserve(r->dir_fd, "exit.tmp");
    return r->exit_fd < 0 ? r->exit_fd : 0;
}

static int fill(int fd, const char *text, int len)
{
    if (pwrite(fd, text, (size_t)len, 0) != len || ftruncate(fd, len) < 0)
        return errno ? -errno : -EIO;
    return 0;
}

int record_started(struct record *r, pid_t pid, int64_t start_ms)
{
    char text[64];
    int n = snprintf(text, sizeof(text), "%d %" PRId64 "\n", (int)pid, start_ms);
    int err = fill(r->started_fd, text, n);
    (void)close(r->started_fd);
    r->started_fd = -1;
    if (err < 0)
        return err;
    return renameat(r->dir_fd, "started.tmp", r->dir_fd, "started") < 0 ? -errno : 0;
}

int record_exit(struct record *r, const struct exit_info *info)
{
    char text[RECORD_ROOM];
    int n = snprintf(text, sizeof(text), "%d %d %s %" PRId64 " %" PRId64 " %.300s", info->code,
                     info->signal, info->cause, info->start_ms, info->end_ms, info->text);
    for (int i = 0; i < n; i++)
        if (text[i] == '\n' || text[i] == '\r')
            text[i] = ' ';
    text[n++] = '\n';
    if (info->logs_lost) // a line of its own, which older agents don't read
        n += snprintf(text + n, sizeof(text) - (size_t)n, "%s\n", RECORD_LOGS_LOST);
    int err = fill(r->exit_fd, text, n);
    if (err < 0)
        return err;
    if (r->started_fd >= 0)
        (void)unlinkat(r->dir_fd, "started.tmp", 0);
    // Visible first, durable next: syncing matters only to a crash of the machine, and who waits
    // for the end need not wait for that. A crash in between leaves a damaged record, which is read
    // as "nobody saw how".
    if (renameat(r->dir_fd, "exit.tmp", r->dir_fd, "exit") < 0 || fsync(r->exit_fd) < 0 ||
        fsync(r->dir_fd) < 0)
        return -errno;
    return 0;
}

// Not synced: after a crash of the machine there is nobody left whose health it would be.
void record_health(const struct record *r, const char *word)
{
    int fd = openat(r->dir_fd, "health.tmp", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                    0644);
    if (fd < 0)
        return;
    bool whole = dprintf(fd, "%s\n", word) > (int)strlen(word);
    if (close(fd) == 0 && whole)
        (void)renameat(r->dir_fd, "health.tmp", r->dir_fd, "health");
}

bool record_stop_wanted(const struct record *r, int64_t *ret_grace_ms)
{
    char text[32] = "";
    int fd = openat(r->dir_fd, "stop", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    *ret_grace_ms = -1;
    if (fd < 0)
        return false;
    if (read(fd, text, sizeof(text) - 1) > 0 && text[0] >= '0' && text[0] <= '9')
        *ret_grace_ms = strtoll(text, NULL, 10);
    (void)close(fd);
    return true;
}

void record_note(const struct record *r, const char *text)
{
    struct timespec now;
    int fd =
        openat(r->dir_fd, "init.log", O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)dprintf(fd, "%lld.%03ld meadow-init: %s\n", (long long)now.tv_sec, now.tv_nsec / 1000000,
                  text);
    (void)close(fd);
}
