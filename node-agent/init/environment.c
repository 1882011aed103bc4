// SPDX-License-Identifier: Apache-2.0
// The texts stay where they were mapped; the list of them is a mapping too.
#include "node-agent/init/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

static void *room(size_t size)
{
    return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static int take(int fd)
{
    struct stat st;
    size_t n = 0;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || st.st_size <= 0)
        return -EINVAL;
    size_t size = (size_t)st.st_size;
    // Anonymous memory and not the file's pages: the file is the task's user's, who could cut it.
    char *text = room(size);
    if (text == MAP_FAILED)
        return -errno;
    if (pread(fd, text, size, 0) != (ssize_t)size || text[size - 1] != '\0')
        return -EINVAL;
    for (size_t i = 0; i < size; i++)
        n += text[i] == '\0';
    char **list = room((n + 1) * sizeof(*list));
    if (list == MAP_FAILED)
        return -errno;
    size_t k = 0;
    for (char *p = text; p < text + size; p += strlen(p) + 1)
        list[k++] = p;
    list[k] = NULL;
    environ = list;
    return 0;
}

int environment_read(const char *path)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int r = take(fd);
    (void)close(fd);
    if (r == 0)
        (void)unlink(path);
    return r;
}
