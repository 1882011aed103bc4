// SPDX-License-Identifier: Apache-2.0
// Pieces of other people's text inside our messages: short, printable, valid UTF-8; and the nearest
// of some known words for a misspelt one.
#pragma once

#include <stddef.h>

#define TEXT_QUOTE_BYTES 80

// Writes "text" in double quotes into out (TEXT_QUOTE_BYTES), cut with "..." when long; control
// characters and bytes that are no UTF-8 become '?'. Returns out.
const char *text_quote(const char *text, char *out);
// Makes the whole text valid UTF-8 in place: a sequence cut off at the end is removed, any other
// byte that is none becomes '?'.
void text_make_utf8(char *text);
// Value of a hexadecimal digit in either case, -1 when it is none.
int text_hex_digit(char c);
// Turns each %XX of `len` bytes into its byte (RFC 3986, section 2.1). `out` has room for len + 1
// bytes and may be `text` itself. Its length, or -EINVAL: a '%' without two digits, or a NUL.
int text_percent_decode(const char *text, size_t len, char *out);
// The word most like `text` (edit distance, a swap of neighbours counts once, any case), or NULL
// when none is near. `words` is an array of n texts that lie `stride` bytes apart (members of a
// table).
const char *text_suggest(const char *text, const char *const *words, size_t n, size_t stride);
