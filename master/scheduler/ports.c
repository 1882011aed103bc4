// SPDX-License-Identifier: Apache-2.0
// Ports of a node as a bitmap. The search goes on where the last one ended, so that a port that was
// just given back rests as long as possible: its last user's connections may linger.
#include "master/scheduler/plan_internal.h"

static bool is_taken(const struct plan_ports *p, unsigned i)
{
    return p->taken[i / 64] >> (i % 64) & 1;
}

static uint64_t free_bits(const struct plan_ports *p, unsigned word)
{
    uint64_t bits = ~p->taken[word];
    unsigned rest = p->count - word * 64;
    return rest >= 64 ? bits : bits & ((UINT64_C(1) << rest) - 1);
}

int plan_ports_free(const struct plan_ports *p, int limit)
{
    int n = 0;
    if (!p->taken)
        return 0;
    for (unsigned word = 0; word * 64 < p->count && n < limit; word++) {
        uint64_t bits = free_bits(p, word);
        n += bits == UINT64_MAX ? 64 : bits ? __builtin_popcountll(bits) : 0;
    }
    return n < limit ? n : limit;
}

void plan_ports_take(struct plan_ports *p, int n, uint16_t *ret_ports)
{
    if (n <= 0 || p->count == 0 || !p->taken)
        return;
    unsigned i = p->cursor % p->count;
    for (unsigned seen = 0; seen < p->count && n > 0; seen++) {
        if (!is_taken(p, i)) {
            p->taken[i / 64] |= UINT64_C(1) << (i % 64);
            *ret_ports++ = (uint16_t)(p->first + i);
            n--;
        }
        i = i + 1 == p->count ? 0 : i + 1;
    }
    p->cursor = (uint16_t)i;
}

void plan_ports_give(struct plan_ports *p, int n, const uint16_t *ports)
{
    for (int k = 0; k < n; k++) {
        unsigned i = (unsigned)ports[k] - p->first;
        if (p->taken && i < p->count)
            p->taken[i / 64] &= ~(UINT64_C(1) << (i % 64));
    }
}
