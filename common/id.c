// SPDX-License-Identifier: Apache-2.0
// Random identifiers.
#include "common/id.h"

#include <string.h>
#include <sys/random.h>

static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz234567";

int id_random(char *out, size_t chars)
{
    unsigned char bytes[64];

    for (size_t done = 0; done < chars;) {
        size_t want = chars - done < sizeof(bytes) ? chars - done : sizeof(bytes);
        if (getrandom(bytes, want, 0) != (ssize_t)want)
            return -EIO;
        for (size_t i = 0; i < want; i++)
            out[done++] = alphabet[bytes[i] & 31];
    }
    out[chars] = '\0';
    return 0;
}

int id_new(char prefix, char *out)
{
    out[0] = prefix;
    return id_random(out + 1, ID_CHARS);
}

bool id_is(char prefix, const char *text)
{
    return text[0] == prefix && strlen(text) == 1 + ID_CHARS &&
           strspn(text + 1, alphabet) == ID_CHARS;
}
