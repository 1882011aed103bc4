// SPDX-License-Identifier: Apache-2.0
// Reads cgroup.procs and /proc/<pid>/task/<tid>/children: ids with a space or newline behind each.
#include "node-agent/init/pids.h"

#include <stdlib.h>
#include <unistd.h>

pid_t pids_next(const char **p)
{
    char *end;
    long pid = strtol(*p, &end, 10);
    if (end == *p || (*end != '\n' && *end != ' '))
        return 0;
    *p = end + 1;
    return pid > 0 ? (pid_t)pid : 0;
}

void pids_read(int fd, char *text, size_t size)
{
    ssize_t n = fd >= 0 ? read(fd, text, size - 1) : -1;
    text[n > 0 ? n : 0] = '\0';
    if (fd >= 0)
        (void)close(fd);
}
