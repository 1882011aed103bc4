// SPDX-License-Identifier: Apache-2.0
// Random identifiers: lower-case base32 (RFC 4648 alphabet, no padding) from the kernel's
// generator.
#pragma once

#include "common/err.h"
#include <stdbool.h>
#include <stddef.h>

#define ID_CHARS 12 // 60 random bits
#define ID_BYTES (1 + ID_CHARS + 1)
#define JOB_ID_BYTES 24 // "j" + 12, or an array element's with "_" and its index

// "<prefix><12 base32>", e.g. id_new('j', out) -> "jmfrggzdfmztw". out holds ID_BYTES. -EIO when
// the kernel gives no randomness.
int id_new(char prefix, char *out) WARN_UNUSED;
// `chars` random base32 characters plus NUL (5 bits each): tokens, instances, attempt ids.
int id_random(char *out, size_t chars) WARN_UNUSED;
// Whether the text has the exact shape of id_new(prefix).
bool id_is(char prefix, const char *text);
