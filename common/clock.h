// SPDX-License-Identifier: Apache-2.0
// The only module that reads clocks. Milliseconds everywhere.
#pragma once

#include "common/err.h"
#include <stdint.h>

#define CLOCK_TEXT_BYTES 32

// The time of day, since the epoch. It follows the machine's clock while that keeps step with
// CLOCK_BOOTTIME; when somebody sets it by more than CLOCK_STEP_MS, the time of before goes on
// until clock_believe: what is judged by it (certificates, tokens) must not all expire by a
// mistake.
int64_t clock_real_ms(void);
#define CLOCK_STEP_MS INT64_C(300000)
// By how much the machine's clock is ahead of clock_real_ms; 0 unless it was set.
int64_t clock_step_ms(void);
// The machine's clock is right as it is: clock_real_ms follows it again.
void clock_believe(void);
int64_t clock_mono_ms(void); // CLOCK_MONOTONIC: for intervals inside one process
int64_t clock_boot_ms(void); // CLOCK_BOOTTIME: counts suspend too; for leases

// The id of this boot, within which two moments of CLOCK_BOOTTIME can be compared
// (/proc/sys/kernel/random/boot_id, random(4)); "" when it can't be read.
#define CLOCK_BOOT_ID_BYTES 40
void clock_boot_id(char out[CLOCK_BOOT_ID_BYTES]);

// RFC 3339 in UTC with milliseconds, "2026-01-02T03:04:05.678Z"; out holds CLOCK_TEXT_BYTES.
void clock_format_ms(int64_t real_ms, char *out);
// The reverse; fraction optional, only "Z" as the zone. -EINVAL otherwise.
int clock_parse(const char *text, int64_t *ret_ms) WARN_UNUSED;
