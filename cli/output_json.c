// SPDX-License-Identifier: Apache-2.0
// JSON output, and what formats share: their names, and text that is safe on a terminal.
#include "cli/output.h"

#include "common/cleanup.h"

#include <string.h>

static const char *const names[OUTPUT_FORMAT_MAX] = {"table", "json", "yaml"};

int output_format_from_string(const char *text, enum output_format *ret)
{
    for (int i = 0; i < OUTPUT_FORMAT_MAX; i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret = (enum output_format)i;
            return 0;
        }
    }
    return -EINVAL;
}

static int append(const char *data, size_t len, void *userdata)
{
    struct strbuf *out = userdata;
    strbuf_append(out, data, len);
    return out->failed ? -1 : 0;
}

void output_json(struct strbuf *out, const json_t *value)
{
    if (json_dump_callback(value, append, out, JSON_INDENT(2) | JSON_ENCODE_ANY) < 0)
        out->failed = true;
    strbuf_puts(out, "\n");
}

void output_safe(struct strbuf *out, const char *text)
{
    const char *from = text; // all since then is in order
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        bool control = c < 0x20 || c == 0x7f;
        // C1 controls are C2 80..9F in UTF-8.
        bool c1 = c == 0xc2 && (unsigned char)text[1] >= 0x80 && (unsigned char)text[1] <= 0x9f;
        if (!control && !c1)
            continue;
        strbuf_append(out, from, (size_t)(text - from));
        strbuf_append(out, "?", 1);
        text += c1;
        from = text + 1;
    }
    strbuf_append(out, from, (size_t)(text - from));
}
