// SPDX-License-Identifier: Apache-2.0
// Room on the file system of a folder, as an unprivileged writer sees it.
#include "node-agent/hardware/hardware.h"

#include <string.h>
#include <sys/statvfs.h>

void hardware_disk(const char *path, struct hardware_disk *ret)
{
    struct statvfs st;

    memset(ret, 0, sizeof(*ret));
    if (statvfs(path, &st) < 0)
        return;
    ret->total = (int64_t)st.f_blocks * (int64_t)st.f_frsize;
    ret->free = (int64_t)st.f_bavail * (int64_t)st.f_frsize;
}
