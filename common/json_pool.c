// SPDX-License-Identifier: Apache-2.0
// A free list for each size, per thread, in front of malloc. Every piece is one of malloc's, so
// free() is good for it, too; its size is asked of malloc (malloc_usable_size(3)).
#include "common/json_pool.h"

#include <jansson.h>
#include <malloc.h>
#include <stdlib.h>

#define STEP 16
#define CLASSES 33                    // pieces up to 512 bytes
#define KEPT_BYTES (8u * 1024 * 1024) // by one thread, in all

struct piece {
    struct piece *next;
};

static __thread struct piece *kept[CLASSES];
static __thread size_t kept_bytes;

static void *take(size_t size)
{
    size_t class = (size + STEP - 1) / STEP;
    if (class == 0 || class >= CLASSES)
        return malloc(size);
    struct piece *p = kept[class];
    if (!p)
        return malloc(class * STEP);
    kept[class] = p->next;
    kept_bytes -= class * STEP;
    return p;
}

static void give(void *memory)
{
    size_t class = memory ? malloc_usable_size(memory) / STEP : 0;
    if (class == 0 || class >= CLASSES || kept_bytes + class * STEP > KEPT_BYTES) {
        free(memory);
        return;
    }
    struct piece *p = memory;
    p->next = kept[class];
    kept[class] = p;
    kept_bytes += class * STEP;
}

void json_pool_start(void)
{
#ifndef __SANITIZE_ADDRESS__
    json_set_alloc_funcs(take, give);
#else
    (void)take;
    (void)give;
#endif
}
