// SPDX-License-Identifier: Apache-2.0
// A binary heap of objects that live elsewhere and know their place in it, so that any can leave.
// Adding and removing take time logarithmic in their number.
#pragma once

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>

struct heap { // all zero: empty
    void **items;
    size_t n, capacity;
    bool (*before)(const void *a, const void *b); // a is to come out first
    size_t *(*place)(void *item); // where the object keeps its place, + 1; 0 = it is in none
};

// The one that comes out first; NULL = none is in it.
void *heap_first(const struct heap *h);
int heap_add(struct heap *h, void *item) WARN_UNUSED; // -ENOMEM. It is in none yet.
void heap_remove(struct heap *h, void *item);         // harmless when it is in none
void heap_reset(struct heap *h); // frees what it took; the objects are not told
