// SPDX-License-Identifier: Apache-2.0
// AMD cards from /sys/class/drm: vendor 0x1002, memory and load in small files, temperature under
// hwmon.
#include "node-agent/hardware/gpu.h"

#include "node-agent/hardware/hardware.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The number in a file of the card, or `fallback` when there is none.
static int64_t number(const char *device, const char *leaf, int64_t fallback)
{
    char line[64];
    char *end;

    hardware_read_line(device, leaf, line, sizeof(line));
    long long value = strtoll(line, &end, 10);
    return end == line ? fallback : value;
}

static int temperature(const char *device)
{
    char pattern[512];
    char line[32];
    glob_t found;
    int result = -1;

    (void)snprintf(pattern, sizeof(pattern), "%s/hwmon/hwmon*/temp1_input", device);
    if (glob(pattern, 0, NULL, &found) != 0)
        return -1;
    hardware_read_line("", found.gl_pathv[0], line, sizeof(line));
    if (line[0])
        result = (int)(strtol(line, NULL, 10) / 1000);
    globfree(&found);
    return result;
}

static void read_card(const char *device, size_t index, struct gpu *gpu)
{
    char id[64];

    memset(gpu, 0, sizeof(*gpu));
    gpu->index = (int)index;
    hardware_read_line(device, "/unique_id", id, sizeof(id));
    if (id[0])
        (void)snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%s", id);
    hardware_read_line(device, "/product_name", gpu->name, sizeof(gpu->name));
    if (!gpu->name[0])
        (void)snprintf(gpu->name, sizeof(gpu->name), "AMD GPU");
    gpu->memory = number(device, "/mem_info_vram_total", 0);
    gpu->memory_used = number(device, "/mem_info_vram_used", -1);
    gpu->utilization = (int)number(device, "/gpu_busy_percent", -1);
    gpu->temperature = temperature(device);
}

int gpu_amd_probe(const char *sysroot, struct gpu_list *ret)
{
    char pattern[512];
    char vendor[16];
    glob_t found;

    memset(ret, 0, sizeof(*ret));
    (void)snprintf(pattern, sizeof(pattern), "%s/sys/class/drm/card[0-9]*/device", sysroot);
    if (glob(pattern, 0, NULL, &found) != 0)
        return -ENOENT;
    for (size_t i = 0; i < found.gl_pathc && ret->n < GPU_MAX; i++) {
        // Connectors ("card0-DP-1") have a device link as well.
        const char *base = strstr(found.gl_pathv[i], "/drm/card");
        hardware_read_line(found.gl_pathv[i], "/vendor", vendor, sizeof(vendor));
        if (strcmp(vendor, "0x1002") != 0 || (base && strchr(base, '-')))
            continue;
        read_card(found.gl_pathv[i], ret->n, &ret->items[ret->n]);
        ret->n++;
    }
    globfree(&found);
    return ret->n ? 0 : -ENOENT;
}
