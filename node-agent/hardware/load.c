// SPDX-License-Identifier: Apache-2.0
// The load average of the last minute.
#include "node-agent/hardware/hardware.h"

#include <stdlib.h>

double hardware_load1(const char *sysroot)
{
    char line[64];

    hardware_read_line(sysroot, "/proc/loadavg", line, sizeof(line));
    return strtod(line, NULL);
}
