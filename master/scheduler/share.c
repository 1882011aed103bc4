// SPDX-License-Identifier: Apache-2.0
// Dominant shares with forward decay.
#include "master/scheduler/share.h"

#include "master/scheduler/plan_internal.h"

#define STEPS 64
#define WEIGHT_ONE 256

// 256 x 2^(k/64), rounded.
static const int64_t weights[STEPS] = {
    256, 259, 262, 264, 267, 270, 273, 276, 279, 282, 285, 288, 292, 295, 298, 301,
    304, 308, 311, 314, 318, 321, 325, 328, 332, 336, 339, 343, 347, 350, 354, 358,
    362, 366, 370, 374, 378, 382, 386, 391, 395, 399, 403, 408, 412, 417, 421, 426,
    431, 435, 440, 445, 450, 454, 459, 464, 470, 475, 480, 485, 490, 496, 501, 506};

static int64_t step_of(int64_t ms, int64_t half_life_ms)
{
    return ms / (half_life_ms / STEPS);
}

static void shares(const struct resources *held, const struct resources *total,
                   int64_t ret[SHARE_KINDS])
{
    const int64_t h[SHARE_KINDS] = {held->cpu_milli, held->memory, held->gpu};
    const int64_t t[SHARE_KINDS] = {total->cpu_milli, total->memory, total->gpu};
    for (int i = 0; i < SHARE_KINDS; i++) {
        ret[i] = t[i] > 0 ? plan_share(h[i], t[i]) : 0;
        ret[i] = ret[i] > PLAN_SHARE_ONE ? PLAN_SHARE_ONE : ret[i];
    }
}

static void halve(struct share_usage *u, int64_t times)
{
    for (int i = 0; i < SHARE_KINDS; i++)
        u->used[i] = times > 62 ? 0 : u->used[i] >> times;
}

// To a later point within the same or a following step.
static void move(struct share_usage *u, const int64_t s[SHARE_KINDS], int64_t to_ms,
                 int64_t half_life_ms)
{
    int64_t step = step_of(u->at_ms, half_life_ms);
    int64_t weight = weights[step % STEPS], ms = to_ms - u->at_ms;
    for (int i = 0; i < SHARE_KINDS; i++)
        u->used[i] += s[i] * ms * weight;
    halve(u, step_of(to_ms, half_life_ms) / STEPS - step / STEPS);
    u->at_ms = to_ms;
}

void share_advance(struct share_usage *u, const struct resources *held,
                   const struct resources *total, int64_t now_ms, int64_t half_life_ms)
{
    int64_t s[SHARE_KINDS], length = half_life_ms / STEPS;
    if (u->at_ms == 0)
        u->at_ms = now_ms; // nothing is known of before
    if (now_ms <= u->at_ms)
        return;
    shares(held, total, s);
    if (!s[0] && !s[1] && !s[2]) {
        move(u, s, now_ms, half_life_ms);
        return;
    }
    if (now_ms - u->at_ms > half_life_ms * STEPS) { // what is older weighs nothing
        *u = (struct share_usage){.at_ms = now_ms - half_life_ms * STEPS};
    }
    while (u->at_ms < now_ms) {
        int64_t end = (step_of(u->at_ms, half_life_ms) + 1) * length;
        move(u, s, end < now_ms ? end : now_ms, half_life_ms);
    }
}

int64_t share_rank(const struct share_usage *u, const struct resources *held,
                   const struct resources *total, int64_t half_life_ms)
{
    int64_t s[SHARE_KINDS], most = 0;
    int64_t weight = weights[step_of(u->at_ms, half_life_ms) % STEPS];
    shares(held, total, s);
    for (int i = 0; i < SHARE_KINDS; i++) {
        int64_t rank = u->used[i] + s[i] * half_life_ms * weight;
        most = rank > most ? rank : most;
    }
    return most;
}

void share_rescale(struct share_usage *u, int64_t old_half_life_ms, int64_t half_life_ms)
{
    if (old_half_life_ms == half_life_ms)
        return;
    int64_t from = weights[step_of(u->at_ms, old_half_life_ms) % STEPS];
    int64_t to = weights[step_of(u->at_ms, half_life_ms) % STEPS];
    for (int i = 0; i < SHARE_KINDS; i++)
        u->used[i] = (int64_t)((__int128)u->used[i] * to / from);
}
