// SPDX-License-Identifier: Apache-2.0
// Amounts as people read them in an explanation. A need and a shortage are rounded up, what is free
// is rounded down, so that no rounding hides why something does not fit.
#include "master/scheduler/explain_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define MIB (INT64_C(1) << 20)

const char *lack_to_string(enum lack l)
{
    static const char *const names[LACK_MAX] = {"cpu",      "memory", "gpu",   "ports",
                                                "runtime",  "labels", "tasks", "exclusive",
                                                "affinity", "node",   "gang"};
    return names[l];
}

struct text text_on(char *buffer, size_t size)
{
    buffer[0] = '\0';
    return (struct text){.begin = buffer, .at = buffer, .left = size};
}

void text_add(struct text *t, const char *fmt, ...)
{
    va_list args;
    if (t->left == 0)
        return;
    va_start(args, fmt);
    int n = vsnprintf(t->at, t->left, fmt, args);
    va_end(args);
    size_t step = n < 0 ? 0 : (size_t)n < t->left ? (size_t)n : t->left - 1;
    t->at += step;
    t->left -= step;
}

void text_next(struct text *t)
{
    if (t->at != t->begin)
        text_add(t, "; ");
}

static void cores(int64_t milli, char *out)
{
    int64_t size = milli < 0 ? -milli : milli;
    int n = snprintf(out, AMOUNT_BYTES, "%s%" PRId64 ".%03d", milli < 0 ? "-" : "", size / 1000,
                     (int)(size % 1000));
    while (n > 0 && out[n - 1] == '0')
        out[--n] = '\0';
    if (n > 0 && out[n - 1] == '.')
        out[n - 1] = '\0';
}

static void mebibytes(int64_t bytes, bool up, char *out)
{
    int64_t mib = bytes / MIB;
    if (bytes % MIB > 0 && up)
        mib++;
    if (bytes % MIB < 0 && !up)
        mib--;
    if (mib != 0 && mib % 1024 == 0)
        (void)snprintf(out, AMOUNT_BYTES, "%" PRId64 " GiB", mib / 1024);
    else
        (void)snprintf(out, AMOUNT_BYTES, "%" PRId64 " MiB", mib);
}

void amount_text(enum lack l, int64_t amount, bool up, char *out)
{
    if (l == LACK_CPU)
        cores(amount, out);
    else if (l == LACK_MEMORY)
        mebibytes(amount, up, out);
    else
        (void)snprintf(out, AMOUNT_BYTES, "%" PRId64, amount);
}

void amount_named(enum lack l, int64_t amount, bool up, char *out)
{
    char number[AMOUNT_BYTES];
    amount_text(l, amount, up, number);
    (void)snprintf(out, AMOUNT_BYTES, "%.24s %s", number,
                   l == LACK_PORTS ? "free ports" : lack_to_string(l));
}
