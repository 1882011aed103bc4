// SPDX-License-Identifier: Apache-2.0
// A stand-in for libnvidia-ml, built as a shared library by the tests that need cards:
//   cc -shared -fPIC -o libnvml_stub.so test/lib/nvml_stub.c
// STUB_GPUS=N cards (default 2); STUB_INIT=CODE is what nvmlInit_v2 returns; STUB_NA=1: every
// reading says "not supported"; STUB_HANG=1: nvmlInit_v2 never returns; STUB_COUNT_FAIL=1: counting
// fails.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOT_SUPPORTED 3
#define GPU_IS_LOST 15

struct stub_memory {
    unsigned long long total, free, used;
};
struct stub_utilization {
    unsigned gpu, memory;
};

int nvmlInit_v2(void);
int nvmlShutdown(void);
const char *nvmlErrorString(int code);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetName(void *device, char *out, unsigned size);
int nvmlDeviceGetUUID(void *device, char *out, unsigned size);
int nvmlDeviceGetMemoryInfo(void *device, struct stub_memory *out);
int nvmlDeviceGetUtilizationRates(void *device, struct stub_utilization *out);
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *out);

static int setting(const char *name, int fallback)
{
    const char *text = getenv(name);
    return text ? atoi(text) : fallback;
}

int nvmlInit_v2(void)
{
    while (setting("STUB_HANG", 0))
        (void)pause();
    return setting("STUB_INIT", 0);
}

int nvmlShutdown(void)
{
    return 0;
}

const char *nvmlErrorString(int code)
{
    return code == GPU_IS_LOST ? "GPU is lost" : "stub error";
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = (unsigned)setting("STUB_GPUS", 2);
    return setting("STUB_COUNT_FAIL", 0) ? GPU_IS_LOST : 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    static char cards[64];
    *device = &cards[index % 64];
    return 0;
}

int nvmlDeviceGetName(void *device, char *out, unsigned size)
{
    (void)device;
    (void)snprintf(out, size, "Stub GPU");
    return 0;
}

int nvmlDeviceGetUUID(void *device, char *out, unsigned size)
{
    (void)snprintf(out, size, "GPU-stub-%u", (unsigned)((unsigned long)device & 0xff));
    return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, struct stub_memory *out)
{
    (void)device;
    *out = (struct stub_memory){16ull << 30, 15ull << 30, 1ull << 30};
    return setting("STUB_NA", 0) ? NOT_SUPPORTED : 0;
}

int nvmlDeviceGetUtilizationRates(void *device, struct stub_utilization *out)
{
    (void)device;
    *out = (struct stub_utilization){37, 5};
    return setting("STUB_NA", 0) ? NOT_SUPPORTED : 0;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *out)
{
    (void)device;
    (void)sensor;
    *out = 61;
    return setting("STUB_NA", 0) ? NOT_SUPPORTED : 0;
}
