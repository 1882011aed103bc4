// SPDX-License-Identifier: Apache-2.0
// Conditions on labels.
#include "proto/constraint.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum op { OP_EQUAL, OP_NOT, OP_IN, OP_NOT_IN, OP_GLOB, OP_GE, OP_LE, OP_GT, OP_LT };

static const struct {
    const char *prefix;
    enum op op;
} ops[] = {{"!=", OP_NOT}, {">=", OP_GE},   {"<=", OP_LE},  {">", OP_GT},
           {"<", OP_LT},   {"=", OP_EQUAL}, {"in ", OP_IN}, {"not in ", OP_NOT_IN}};

static const char *skip(const char *p)
{
    return p + strspn(p, " ");
}

static enum op read_op(const char *text, const char **ret_rest)
{
    for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
        size_t len = strlen(ops[i].prefix);
        if (strncmp(text, ops[i].prefix, len) == 0) {
            *ret_rest = skip(text + len);
            return ops[i].op;
        }
    }
    *ret_rest = text;
    return strpbrk(text, "*?[") ? OP_GLOB : OP_EQUAL;
}

static bool number(const char *text, double *ret)
{
    char *end;
    if (strspn(text, "+-.0123456789") != strlen(text))
        return false;
    *ret = strtod(text, &end);
    return end != text && !*end && isfinite(*ret);
}

// Whether the value is in "a, b, c".
static bool in_list(const char *list, const char *value)
{
    size_t want = strlen(value);
    while (*(list = skip(list))) {
        size_t len = strcspn(list, ","), used = len;
        while (used > 0 && list[used - 1] == ' ')
            used--;
        if (used == want && strncmp(list, value, want) == 0)
            return true;
        list += len + (list[len] == ',');
    }
    return false;
}

const char *constraint_problem(const char *text)
{
    const char *rest;
    double v;
    enum op op = read_op(text, &rest);
    if (strlen(text) >= CONSTRAINT_TEXT_BYTES)
        return "expected at most 255 characters";
    if (strchr(text, '\n'))
        return "expected one line";
    if (!*rest && op != OP_EQUAL)
        return "expected a value after the operator";
    if (op == OP_EQUAL && text[0] == '=' && text[1] && strchr("=<>", text[1]))
        return "expected =, !=, >=, <=, > or <; a space before a value that begins so: `= >x`";
    if ((op == OP_GE || op == OP_LE || op == OP_GT || op == OP_LT) && !number(rest, &v))
        return "expected a number after <, <=, > or >=";
    return NULL;
}

bool constraint_match(const char *text, const char *value)
{
    const char *rest;
    double limit = 0, v = 0;
    enum op op = read_op(text, &rest);
    if (op == OP_NOT)
        return !value || strcmp(value, rest) != 0;
    if (op == OP_NOT_IN)
        return !value || !in_list(rest, value);
    if (!value)
        return false;
    if (op == OP_EQUAL)
        return strcmp(value, rest) == 0;
    if (op == OP_IN)
        return in_list(rest, value);
    if (op == OP_GLOB)
        return fnmatch(rest, value, 0) == 0;
    if (!number(rest, &limit) || !number(value, &v))
        return false;
    return op == OP_GE   ? v >= limit
           : op == OP_LE ? v <= limit
           : op == OP_GT ? v > limit
                         : v < limit;
}

static bool take_line(const char **at, char *out, size_t size)
{
    size_t len = strcspn(*at, "\n");
    if ((*at)[len] != '\n' || len >= size)
        return false;
    memcpy(out, *at, len);
    out[len] = '\0';
    *at += len + 1;
    return true;
}

bool constraint_next(const char **at, char label[CONSTRAINT_LABEL_BYTES],
                     char text[CONSTRAINT_TEXT_BYTES])
{
    return take_line(at, label, CONSTRAINT_LABEL_BYTES) &&
           take_line(at, text, CONSTRAINT_TEXT_BYTES);
}
