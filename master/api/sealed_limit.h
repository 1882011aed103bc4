// SPDX-License-Identifier: Apache-2.0
// How many envelopes one address may bring, counted before any of them is opened: a bucket of
// tokens for each address, and a request that doesn't open costs more than one that does.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sealed_limit;

#define SEALED_LIMIT_ADDRESSES 4096
#define SEALED_FAILURE_COST 20

// `rate` requests a second and twice as many at once. NULL = out of memory.
struct sealed_limit *sealed_limit_new(int64_t rate);
void sealed_limit_free(struct sealed_limit *l);
// Takes one; false when there is none left. now_ms of a clock that doesn't jump.
bool sealed_limit_take(struct sealed_limit *l, const char *address, int64_t now_ms);
// It did not open.
void sealed_limit_failed(struct sealed_limit *l, const char *address);
