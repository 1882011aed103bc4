// SPDX-License-Identifier: Apache-2.0
// A health check by HTTP.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// GET http://127.0.0.1:PORT/PATH: true for a status from 200 to 399 within the time; else `why`
// says what came. Blocks.
bool probe_http(int64_t port, const char *path, int64_t timeout_ms, char *why, size_t size);
// CLOCK_MONOTONIC, ms.
int64_t probe_now_ms(void);
