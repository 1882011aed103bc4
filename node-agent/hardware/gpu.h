// SPDX-License-Identifier: Apache-2.0
// The machine's GPUs: NVIDIA by its management library, AMD by sysfs, or simulated ones for a
// cluster on one machine. The library may hang with a sick card, so it is called on a thread of its
// own, and waited for no longer than a bound.
#pragma once

#include "common/err.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#define GPU_MAX 64

struct gpu {
    int index;
    char uuid[96];
    char name[96];
    int64_t memory;      // bytes; 0 = unknown
    int64_t memory_used; // bytes; -1 = unknown
    int utilization;     // percent; -1 = unknown
    int temperature;     // degrees Celsius; -1 = unknown
};
struct gpu_list { // plain data
    struct gpu items[GPU_MAX];
    size_t n;
    bool simulated;
    char reason[160]; // why there are none, or why their state is unknown
};

// Blocking probes. 0 and the cards (none: with the reason); -ENOENT when there is no such driver
// here; -EIO when the driver is there and fails.
struct nvml;
int gpu_nvml_probe(struct nvml **nvml, const char *library,
                   struct gpu_list *ret); // *nvml is kept for the next call
void gpu_nvml_close(struct nvml *nvml);
int gpu_amd_probe(const char *sysroot, struct gpu_list *ret);
void gpu_simulate(int64_t count, struct gpu_list *ret);

struct gpu_probe;
struct gpu_probe_options {
    uv_loop_t *loop;
    const char *nvml_library;        // NULL = libnvidia-ml.so.1
    const char *sysroot;             // "" = the machine
    int64_t configured;              // cards to offer; negative = all there are
    unsigned timeout_ms;             // 0 = 10 s
    void (*changed)(void *userdata); // which cards there are (not how busy they are) changed
    void *userdata;
};
// Starts the first look. Texts are copied.
int gpu_probe_new(const struct gpu_probe_options *options, struct gpu_probe **ret,
                  struct err *e) WARN_UNUSED;
// Looks again in the background, unless a look is under way or there is nothing to look at.
void gpu_probe_refresh(struct gpu_probe *p);
const struct gpu_list *
gpu_probe_list(const struct gpu_probe *p); // borrowed, until the next turn of the loop
// Frees from the loop; a look that hangs is left behind. NULL allowed.
void gpu_probe_close(struct gpu_probe *p);

json_t *gpu_list_to_json(const struct gpu_list *list); // [{index, uuid, name, memory, simulated}]
json_t *gpu_list_usage_to_json(
    const struct gpu_list *list); // [{utilization, memory_used, temperature}], null = unknown
