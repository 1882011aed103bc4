// SPDX-License-Identifier: Apache-2.0
// One line a minute for a repeated offence: whoever is refused a thousand times a second does not
// fill the log with it.
#pragma once

#include "common/err.h"
#include <stdbool.h>
#include <stdint.h>

struct log_limit;

// `max` offences are told apart (the one that was quiet for longest is forgotten); each is let
// through once in `interval_ms`. *ret is owned by the caller: log_limit_free. -ENOMEM.
int log_limit_new(unsigned max, int64_t interval_ms, struct log_limit **ret) WARN_UNUSED;
void log_limit_free(struct log_limit *l); // NULL allowed
// Whether the offence `what` of `who` is to be logged now (now_ms: clock_boot_ms); then *ret_before
// tells how many were kept back since its last line.
bool log_limit_pass(struct log_limit *l, const char *who, const char *what, int64_t now_ms,
                    uint64_t *ret_before) WARN_UNUSED;
// The same with the line itself: at most one warning an interval, "WHO: TEXT (N more since the last
// such line)". NULL for l: every line.
void log_limit_warn(struct log_limit *l, const char *token, const char *who, const char *what,
                    const char *fmt, ...) PRINTF_LIKE(5, 6);
