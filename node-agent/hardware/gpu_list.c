// SPDX-License-Identifier: Apache-2.0
// Simulated cards, and lists of cards as JSON.
#include "node-agent/hardware/gpu.h"

#include "common/json.h"

#include <stdio.h>
#include <string.h>

#define SIMULATED_MEMORY (INT64_C(16) << 30)

void gpu_simulate(int64_t count, struct gpu_list *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->simulated = true;
    for (int64_t i = 0; i < count && i < GPU_MAX; i++) {
        struct gpu *gpu = &ret->items[ret->n++];
        gpu->index = (int)i;
        (void)snprintf(gpu->uuid, sizeof(gpu->uuid), "simulated-%lld", (long long)i);
        (void)snprintf(gpu->name, sizeof(gpu->name), "simulated GPU");
        gpu->memory = SIMULATED_MEMORY;
        gpu->memory_used = gpu->utilization = gpu->temperature = -1;
    }
}

json_t *gpu_list_to_json(const struct gpu_list *list)
{
    json_t *array = json_array();

    for (size_t i = 0; i < list->n; i++) {
        const struct gpu *gpu = &list->items[i];
        json_t *item = json_object();
        json_put_i64(item, "index", gpu->index);
        json_put_str(item, "uuid", gpu->uuid);
        json_put_str(item, "name", gpu->name);
        json_put_i64(item, "memory", gpu->memory);
        json_put_bool(item, "simulated", list->simulated);
        (void)json_array_append_new(array, item);
    }
    return array;
}

static void put_known(json_t *j, const char *key, int64_t value)
{
    json_put(j, key, value < 0 ? json_null() : json_integer(value));
}

json_t *gpu_list_usage_to_json(const struct gpu_list *list)
{
    json_t *array = json_array();

    for (size_t i = 0; i < list->n; i++) {
        json_t *item = json_object();
        put_known(item, "utilization", list->items[i].utilization);
        put_known(item, "memory_used", list->items[i].memory_used);
        put_known(item, "temperature", list->items[i].temperature);
        (void)json_array_append_new(array, item);
    }
    return array;
}
