// SPDX-License-Identifier: Apache-2.0
// Rotation of a file that is already open: its name comes from /proc (proc(5), /proc/pid/fd).
#include "common/log_file.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

int64_t log_file_room(int fd)
{
    struct stat st;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || !(flags & O_APPEND) || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return INT64_MAX;
    return LOG_FILE_BYTES - st.st_size;
}

static int aside(const char *path)
{
    char old[PATH_MAX + 2];
    (void)snprintf(old, sizeof(old), "%s.1", path);
    return rename(path, old) < 0 ? -errno : 0;
}

int log_file_turn(int fd)
{
    char link[64], path[PATH_MAX];
    struct stat open_one, named, out;
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    if (n < 0)
        return -errno;
    path[n] = '\0';
    if (fstat(fd, &open_one) < 0 || stat(path, &named) < 0)
        return -errno;
    if (!same_file(&open_one, &named)) // it was moved by somebody else
        return -ESTALE;
    bool both = fstat(STDOUT_FILENO, &out) == 0 && same_file(&out, &open_one);
    int r = aside(path);
    if (r < 0)
        return r;
    cleanup_close int fresh =
        open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, open_one.st_mode & 0777);
    if (fresh < 0 || dup2(fresh, fd) < 0)
        return -errno;
    if (both)
        (void)dup2(fresh, STDOUT_FILENO);
    return 0;
}

void log_file_bound(const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= LOG_FILE_BYTES)
        (void)!aside(path);
}
