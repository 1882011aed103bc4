// SPDX-License-Identifier: Apache-2.0
// Redis 7 keeps a base file and files of increments, named by a manifest of lines like "file
// appendonly.aof.3.incr.aof seq 3 type i"; the last increment is the one it appends to.
#include "master/store/redis_aof.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FOLDER "appendonlydir"
#define MANIFEST "appendonly.aof.manifest"
#define MANIFEST_LIMIT 65536
#define BLOCK 65536

// The name of the last increment; "" = none.
static int last_increment(const char *dir, char name[NAME_MAX + 1], struct err *e)
{
    char path[PATH_MAX], found[NAME_MAX + 1], type;
    cleanup_free char *text = NULL;
    size_t len;
    name[0] = '\0';
    (void)snprintf(path, sizeof(path), "%.4000s/" FOLDER "/" MANIFEST, dir);
    int r = atomic_file_read(path, MANIFEST_LIMIT, &text, &len, e);
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    for (const char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL)
        if (sscanf(line, "file %255s seq %*d type %c", found, &type) == 2 && type == 'i' &&
            !strchr(found, '/'))
            memcpy(name, found, sizeof(found));
    return 0;
}

// How long the file is without the zeros at its end.
static int length_without_zeros(int fd, off_t size, off_t *ret)
{
    char block[BLOCK];
    while (size > 0) {
        size_t n = size < BLOCK ? (size_t)size : BLOCK;
        ssize_t got = pread(fd, block, n, size - (off_t)n);
        if (got != (ssize_t)n)
            return got < 0 ? -errno : -EIO;
        while (n > 0 && block[n - 1] == '\0') {
            n--;
            size--;
        }
        if (n > 0)
            break;
    }
    *ret = size;
    return 0;
}

int redis_aof_cut_zeros(const char *dir, int64_t *ret_cut, struct err *e)
{
    char name[NAME_MAX + 1], path[PATH_MAX];
    struct stat st;
    off_t length = 0;
    *ret_cut = 0;
    int r = last_increment(dir, name, e);
    if (r < 0 || !name[0])
        return r;
    (void)snprintf(path, sizeof(path), "%.3800s/" FOLDER "/%s", dir, name);
    cleanup_close int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : err_errno(e, -errno, "%s", path);
    r = fstat(fd, &st) < 0 ? -errno : length_without_zeros(fd, st.st_size, &length);
    if (r == 0 && length < st.st_size && (ftruncate(fd, length) < 0 || fsync(fd) < 0))
        r = -errno;
    if (r < 0)
        return err_errno(e, r, "%s", path);
    *ret_cut = st.st_size - length;
    return 0;
}
