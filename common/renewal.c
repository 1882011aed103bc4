// SPDX-License-Identifier: Apache-2.0
// Dates of renewals.
#include "common/renewal.h"

#define DAY_MS INT64_C(86400000)
#define SHORTEST_MS INT64_C(1000)
#define LONGEST_MS INT64_C(3600000)
#define OVER_MS INT64_C(5000)

int64_t renewal_due_ms(int64_t begin_ms, int64_t not_after_ms)
{
    int64_t life = not_after_ms - begin_ms;
    return life <= 0 ? not_after_ms : begin_ms + life / 3 * 2;
}

int64_t renewal_retry_ms(int64_t now_ms, int64_t not_after_ms)
{
    int64_t left = not_after_ms - now_ms;
    if (left <= 0)
        return now_ms + OVER_MS;
    int64_t wait = left / 10;
    return now_ms + (wait < SHORTEST_MS ? SHORTEST_MS : wait > LONGEST_MS ? LONGEST_MS : wait);
}

int64_t renewal_days_left(int64_t now_ms, int64_t not_after_ms)
{
    int64_t left = not_after_ms - now_ms;
    return left >= 0 ? left / DAY_MS : -((-left + DAY_MS - 1) / DAY_MS);
}
