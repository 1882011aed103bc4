// SPDX-License-Identifier: Apache-2.0
// NVIDIA cards through libnvidia-ml, loaded at run time with our own declarations of the few
// functions used. Only initialising and counting must work; everything else a library lacks or
// refuses ("N/A") leaves that value unknown.
#include "node-agent/hardware/gpu.h"

#include "common/cleanup.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NVML_OK 0
#define NVML_DRIVER_NOT_LOADED 9

typedef void *nvml_device;
struct nvml_memory {
    unsigned long long total, free, used;
};
struct nvml_utilization {
    unsigned gpu, memory;
};

struct nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error_string)(int);
    int (*count)(unsigned *);
    int (*handle)(unsigned, nvml_device *);
    int (*name)(nvml_device, char *, unsigned);
    int (*uuid)(nvml_device, char *, unsigned);
    int (*memory)(nvml_device, struct nvml_memory *);
    int (*utilization)(nvml_device, struct nvml_utilization *);
    int (*temperature)(nvml_device, int sensor, unsigned *);
    bool ready;
};

// A function pointer from dlsym, without the cast that ISO C has no word for.
static void load(struct nvml *n, const char *symbol, void *slot)
{
    void *found = dlsym(n->library, symbol);
    memcpy(slot, &found, sizeof(found));
}

static struct nvml *open_library(const char *path)
{
    struct nvml *n = calloc(1, sizeof(*n));

    if (!n)
        return NULL;
    n->library = dlopen(path ? path : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!n->library) {
        free(n);
        return NULL;
    }
    load(n, "nvmlInit_v2", &n->init);
    load(n, "nvmlShutdown", &n->shutdown);
    load(n, "nvmlErrorString", &n->error_string);
    load(n, "nvmlDeviceGetCount_v2", &n->count);
    load(n, "nvmlDeviceGetHandleByIndex_v2", &n->handle);
    load(n, "nvmlDeviceGetName", &n->name);
    load(n, "nvmlDeviceGetUUID", &n->uuid);
    load(n, "nvmlDeviceGetMemoryInfo", &n->memory);
    load(n, "nvmlDeviceGetUtilizationRates", &n->utilization);
    load(n, "nvmlDeviceGetTemperature", &n->temperature);
    return n;
}

static int fail(const struct nvml *n, const char *what, int code, struct gpu_list *ret)
{
    const char *text = n->error_string ? n->error_string(code) : NULL;

    ret->n = 0;
    (void)snprintf(ret->reason, sizeof(ret->reason), "GPU state unknown: NVML %s: %s (%d)", what,
                   text ? text : "error", code);
    return -EIO;
}

static void read_card(const struct nvml *n, unsigned index, struct gpu *gpu)
{
    nvml_device device = NULL;
    struct nvml_memory memory;
    struct nvml_utilization utilization;
    unsigned temperature;

    *gpu =
        (struct gpu){.index = (int)index, .memory_used = -1, .utilization = -1, .temperature = -1};
    if (n->handle(index, &device) != NVML_OK)
        return;
    if (!n->uuid || n->uuid(device, gpu->uuid, sizeof(gpu->uuid)) != NVML_OK)
        gpu->uuid[0] = '\0';
    if (!n->name || n->name(device, gpu->name, sizeof(gpu->name)) != NVML_OK)
        gpu->name[0] = '\0';
    gpu->uuid[sizeof(gpu->uuid) - 1] = '\0';
    gpu->name[sizeof(gpu->name) - 1] = '\0';
    if (n->memory && n->memory(device, &memory) == NVML_OK) {
        gpu->memory = (int64_t)memory.total;
        gpu->memory_used = (int64_t)memory.used;
    }
    if (n->utilization && n->utilization(device, &utilization) == NVML_OK)
        gpu->utilization = (int)utilization.gpu;
    if (n->temperature && n->temperature(device, 0, &temperature) == NVML_OK)
        gpu->temperature = (int)temperature;
}

static int begin(struct nvml *n, struct gpu_list *ret)
{
    if (n->ready)
        return 0;
    if (!n->init || !n->count || !n->handle) {
        (void)snprintf(ret->reason, sizeof(ret->reason),
                       "GPU state unknown: the NVML library lacks its basic functions");
        return -EIO;
    }
    int code = n->init();
    if (code == NVML_DRIVER_NOT_LOADED) {
        (void)snprintf(ret->reason, sizeof(ret->reason), "the NVIDIA driver is not loaded");
        return -ENOENT;
    }
    if (code != NVML_OK)
        return fail(n, "init", code, ret);
    n->ready = true;
    return 0;
}

int gpu_nvml_probe(struct nvml **nvml, const char *library, struct gpu_list *ret)
{
    unsigned count = 0;

    memset(ret, 0, sizeof(*ret));
    if (!*nvml)
        *nvml = open_library(library);
    if (!*nvml) {
        (void)snprintf(ret->reason, sizeof(ret->reason), "no NVIDIA driver here");
        return -ENOENT;
    }
    int r = begin(*nvml, ret);
    if (r < 0)
        return r;
    int code = (*nvml)->count(&count);
    if (code != NVML_OK) {
        // A reset driver needs a new start; the next look makes it.
        (void)fail(*nvml, "count", code, ret);
        gpu_nvml_close(TAKE_PTR(*nvml));
        return -EIO;
    }
    if (count > GPU_MAX)
        count = GPU_MAX;
    for (unsigned i = 0; i < count; i++)
        read_card(*nvml, i, &ret->items[ret->n++]);
    return 0;
}

void gpu_nvml_close(struct nvml *nvml)
{
    if (!nvml)
        return;
    if (nvml->ready && nvml->shutdown)
        (void)nvml->shutdown();
    (void)dlclose(nvml->library);
    free(nvml);
}
