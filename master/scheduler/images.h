// SPDX-License-Identifier: Apache-2.0
// Which nodes have which container images: the last word between nodes that placement takes for
// equal. Kept by name and by node, so that a look costs no walk over what the cluster has.
#pragma once

#include "common/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uthash.h>

// What one node has. Lives as long as its owner says; its place among the nodes may change.
struct plan_holder {
    struct plan_images *table;  // weak
    struct plan_image **images; // as told
    size_t n;
    uint32_t slot; // its index among the plan's nodes
};

struct plan_image {
    char *name;
    struct plan_holder **holders; // by address, for the search alone: no answer depends on it
    size_t n, capacity;
    UT_hash_handle hh;
};

// All zero: nobody has any. Nothing to free once all holders are dropped; outlives them.
struct plan_images {
    struct plan_image *by_name;
};

// The node has these and no others (`n` names; repeated ones count once). *holder: NULL before the
// first time; stays the same object. On -ENOMEM it has none.
int plan_images_set(struct plan_images *t, struct plan_holder **holder, const char *const *names,
                    size_t n) WARN_UNUSED;
// The node is gone; *holder is freed and NULL then. NULL is fine.
void plan_images_drop(struct plan_holder **holder);
// NULL = no node has it.
const struct plan_image *plan_images_find(const struct plan_images *t, const char *name);
// Whether the holder (may be NULL) has the image (may be NULL).
bool plan_image_on(const struct plan_image *image, const struct plan_holder *holder);
