// SPDX-License-Identifier: Apache-2.0
// Traffic counters from /proc/net/dev.
#include "node-agent/hardware/hardware.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

// Loopback, and ends of container networks whose bytes are counted on the real interface as well.
static bool ignored(const char *name)
{
    return strcmp(name, "lo") == 0 || strncmp(name, "veth", 4) == 0 ||
           strncmp(name, "docker", 6) == 0 || strncmp(name, "br-", 3) == 0;
}

void hardware_net(const char *sysroot, struct hardware_net *ret)
{
    char text[32768];
    char *save = NULL;

    memset(ret, 0, sizeof(*ret));
    (void)hardware_read_file(sysroot, "/proc/net/dev", text, sizeof(text));
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char name[32];
        unsigned long long rx;
        unsigned long long tx;
        char *colon = strchr(line, ':');
        if (!colon)
            continue;
        *colon = ' ';
        if (sscanf(line, " %31s %llu %*u %*u %*u %*u %*u %*u %*u %llu", name, &rx, &tx) != 3 ||
            ignored(name))
            continue;
        ret->rx += rx;
        ret->tx += tx;
    }
}
