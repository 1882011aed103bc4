// SPDX-License-Identifier: Apache-2.0
// Exponential backoff with "equal jitter" (M. Brooker, Exponential Backoff And Jitter, AWS
// Architecture Blog, 2015): half of the delay is fixed, so that nobody comes back at once, and half
// is random, so that they don't come back together. The caller logs the first failure (failures ==
// 1) and the recovery, not each try.
#include "common/backoff.h"

#include <sys/random.h>

void backoff_init(struct backoff *b, uint64_t min_ms, uint64_t max_ms)
{
    b->min_ms = min_ms ? min_ms : 1;
    b->max_ms = max_ms > b->min_ms ? max_ms : b->min_ms;
    b->failures = 0;
}

static uint64_t below(uint64_t bound)
{
    uint64_t random = 0;

    // Without entropy the delay is merely not spread.
    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != (ssize_t)sizeof(random))
        random = bound / 2;
    return random % (bound + 1);
}

uint64_t backoff_spread(uint64_t delay_ms)
{
    return delay_ms - delay_ms / 2 + below(delay_ms / 2);
}

uint64_t backoff_fail(struct backoff *b)
{
    uint64_t delay = b->min_ms;

    for (unsigned i = 0; i < b->failures && delay < b->max_ms; i++)
        delay *= 2;
    if (delay > b->max_ms)
        delay = b->max_ms;
    b->failures++;
    return backoff_spread(delay);
}

unsigned backoff_reset(struct backoff *b)
{
    unsigned before = b->failures;
    b->failures = 0;
    return before;
}
