// SPDX-License-Identifier: Apache-2.0
// Quantities as people write them. Parsing and printing are exact inverses on the values that users
// can write.
#pragma once

#include "common/err.h"
#include <stdint.h>

#define UNITS_TEXT_BYTES 40

// Cores: "4", "0.5", "500m" -> millicores. Not finer than 1m. -EINVAL / -ERANGE with text.
int units_parse_cpu(const char *text, int64_t *ret_milli, struct err *e) WARN_UNUSED;
// Memory: "8192m" "M" "MB" "Mi" "MiB" = MiB; "g" "G" "GB" "Gi" "GiB" = GiB; a bare number = MiB;
// also k/Ki and t/Ti; "1.5g" when exact in bytes.
int units_parse_memory(const char *text, int64_t *ret_bytes, struct err *e) WARN_UNUSED;
// Durations: "1500ms" "10s" "5m" "12h" "7d", or a bare number = seconds; "1h30m" too.
int units_parse_duration(const char *text, int64_t *ret_ms, struct err *e) WARN_UNUSED;
// "4", "500m"; "8192m" (MiB when whole, else k, else bytes with "b"); "10s"/"1500ms": the largest
// unit that is exact. out: UNITS_TEXT_BYTES.
void units_format_cpu(int64_t milli, char *out);
void units_format_memory(int64_t bytes, char *out);
void units_format_duration(int64_t ms, char *out);
// For tables: "7.5", "16.0 GiB", "3m12s": rounded, for people.
void units_human_cpu(int64_t milli, char *out);
void units_human_memory(int64_t bytes, char *out);
void units_human_duration(int64_t ms, char *out);
