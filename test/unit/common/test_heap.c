// SPDX-License-Identifier: Apache-2.0
// The first one out is always the least of those that are in, whatever came and went.
#include "common/heap.h"

#include "test/unit/suite.h"

#define ITEMS 200

struct item {
    int key;
    size_t place;
};

static bool before(const void *a, const void *b)
{
    return ((const struct item *)a)->key < ((const struct item *)b)->key;
}

static size_t *place(void *item)
{
    return &((struct item *)item)->place;
}

START_TEST(the_least_comes_out_first)
    {
        static struct item items[ITEMS];
        struct heap h = {.before = before, .place = place};
        unsigned state = 7;
        size_t in = 0;
        for (int step = 0; step < 20000; step++) {
            state = state * 1103515245u + 12345u;
            struct item *x = &items[(state >> 16) % ITEMS];
            if (x->place) {
                heap_remove(&h, x);
                in--;
            } else {
                x->key = (int)((state >> 8) % 50);
                ck_assert_int_eq(heap_add(&h, x), 0);
                in++;
            }
            ck_assert_uint_eq(h.n, in);
            const struct item *first = heap_first(&h);
            size_t wrong = 0; // counted: an assertion costs more than what it looks at
            for (size_t i = 0; i < ITEMS; i++)
                wrong += items[i].place &&
                         (h.items[items[i].place - 1] != &items[i] || first->key > items[i].key);
            ck_assert_uint_eq(wrong, 0);
        }
        while (heap_first(&h))
            heap_remove(&h, heap_first(&h));
        heap_remove(&h, &items[0]);
        for (size_t i = 0; i < ITEMS; i++)
            ck_assert_uint_eq(items[i].place, 0);
        heap_reset(&h);
    }
END_TEST

RUN_SUITE("heap", 60, the_least_comes_out_first)
