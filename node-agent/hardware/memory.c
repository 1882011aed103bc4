// SPDX-License-Identifier: Apache-2.0
// Memory from /proc/meminfo, bounded by the cgroup this agent runs in (a container that plays a
// node).
#include "node-agent/hardware/hardware.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t meminfo(const char *text, const char *key)
{
    const char *found = strstr(text, key);
    return found ? strtoll(found + strlen(key), NULL, 10) * 1024 : 0;
}

static int64_t cgroup_limit(const char *sysroot)
{
    static const char *const files[] = {"/sys/fs/cgroup/memory.max",
                                        "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    char line[64];

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        hardware_read_line(sysroot, files[i], line, sizeof(line));
        int64_t value = strtoll(line, NULL, 10);
        if (value > 0)
            return value;
    }
    return 0;
}

void hardware_memory(const char *sysroot, struct hardware_memory *ret)
{
    char text[4096];

    memset(ret, 0, sizeof(*ret));
    (void)hardware_read_file(sysroot, "/proc/meminfo", text, sizeof(text));
    ret->total = meminfo(text, "MemTotal:");
    ret->available = meminfo(text, "MemAvailable:");
    int64_t limit = cgroup_limit(sysroot);
    if (limit > 0 && limit < ret->total)
        ret->total = limit;
    if (ret->available > ret->total)
        ret->available = ret->total;
}
