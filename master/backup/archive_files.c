// SPDX-License-Identifier: Apache-2.0
// Small tools over files and programs. tar and redis-cli do what they are made for.
#include "master/backup/archive_files.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <fts.h>
#include <openssl/evp.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

extern char **environ;

int archive_run(const char *const *argv, struct err *e)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return err_set(e, -ENOMEM, "out of memory");
    int r = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (r == 0)
        r = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (r == 0)
        r = posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    if (r != 0)
        return err_set(e, -r, "%s can't be run: %s", argv[0], strerror(r));
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_errno(e, -errno, "wait for %s", argv[0]);
    if (WIFSIGNALED(status))
        return err_set(e, -EIO, "%s was ended by signal %d", argv[0], WTERMSIG(status));
    return WEXITSTATUS(status) == 0
               ? 0
               : err_set(e, -EIO, "%s failed with status %d", argv[0], WEXITSTATUS(status));
}

static int digest_fd(int fd, EVP_MD_CTX *md, int64_t *size)
{
    static char piece[1 << 16];
    ssize_t n;
    if (!md || EVP_DigestInit_ex(md, EVP_sha256(), NULL) != 1)
        return -ENOMEM;
    while ((n = read(fd, piece, sizeof(piece))) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (EVP_DigestUpdate(md, piece, (size_t)n) != 1)
            return -ENOMEM;
        *size += n;
    }
    return 0;
}

int archive_digest(const char *path, char ret_hex[65], int64_t *ret_size, struct err *e)
{
    unsigned char sum[EVP_MAX_MD_SIZE];
    cleanup_close int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, -errno, "open %s", path);
    *ret_size = 0;
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    int r = digest_fd(fd, md, ret_size);
    if (r == 0 && EVP_DigestFinal_ex(md, sum, NULL) != 1)
        r = -ENOMEM;
    EVP_MD_CTX_free(md);
    if (r < 0)
        return err_errno(e, r, "read %s", path);
    for (int i = 0; i < 32; i++)
        (void)snprintf(ret_hex + (size_t)i * 2, 3, "%02x", sum[i]);
    return 0;
}

int archive_walk(const char *dir, int (*fn)(const char *relative, void *userdata, struct err *e),
                 void *userdata, struct err *e)
{
    char *roots[] = {(char *)(uintptr_t)dir, NULL};
    size_t skip = strlen(dir) + 1;
    int r = 0;
    FTS *fts = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
    if (!fts)
        return err_errno(e, -errno, "open %s", dir);
    for (const FTSENT *f; r == 0 && (f = fts_read(fts));) {
        if (f->fts_info == FTS_ERR || f->fts_info == FTS_DNR || f->fts_info == FTS_NS)
            r = err_errno(e, -f->fts_errno, "read %s", f->fts_path);
        else if (f->fts_info == FTS_F)
            r = fn(f->fts_path + skip, userdata, e);
    }
    (void)fts_close(fts);
    return r;
}

int archive_sync(const char *path, struct err *e)
{
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0)
        return err_errno(e, -errno, "sync %s", path);
    return 0;
}
