// SPDX-License-Identifier: Apache-2.0
// When a certificate is to be replaced. Pure; all times are wall clock, ms since the epoch.
#pragma once

#include <stdint.h>

// Two thirds of the life are over (the share that ACME clients use, Let's Encrypt's integration
// guide); `begin` is when it was made.
int64_t renewal_due_ms(int64_t begin_ms, int64_t not_after_ms);
// The next try after a failed one at `now`: a tenth of what is left, 1 s at least, an hour at most;
// 5 s once it is over.
int64_t renewal_retry_ms(int64_t now_ms, int64_t not_after_ms);
// Whole days until `not_after`, rounded down; negative once it is over.
int64_t renewal_days_left(int64_t now_ms, int64_t not_after_ms);
