// SPDX-License-Identifier: Apache-2.0
// Processors: how many, which, how busy (/proc/cpuinfo, /proc/stat).
#include "node-agent/hardware/hardware.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void read_model(const char *sysroot, char *out, size_t size)
{
    char text[4096];
    const char *found;

    out[0] = '\0';
    (void)hardware_read_file(sysroot, "/proc/cpuinfo", text, sizeof(text));
    found = strstr(text, "model name");
    found = found ? strchr(found, ':') : NULL;
    if (!found)
        return;
    found += 1 + strspn(found + 1, " \t");
    (void)snprintf(out, size, "%.*s", (int)strcspn(found, "\n"), found);
}

// "processor : 0" lines, for a sysroot that is not this machine.
static int count_listed(const char *sysroot)
{
    char text[65536];
    int count = 0;

    (void)hardware_read_file(sysroot, "/proc/cpuinfo", text, sizeof(text));
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        count += strncmp(line, "processor", 9) == 0;
        if (*line == '\0')
            break;
    }
    return count;
}

void hardware_cpu(const char *sysroot, struct hardware_cpu *ret)
{
    cpu_set_t set;

    memset(ret, 0, sizeof(*ret));
    if (sysroot[0])
        ret->count = count_listed(sysroot);
    else if (sched_getaffinity(0, sizeof(set), &set) == 0)
        ret->count = CPU_COUNT(&set);
    if (ret->count < 1)
        ret->count = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (ret->count < 1)
        ret->count = 1;
    read_model(sysroot, ret->model, sizeof(ret->model));
}

void hardware_cpu_sample(const char *sysroot, struct cpu_sample *ret)
{
    char line[512];
    unsigned long long v[8] = {0};

    memset(ret, 0, sizeof(*ret));
    hardware_read_line(sysroot, "/proc/stat", line, sizeof(line));
    // user nice system idle iowait irq softirq steal
    if (sscanf(line, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2], &v[3],
               &v[4], &v[5], &v[6], &v[7]) < 4)
        return;
    for (int i = 0; i < 8; i++)
        ret->total += v[i];
    ret->busy = ret->total - v[3] - v[4];
}

double hardware_cpu_percent(const struct cpu_sample *before, const struct cpu_sample *now)
{
    if (now->total <= before->total || now->busy < before->busy)
        return 0;
    return 100.0 * (double)(now->busy - before->busy) / (double)(now->total - before->total);
}
