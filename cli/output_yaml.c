// SPDX-License-Identifier: Apache-2.0
// JSON values as block style YAML. A text stands plain only when no YAML reader (1.1 or 1.2) could
// take it for anything else; otherwise it is quoted as in JSON, which is YAML as well.
#include "cli/output.h"

#include "common/cleanup.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static bool is_word(const char *text)
{
    static const char *const words[] = {"null", "true", "false", "yes", "no",
                                        "on",   "off",  "y",     "n"};
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (strcasecmp(text, words[i]) == 0)
            return true;
    return false;
}

// Begins with a letter (so no number, date or indicator), has only characters that mean nothing to
// YAML.
static bool is_plain(const char *text)
{
    static const char more[] = "_-./@+";
    size_t len = strlen(text);

    if (!isalpha((unsigned char)text[0]) || is_word(text))
        return false;
    for (size_t i = 0; i < len; i++) {
        bool inner_space = text[i] == ' ' && i + 1 < len;
        bool inner_colon = text[i] == ':' && i + 1 < len && text[i + 1] != ' ';
        if (!isalnum((unsigned char)text[i]) && !strchr(more, text[i]) && !inner_space &&
            !inner_colon)
            return false;
    }
    return true;
}

static void put_text(struct strbuf *out, const char *text)
{
    json_t *j;

    if (is_plain(text)) {
        strbuf_puts(out, text);
        return;
    }
    j = json_string(text);
    char *quoted = j ? json_dumps(j, JSON_ENCODE_ANY) : NULL;
    if (quoted)
        strbuf_puts(out, quoted);
    else
        out->failed = true;
    free(quoted);
    json_decref(j);
}

static void put_scalar(struct strbuf *out, const json_t *v)
{
    if (json_is_string(v)) {
        put_text(out, json_string_value(v));
    } else if (json_is_object(v)) {
        strbuf_puts(out, "{}");
    } else if (json_is_array(v)) {
        strbuf_puts(out, "[]");
    } else {
        char *text = json_dumps(v, JSON_ENCODE_ANY);
        if (text)
            strbuf_puts(out, text);
        else
            out->failed = true;
        free(text);
    }
}

static bool is_block(const json_t *v)
{
    return (json_is_object(v) && json_object_size(v) > 0) ||
           (json_is_array(v) && json_array_size(v) > 0);
}

static void indent(struct strbuf *out, unsigned depth)
{
    strbuf_printf(out, "%*s", (int)depth * 2, "");
}

// Writes the lines of a mapping or list; the first one without indent when `open`: it stands behind
// "- ".
static void put_block(struct strbuf *out, const json_t *v, unsigned depth, bool open)
{
    const char *key;
    json_t *x;
    size_t i;

    json_array_foreach (v, i, x) {
        if (!open)
            indent(out, depth);
        open = false;
        strbuf_puts(out, "- ");
        if (is_block(x)) {
            put_block(out, x, depth + 1, true);
        } else {
            put_scalar(out, x);
            strbuf_puts(out, "\n");
        }
    }
    if (!json_is_object(v))
        return;
    json_object_foreach ((json_t *)(uintptr_t)v, key, x) {
        if (!open)
            indent(out, depth);
        open = false;
        put_text(out, key);
        strbuf_puts(out, is_block(x) ? ":\n" : ": ");
        if (is_block(x)) {
            put_block(out, x, depth + 1, false);
        } else {
            put_scalar(out, x);
            strbuf_puts(out, "\n");
        }
    }
}

void output_yaml(struct strbuf *out, const json_t *value)
{
    if (is_block(value)) {
        put_block(out, value, 0, false);
    } else {
        put_scalar(out, value);
        strbuf_puts(out, "\n");
    }
}
