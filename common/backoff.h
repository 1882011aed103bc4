// SPDX-License-Identifier: Apache-2.0
// Delays between tries that grow: exponential, bounded, with jitter so that many peers don't come
// back in step.
#pragma once

#include <stdint.h>

struct backoff { // plain data; zero `failures` = nothing wrong
    uint64_t min_ms;
    uint64_t max_ms;
    unsigned failures; // in a row
};

// No failures yet; the first delay and the longest one.
void backoff_init(struct backoff *b, uint64_t min_ms, uint64_t max_ms);
// Counts a failure and returns the delay before the next try: half of it fixed, half of it random.
uint64_t backoff_fail(struct backoff *b);
// A delay of at most `delay_ms`, and at least half of it.
uint64_t backoff_spread(uint64_t delay_ms);
// Success: returns how many failures came before it (0 = there is no recovery to talk about).
unsigned backoff_reset(struct backoff *b);
