// SPDX-License-Identifier: Apache-2.0
// Names of the machine: host, kernel, distribution, machine id, boot id.
#include "node-agent/hardware/hardware.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

// PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"
static void read_os(const char *sysroot, char *out, size_t size)
{
    static const char key[] = "PRETTY_NAME=";
    char text[4096];
    const char *found;

    out[0] = '\0';
    if (hardware_read_file(sysroot, "/etc/os-release", text, sizeof(text)) < 0)
        (void)hardware_read_file(sysroot, "/usr/lib/os-release", text, sizeof(text));
    found = strstr(text, key);
    if (!found)
        return;
    found += sizeof(key) - 1;
    found += *found == '"';
    (void)snprintf(out, size, "%.*s", (int)strcspn(found, "\"\n"), found);
}

static void read_kernel(const char *sysroot, char *out, size_t size)
{
    struct utsname u;

    if (sysroot[0])
        hardware_read_line(sysroot, "/proc/sys/kernel/osrelease", out, size);
    else if (uname(&u) == 0)
        (void)snprintf(out, size, "%s", u.release);
}

void hardware_system(const char *sysroot, struct hardware_system *ret)
{
    memset(ret, 0, sizeof(*ret));
    (void)gethostname(ret->hostname, sizeof(ret->hostname) - 1);
    read_kernel(sysroot, ret->kernel, sizeof(ret->kernel));
    read_os(sysroot, ret->os, sizeof(ret->os));
    hardware_read_line(sysroot, "/etc/machine-id", ret->machine_id, sizeof(ret->machine_id));
    if (ret->machine_id[0] == '\0')
        hardware_read_line(sysroot, "/var/lib/dbus/machine-id", ret->machine_id,
                           sizeof(ret->machine_id));
    hardware_read_line(sysroot, "/proc/sys/kernel/random/boot_id", ret->boot_id,
                       sizeof(ret->boot_id));
}
