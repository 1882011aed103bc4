// SPDX-License-Identifier: Apache-2.0
// A binary heap of objects that know their place in it.
#include "common/heap.h"

#include <errno.h>
#include <stdlib.h>

static void put(struct heap *h, size_t at, void *item)
{
    h->items[at] = item;
    *h->place(item) = at + 1;
}

static void up(struct heap *h, size_t at)
{
    void *item = h->items[at];
    for (; at > 0 && h->before(item, h->items[(at - 1) / 2]); at = (at - 1) / 2)
        put(h, at, h->items[(at - 1) / 2]);
    put(h, at, item);
}

static void down(struct heap *h, size_t at)
{
    void *item = h->items[at];
    for (size_t child = 2 * at + 1; child < h->n; child = 2 * at + 1) {
        if (child + 1 < h->n && h->before(h->items[child + 1], h->items[child]))
            child++;
        if (!h->before(h->items[child], item))
            break;
        put(h, at, h->items[child]);
        at = child;
    }
    put(h, at, item);
}

void *heap_first(const struct heap *h)
{
    return h->n ? h->items[0] : NULL;
}

int heap_add(struct heap *h, void *item)
{
    if (h->n == h->capacity) {
        size_t capacity = h->capacity ? 2 * h->capacity : 64;
        void **items = realloc(h->items, capacity * sizeof(*items));
        if (!items)
            return -ENOMEM;
        h->items = items;
        h->capacity = capacity;
    }
    h->n++;
    put(h, h->n - 1, item);
    up(h, h->n - 1);
    return 0;
}

void heap_remove(struct heap *h, void *item)
{
    size_t at = *h->place(item);
    if (at-- == 0)
        return;
    void *last = h->items[--h->n];
    *h->place(item) = 0;
    if (last == item)
        return;
    put(h, at, last);
    down(h, at);
    up(h, *h->place(last) - 1);
}

void heap_reset(struct heap *h)
{
    free(h->items);
    h->items = NULL;
    h->n = h->capacity = 0;
}
