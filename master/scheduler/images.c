// SPDX-License-Identifier: Apache-2.0
// An image is there as long as some node has it.
#include "master/scheduler/images.h"

#include "common/cleanup.h"

#include <stdlib.h>
#include <string.h>

// Where the holder is in the image's list, or would be.
static size_t place_of(const struct plan_image *image, const struct plan_holder *h)
{
    size_t low = 0, high = image->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if ((uintptr_t)image->holders[mid] < (uintptr_t)h)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

bool plan_image_on(const struct plan_image *image, const struct plan_holder *holder)
{
    size_t at = image && holder ? place_of(image, holder) : 0;
    return image && holder && at < image->n && image->holders[at] == holder;
}

const struct plan_image *plan_images_find(const struct plan_images *t, const char *name)
{
    struct plan_image *image = NULL;
    HASH_FIND_STR(t->by_name, name, image);
    return image;
}

static void remove_if_nowhere(struct plan_images *t, struct plan_image *image)
{
    if (image->n > 0)
        return;
    HASH_DEL(t->by_name, image);
    free(image->name);
    free(image->holders);
    free(image);
}

static struct plan_image *image_of(struct plan_images *t, const char *name)
{
    struct plan_image *image = NULL;
    HASH_FIND_STR(t->by_name, name, image);
    if (image)
        return image;
    image = calloc(1, sizeof(*image));
    if (image)
        image->name = strdup(name);
    if (!image || !image->name) {
        free(image);
        return NULL;
    }
    HASH_ADD_KEYPTR(hh, t->by_name, image->name, strlen(image->name), image);
    return image;
}

static int add(struct plan_image *image, struct plan_holder *h)
{
    if (image->n == image->capacity) {
        size_t capacity = image->capacity ? image->capacity * 2 : 2;
        struct plan_holder **list =
            realloc(image->holders, capacity * sizeof(struct plan_holder *));
        if (!list)
            return -ENOMEM;
        image->holders = list;
        image->capacity = capacity;
    }
    size_t at = place_of(image, h);
    memmove(&image->holders[at + 1], &image->holders[at],
            (image->n - at) * sizeof(struct plan_holder *));
    image->holders[at] = h;
    image->n++;
    return 0;
}

static void let_go(struct plan_image *image, struct plan_holder *h)
{
    size_t at = place_of(image, h);
    image->n--;
    memmove(&image->holders[at], &image->holders[at + 1],
            (image->n - at) * sizeof(struct plan_holder *));
    remove_if_nowhere(h->table, image);
}

struct list {
    struct plan_image **items;
    size_t n;
};

static bool among(const struct list *l, const struct plan_image *image)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->items[i] == image)
            return true;
    return false;
}

// Those that are in no list `but`.
static void let_go_all(struct plan_holder *h, const struct list *l, const struct list *but)
{
    for (size_t i = 0; i < l->n; i++)
        if (!among(but, l->items[i]))
            let_go(l->items[i], h);
}

// Adds what the holder did not have, so that a list of which little changed costs little.
static int hold(struct plan_holder *h, const char *const *names, size_t n, struct list *ret)
{
    ret->items = calloc(n + 1, sizeof(struct plan_image *));
    if (!ret->items)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        struct plan_image *image = image_of(h->table, names[i]);
        if (!image)
            return -ENOMEM;
        if (among(ret, image))
            continue;
        if (!plan_image_on(image, h) && add(image, h) < 0) {
            remove_if_nowhere(h->table, image);
            return -ENOMEM;
        }
        ret->items[ret->n++] = image;
    }
    return 0;
}

int plan_images_set(struct plan_images *t, struct plan_holder **holder, const char *const *names,
                    size_t n)
{
    struct plan_holder *h = *holder ? *holder : calloc(1, sizeof(*h));
    if (!h)
        return -ENOMEM;
    *holder = h;
    h->table = t;
    struct list now = {0}, before = {h->images, h->n}, none = {0};
    int r = hold(h, names, n, &now);
    if (r < 0) {
        let_go_all(h, &now, &before);
        now.n = 0;
    }
    let_go_all(h, &before, r < 0 ? &none : &now);
    free(before.items);
    h->images = now.items;
    h->n = now.n;
    return r;
}

void plan_images_drop(struct plan_holder **holder)
{
    if (!*holder)
        return;
    const struct list had = {(*holder)->images, (*holder)->n}, none = {0};
    let_go_all(*holder, &had, &none);
    free(had.items);
    free(*holder);
    *holder = NULL;
}
