// SPDX-License-Identifier: Apache-2.0
// Durable replacement of files, folders and locks. A file is written beside its target, synced and
// renamed; the folder is synced too, else a crash may bring the old name back.
#include "common/atomic_file.h"

#include "common/cleanup.h"
#include "common/id.h"

#include <dirent.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

int write_all(int fd, const void *data, size_t len)
{
    const char *at = data;
    while (len > 0) {
        ssize_t n = write(fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

static int sync_folder_of(const char *path)
{
    char copy[PATH_MAX];
    (void)snprintf(copy, sizeof(copy), "%s", path);
    cleanup_close int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0)
        return -errno;
    return 0;
}

int atomic_file_write(const char *path, const void *data, size_t len, mode_t mode, struct err *e)
{
    char temp[PATH_MAX];
    char suffix[9];
    int r = id_random(suffix, 8);
    if (r < 0)
        return err_errno(e, r, "%s", path);
    if (snprintf(temp, sizeof(temp), "%s.%s.tmp", path, suffix) >= (int)sizeof(temp))
        return err_errno(e, -ENAMETOOLONG, "%s", path);
    cleanup_close int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return err_errno(e, -errno, "%s", temp);
    r = write_all(fd, data, len);
    if (r == 0 && (fchmod(fd, mode) < 0 || fsync(fd) < 0 || rename(temp, path) < 0))
        r = -errno;
    if (r < 0) {
        (void)unlink(temp);
        return err_errno(e, r, "%s", path);
    }
    r = sync_folder_of(path);
    return r < 0 ? err_errno(e, r, "folder of %s", path) : 0;
}

int file_set_aside(const char *path, struct err *e)
{
    char to[PATH_MAX];
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    long long ms = (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    do {
        int n = snprintf(to, sizeof(to), "%s.%lld.damaged", path, ms++);
        if (n < 0 || (size_t)n >= sizeof(to))
            return err_errno(e, -ENAMETOOLONG, "%s", path);
    } while (access(to, F_OK) == 0);
    if (rename(path, to) < 0)
        return err_errno(e, -errno, "rename %s", path);
    int r = sync_folder_of(path);
    return r < 0 ? err_errno(e, r, "folder of %s", path) : err_set(e, 0, "%s", to);
}

// Reads to the end or until the buffer is full.
static int read_some(int fd, char *data, size_t size, size_t *len)
{
    while (*len < size) {
        ssize_t n = read(fd, data + *len, size - *len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        *len += (size_t)n;
    }
    return 0;
}

// One byte more than the limit is asked for, to tell a file at the limit from a larger one. *data
// is the caller's to free, also on failure.
static int read_all(int fd, size_t expected, size_t limit, char **data, size_t *len)
{
    size_t size = (expected < limit ? expected : limit) + 1;
    for (;;) {
        char *more = realloc(*data, size + 1);
        if (!more)
            return -ENOMEM;
        *data = more;
        int r = read_some(fd, *data, size, len);
        if (r < 0)
            return r;
        if (*len > limit)
            return -EFBIG;
        if (*len < size)
            break;
        size = size < limit / 2 ? size * 2 + 4096 : limit + 1;
    }
    (*data)[*len] = '\0';
    return 0;
}

int atomic_file_read(const char *path, size_t limit, char **ret_data, size_t *ret_len,
                     struct err *e)
{
    struct stat st;
    size_t len = 0;
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(e, -errno, "%s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(e, -EINVAL, "%s: not a regular file", path);
    char *data = NULL;
    int r = read_all(fd, (size_t)st.st_size, limit, &data, &len);
    if (r < 0)
        free(data);
    if (r == -EFBIG)
        return err_set(e, r, "%s: larger than %zu bytes", path, limit);
    if (r < 0)
        return err_errno(e, r, "%s", path);
    *ret_data = data;
    if (ret_len)
        *ret_len = len;
    return 0;
}

int make_dirs(const char *path, mode_t mode, struct err *e)
{
    char part[PATH_MAX];
    struct stat st;
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof(part))
        return err_errno(e, -ENAMETOOLONG, "%s", path);
    for (size_t i = 1; i <= len; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, mode) < 0 && errno != EEXIST)
            return err_errno(e, -errno, "%s", part);
    }
    if (stat(path, &st) < 0)
        return err_errno(e, -errno, "%s", path);
    return S_ISDIR(st.st_mode) ? 0 : err_errno(e, -ENOTDIR, "%s", path);
}

// --- removing trees ---

// Each level of the walk holds a descriptor. A tree made to be deeper than this (tasks write
// theirs) is flattened: the folder that is too deep moves up to the top one and is removed from
// there.
#define WALK_DEPTH_MAX 64

struct walk {
    int top; // the folder that is removed
    dev_t dev;
    bool moved;
};

static int remove_at(struct walk *w, int dir, const char *name, int depth);

// Takes fd.
static int remove_entries(struct walk *w, int fd, int depth)
{
    int r = 0;
    DIR *d = fdopendir(fd);
    if (!d) {
        r = -errno;
        (void)close(fd);
        return r;
    }
    const struct dirent *x;
    while (r == 0 && (x = readdir(d)))
        if (strcmp(x->d_name, ".") != 0 && strcmp(x->d_name, "..") != 0)
            r = remove_at(w, dirfd(d), x->d_name, depth);
    (void)closedir(d);
    return r;
}

static int move_up(struct walk *w, int dir, const char *name)
{
    char flat[17];
    int r = id_random(flat, 16);
    if (r < 0)
        return r;
    if (renameat(dir, name, w->top, flat) < 0)
        return -errno;
    w->moved = true;
    return 0;
}

static int remove_at(struct walk *w, int dir, const char *name, int depth)
{
    struct stat st;
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 0;
    int unlink_errno = errno;
    if (unlink_errno != EISDIR && unlink_errno != EPERM)
        return -unlink_errno;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (!S_ISDIR(st.st_mode))
        return -unlink_errno;
    if (st.st_dev != w->dev)
        return -EXDEV;
    if (depth >= WALK_DEPTH_MAX)
        return move_up(w, dir, name);
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int r = remove_entries(w, fd, depth + 1);
    if (r == 0 && unlinkat(dir, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        r = -errno;
    return r;
}

static int remove_folder(const char *path)
{
    struct stat st;
    int r;
    cleanup_close int top = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (top < 0 || fstat(top, &st) < 0)
        return -errno;
    struct walk w = {.top = top, .dev = st.st_dev};
    do {
        w.moved = false;
        int fd = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = fd < 0 ? -errno : remove_entries(&w, fd, 1);
    } while (r == 0 && w.moved);
    return r == 0 && rmdir(path) < 0 && errno != ENOENT ? -errno : r;
}

int remove_tree(const char *path, struct err *e)
{
    if (unlink(path) == 0 || errno == ENOENT)
        return 0;
    int r = -errno;
    if (r == -EISDIR || r == -EPERM)
        r = remove_folder(path);
    return r < 0 && r != -ENOENT ? err_errno(e, r, "removing %s", path) : 0;
}

int lock_file(const char *path, int *ret_fd, struct err *e)
{
    cleanup_close int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_errno(e, -errno, "%s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return err_errno(e, -errno, "%s", path);
    *ret_fd = TAKE_FD(fd);
    return 0;
}
