// SPDX-License-Identifier: Apache-2.0
// Splitting at the dots, and headers by allow-list.
#include "common/jose/compact.h"

#include "common/cleanup.h"
#include "common/jose/b64.h"
#include "common/json.h"

#include <string.h>

int compact_split(const char *text, size_t len, struct span *parts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *dot = memchr(text, '.', len);
        if (!dot != (i == n - 1))
            return -EPROTO;
        size_t part = dot ? (size_t)(dot - text) : len;
        parts[i] = (struct span){text, part};
        text += part + (dot != NULL);
        len -= part + (dot != NULL);
    }
    return 0;
}

static bool is_known(const char *name, const char *const *known)
{
    for (; *known; known++)
        if (strcmp(name, *known) == 0)
            return true;
    return false;
}

int compact_header(const struct span *part, const char *const *known, json_t **ret)
{
    cleanup_free unsigned char *text = NULL;
    cleanup_json json_t *j = NULL;
    const char *name;
    json_t *value;
    size_t len;
    if (part->len == 0 || part->len > COMPACT_HEADER_MAX)
        return -EPROTO;
    int r = b64_decode_alloc(part->text, part->len, &text, &len);
    if (r == 0)
        r = json_parse((const char *)text, len, &j, NULL);
    if (r < 0)
        return r;
    if (!json_is_object(j))
        return -EPROTO;
    json_object_foreach (j, name, value) {
        if (!is_known(name, known))
            return -EPROTO;
    }
    *ret = TAKE_PTR(j);
    return 0;
}
