// SPDX-License-Identifier: Apache-2.0
// base64url (RFC 4648 section 5) without padding, white space or second spellings.
#include "common/jose/b64.h"

#include <stdint.h>
#include <stdlib.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void b64_append(struct strbuf *b, const void *data, size_t len)
{
    const unsigned char *p = data;
    char out[4];
    for (; len >= 3; len -= 3, p += 3) {
        out[0] = alphabet[p[0] >> 2];
        out[1] = alphabet[(p[0] & 3) << 4 | p[1] >> 4];
        out[2] = alphabet[(p[1] & 15) << 2 | p[2] >> 6];
        out[3] = alphabet[p[2] & 63];
        strbuf_append(b, out, 4);
    }
    if (len == 0)
        return;
    out[0] = alphabet[p[0] >> 2];
    out[1] = alphabet[(p[0] & 3) << 4 | (len == 2 ? p[1] >> 4 : 0)];
    if (len == 2)
        out[2] = alphabet[(p[1] & 15) << 2];
    strbuf_append(b, out, len + 1);
}

static int value(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '-'             ? 62
           : c == '_'             ? 63
                                  : -1;
}

int b64_decode(const char *text, size_t len, void *out, size_t size, size_t *ret_len)
{
    unsigned char *o = out;
    uint32_t bits = 0;
    size_t n = 0;
    int have = 0;
    if (len % 4 == 1)
        return -EPROTO;
    for (size_t i = 0; i < len; i++) {
        int v = value(text[i]);
        if (v < 0)
            return -EPROTO;
        bits = (bits << 6 | (uint32_t)v) & 0xffff;
        have += 6;
        if (have < 8)
            continue;
        have -= 8;
        if (n == size)
            return -EFBIG;
        o[n++] = (unsigned char)(bits >> have);
    }
    if (bits & ((1u << have) - 1))
        return -EPROTO;
    *ret_len = n;
    return 0;
}

int b64_decode_alloc(const char *text, size_t len, unsigned char **ret, size_t *ret_len)
{
    size_t size = len / 4 * 3 + 3;
    unsigned char *out = malloc(size + 1);
    if (!out)
        return -ENOMEM;
    int r = b64_decode(text, len, out, size, ret_len);
    if (r < 0) {
        free(out);
        return r;
    }
    out[*ret_len] = '\0';
    *ret = out;
    return 0;
}
