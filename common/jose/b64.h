// SPDX-License-Identifier: Apache-2.0
// base64url without padding (RFC 4648 section 5, RFC 7515 appendix C), strict: one spelling for
// each value.
#pragma once

#include "common/err.h"
#include "common/strbuf.h"
#include <stddef.h>

// Appends the encoding of the bytes.
void b64_append(struct strbuf *b, const void *data, size_t len);
// Decodes into out (at most `size` bytes). -EPROTO for a character outside the alphabet, a length
// that no encoding has, or bits at the end that are not zero; -EFBIG when it doesn't fit.
int b64_decode(const char *text, size_t len, void *out, size_t size, size_t *ret_len) WARN_UNUSED;
// The same into memory of the caller, with a NUL behind the bytes; free() it.
int b64_decode_alloc(const char *text, size_t len, unsigned char **ret,
                     size_t *ret_len) WARN_UNUSED;
