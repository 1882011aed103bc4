// SPDX-License-Identifier: Apache-2.0
// Any bytes into the guard, whole and in pieces: the same verdict, the same place, and none after a
// refusal.
#include "common/http_guard.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int good)
{
    if (!good)
        __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http_guard whole = {0}, pieces = {0};
    const char *text = (const char *)data;
    bool good = http_guard_feed(&whole, text, size);
    bool same = true;
    for (size_t at = 0, n = 1; at < size && same; at += n, n = n % 7 + 1)
        same = http_guard_feed(&pieces, text + at, n < size - at ? n : size - at);
    require(good == same);
    require(good == (whole.why == NULL));
    require(whole.why == pieces.why);
    require(whole.heads == pieces.heads);
    require(!good || (whole.state == pieces.state && whole.left == pieces.left));
    require(good || !http_guard_feed(&whole, "GET / HTTP/1.1\r\n\r\n", 18));
    return 0;
}
