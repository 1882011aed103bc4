// SPDX-License-Identifier: Apache-2.0
#include "proto/image_name.h"

#include <stdio.h>
#include <string.h>

static const char *skip(const char *text, const char *prefix)
{
    size_t len = strlen(prefix);
    return strncmp(text, prefix, len) == 0 ? text + len : text;
}

void image_name(const char *reference, char *out, size_t size)
{
    const char *name = skip(skip(reference, "docker.io/"), "index.docker.io/");
    name = skip(name, "library/");
    const char *at = strchr(name, '@');
    size_t len = at ? (size_t)(at - name) : strlen(name);
    const char *slash = memrchr(name, '/', len);
    const char *rest = slash ? slash : name;
    const char *tag = memchr(rest, ':', len - (size_t)(rest - name));
    size_t bare = tag ? (size_t)(tag - name) : len;
    (void)snprintf(out, size, "%.*s%s", (int)bare, name, at ? at : tag ? tag : ":latest");
}
