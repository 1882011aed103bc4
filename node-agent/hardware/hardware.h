// SPDX-License-Identifier: Apache-2.0
// What this machine is and how busy it is, from /proc, /sys and file system calls. Every function
// takes a sysroot ("" = the machine itself, else a test folder put before /proc, /sys and /etc) and
// leaves what it can't find out at 0 or "": a probe never stops the agent.
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct hardware_cpu {
    int count; // logical processors this process may use
    char model[96];
};
void hardware_cpu(const char *sysroot, struct hardware_cpu *ret);

struct cpu_sample { // jiffies since boot
    uint64_t busy, total;
};
void hardware_cpu_sample(const char *sysroot, struct cpu_sample *ret);
// Share of time busy between two samples, 0..100; 0 when they are the same.
double hardware_cpu_percent(const struct cpu_sample *before, const struct cpu_sample *now);

struct hardware_memory { // bytes
    int64_t total, available;
};
void hardware_memory(const char *sysroot, struct hardware_memory *ret);

struct hardware_disk { // bytes
    int64_t total, free;
};
void hardware_disk(const char *path, struct hardware_disk *ret);

struct hardware_net { // bytes since boot over all interfaces but loopback and containers' ends
    uint64_t rx, tx;
};
void hardware_net(const char *sysroot, struct hardware_net *ret);

// Of the last minute.
double hardware_load1(const char *sysroot);

struct hardware_system {
    char hostname[65];
    char kernel[128];
    char os[128];
    char machine_id[40];
    char boot_id[40];
};
void hardware_system(const char *sysroot, struct hardware_system *ret);

// First line of a small file without its line end; "" when it can't be read.
void hardware_read_line(const char *sysroot, const char *path, char *out, size_t size);
// A whole small file, NUL-terminated, cut at size - 1. Returns its length, -1 when it can't be
// read.
int hardware_read_file(const char *sysroot, const char *path, char *out, size_t size);
