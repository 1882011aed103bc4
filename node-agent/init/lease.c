// SPDX-License-Identifier: Apache-2.0
// Reads the lease file of an attempt. The agent replaces it by rename, so a reader sees an old or a
// new one, whole.
#include "node-agent/init/lease.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LEASE_BYTES 512

int lease_parse(const char *text, size_t len, struct lease *ret)
{
    char line[LEASE_BYTES];
    struct lease l = {0};
    int version, at = -1;
    if (len >= sizeof(line))
        len = sizeof(line) - 1;
    memcpy(line, text, len);
    line[len] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    if (sscanf(line, "meadow-lease %d %23s %39s %" SCNd64 "%n", &version, l.attempt, l.boot_id,
               &l.deadline_boot_ms, &at) != 4)
        return -EPROTO;
    // A field cut by its width would shift the next ones; the number must end where a field ends.
    if (version != 1 || l.deadline_boot_ms < 0 || at < 0 || (line[at] != '\0' && line[at] != ' '))
        return -EPROTO;
    if (line[at] && sscanf(line + at, "%" SCNd64, &l.lease_ms) == 1 && l.lease_ms < 0)
        l.lease_ms = 0;
    *ret = l;
    return 0;
}

int lease_enter(const char **lease)
{
    char above[512];
    const char *slash = *lease ? strrchr(*lease, '/') : NULL;
    if (!slash || slash == *lease)
        return 0;
    int n = snprintf(above, sizeof(above), "%.*s", (int)(slash - *lease), *lease);
    if (n < 0 || (size_t)n >= sizeof(above))
        return -ENAMETOOLONG;
    if (chdir(above) < 0)
        return -errno;
    *lease = slash + 1;
    return 0;
}

int lease_read(const char *dir, struct lease *ret)
{
    char path[512], text[LEASE_BYTES];
    int n = snprintf(path, sizeof(path), "%s/lease", dir);
    if (n < 0 || (size_t)n >= sizeof(path))
        return -ENAMETOOLONG;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    ssize_t got = read(fd, text, sizeof(text));
    int r = got < 0 ? -errno : lease_parse(text, (size_t)got, ret);
    (void)close(fd);
    return r;
}
