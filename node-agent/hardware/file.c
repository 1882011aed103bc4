// SPDX-License-Identifier: Apache-2.0
// Reading the kernel's small text files under a sysroot.
#include "node-agent/hardware/hardware.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <string.h>

int hardware_read_file(const char *sysroot, const char *path, char *out, size_t size)
{
    char full[512];
    size_t len = 0;

    out[0] = '\0';
    (void)snprintf(full, sizeof(full), "%s%s", sysroot, path);
    cleanup_close int fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -1;
    while (len < size - 1) {
        ssize_t n = read(fd, out + len, size - 1 - len);
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    out[len] = '\0';
    return (int)len;
}

void hardware_read_line(const char *sysroot, const char *path, char *out, size_t size)
{
    (void)hardware_read_file(sysroot, path, out, size);
    out[strcspn(out, "\n")] = '\0';
}
