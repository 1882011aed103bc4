// SPDX-License-Identifier: Apache-2.0
// Quantities: cpu in millicores, memory in bytes, durations in milliseconds. All arithmetic is on
// integers, so that "0.1" is 100m and not 99m; a value that is not whole in its unit is refused
// rather than rounded.
#include "common/units.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MAX_DIGITS 19 // of a whole part or a fraction: fits uint64_t

// A decimal number as written, not yet multiplied by its unit.
struct decimal {
    uint64_t whole;
    uint64_t fraction;
    uint64_t scale; // 10^digits of the fraction
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// Digits to a number; moves *p behind them. False when there are none or too many.
static bool take_digits(const char **p, uint64_t *ret_value, uint64_t *ret_scale)
{
    uint64_t value = 0, scale = 1;
    const char *start = *p;

    for (; is_digit(**p); (*p)++) {
        if (*p - start >= MAX_DIGITS)
            return false;
        value = value * 10 + (uint64_t)(**p - '0');
        scale *= 10;
    }
    *ret_value = value;
    *ret_scale = scale;
    return *p > start;
}

static bool take_decimal(const char **p, struct decimal *ret)
{
    uint64_t unused;
    *ret = (struct decimal){.scale = 1};
    if (!take_digits(p, &ret->whole, &unused))
        return false;
    if (**p != '.')
        return true;
    (*p)++;
    return take_digits(p, &ret->fraction, &ret->scale);
}

// whole.fraction * multiplier. -EDOM when the product is not whole, -ERANGE when it does not fit.
static int decimal_times(const struct decimal *d, int64_t multiplier, int64_t *ret)
{
    __extension__ typedef unsigned __int128 wide;
    wide part = (wide)d->fraction * (uint64_t)multiplier;
    if (part % d->scale != 0)
        return -EDOM;
    wide sum = (wide)d->whole * (uint64_t)multiplier + part / d->scale;
    if (sum > INT64_MAX)
        return -ERANGE;
    *ret = (int64_t)sum;
    return 0;
}

static int fail(struct err *e, int code, const char *what, const char *text, const char *finest)
{
    if (code == -EDOM)
        return err_set(e, -EINVAL, "\"%.60s\" is no whole number of %s", text, finest);
    if (code == -ERANGE)
        return err_set(e, -ERANGE, "\"%.60s\" is too large", text);
    return err_set(e, -EINVAL, "\"%.60s\" is no %s", text, what);
}

int units_parse_cpu(const char *text, int64_t *ret_milli, struct err *e)
{
    static const char *const what = "number of cores such as 4, 0.5 or 500m";
    struct decimal d;
    const char *p = text;
    int64_t value = 0;

    if (!take_decimal(&p, &d))
        return fail(e, -EINVAL, what, text, NULL);
    bool milli = strcmp(p, "m") == 0;
    if (*p && !milli)
        return fail(e, -EINVAL, what, text, NULL);
    int r = decimal_times(&d, milli ? 1 : 1000, &value);
    if (r < 0)
        return fail(e, r, what, text, "millicores (a thousandth of a core)");
    *ret_milli = value;
    return 0;
}

// Bytes per unit for the letters after a memory size; 0 = no such unit.
static int64_t memory_unit(const char *unit)
{
    static const char letters[] = "kmgt";
    if (!*unit)
        return INT64_C(1) << 20;
    if (strcasecmp(unit, "b") == 0)
        return 1;
    char first = *unit >= 'A' && *unit <= 'Z' ? (char)(*unit + ('a' - 'A')) : *unit;
    const char *found = strchr(letters, first);
    bool known = strcasecmp(unit + 1, "") == 0 || strcasecmp(unit + 1, "b") == 0 ||
                 strcasecmp(unit + 1, "i") == 0 || strcasecmp(unit + 1, "ib") == 0;
    if (!found || !known)
        return 0;
    return INT64_C(1024) << (10 * (found - letters));
}

int units_parse_memory(const char *text, int64_t *ret_bytes, struct err *e)
{
    static const char *const what = "amount of memory such as 4096m, 1.5g or 512 (MiB)";
    struct decimal d;
    const char *p = text;
    int64_t value = 0;

    if (!take_decimal(&p, &d))
        return fail(e, -EINVAL, what, text, NULL);
    int64_t unit = memory_unit(p);
    if (unit == 0)
        return fail(e, -EINVAL, what, text, NULL);
    int r = decimal_times(&d, unit, &value);
    if (r < 0)
        return fail(e, r, what, text, "bytes");
    *ret_bytes = value;
    return 0;
}

struct time_unit {
    const char *name;
    int64_t ms;
};

// From large to small: parsing wants them in this order, printing takes the first that is exact.
static const struct time_unit time_units[] = {
    {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1},
};
#define N_TIME_UNITS (sizeof(time_units) / sizeof(time_units[0]))

// The unit at *p (its letters end where a digit or the text's end comes), -1 = none.
static int take_time_unit(const char **p)
{
    size_t len = 0;
    while ((*p)[len] && !is_digit((*p)[len]))
        len++;
    for (size_t i = 0; i < N_TIME_UNITS; i++) {
        if (strlen(time_units[i].name) == len && strncmp(*p, time_units[i].name, len) == 0) {
            *p += len;
            return (int)i;
        }
    }
    return -1;
}

// One "12h" of a duration; `last` is the unit before it, so that units only get smaller.
static int take_time_part(const char **p, int *last, int64_t *sum)
{
    struct decimal d;
    int64_t ms = 0;

    if (!take_decimal(p, &d))
        return -EINVAL;
    int unit = take_time_unit(p);
    if (unit <= *last)
        return -EINVAL;
    *last = unit;
    int r = decimal_times(&d, time_units[unit].ms, &ms);
    if (r < 0)
        return r;
    return __builtin_add_overflow(*sum, ms, sum) ? -ERANGE : 0;
}

int units_parse_duration(const char *text, int64_t *ret_ms, struct err *e)
{
    static const char *const what = "duration such as 1500ms, 10s, 5m, 1h30m or 7d";
    struct decimal d;
    const char *p = text;
    int64_t sum = 0;
    int last = -1;
    int r = 0;

    if (take_decimal(&p, &d) && !*p) {
        r = decimal_times(&d, 1000, &sum);
    } else {
        p = text;
        do
            r = take_time_part(&p, &last, &sum);
        while (r == 0 && *p);
    }
    if (r < 0)
        return fail(e, r, what, text, "milliseconds");
    *ret_ms = sum;
    return 0;
}

void units_format_cpu(int64_t milli, char *out)
{
    if (milli % 1000 == 0)
        (void)snprintf(out, UNITS_TEXT_BYTES, "%" PRId64, milli / 1000);
    else
        (void)snprintf(out, UNITS_TEXT_BYTES, "%" PRId64 "m", milli);
}

void units_format_memory(int64_t bytes, char *out)
{
    if (bytes % (1 << 20) == 0)
        (void)snprintf(out, UNITS_TEXT_BYTES, "%" PRId64 "m", bytes / (1 << 20));
    else if (bytes % 1024 == 0)
        (void)snprintf(out, UNITS_TEXT_BYTES, "%" PRId64 "k", bytes / 1024);
    else
        (void)snprintf(out, UNITS_TEXT_BYTES, "%" PRId64 "b", bytes);
}

void units_format_duration(int64_t ms, char *out)
{
    if (ms == 0) {
        (void)snprintf(out, UNITS_TEXT_BYTES, "0s");
        return;
    }
    for (size_t i = 0; i < N_TIME_UNITS; i++) {
        if (ms % time_units[i].ms == 0) {
            (void)snprintf(out, UNITS_TEXT_BYTES, "%" PRId64 "%s", ms / time_units[i].ms,
                           time_units[i].name);
            return;
        }
    }
}

// The value without its sign, and the sign as a text before it.
static const char *sign_of(int64_t value, uint64_t *ret_size)
{
    *ret_size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    return value < 0 ? "-" : "";
}

void units_human_cpu(int64_t milli, char *out)
{
    uint64_t size;
    const char *sign = sign_of(milli, &size);
    uint64_t hundredths = size / 10 + (size % 10 >= 5);

    if (hundredths % 100 == 0)
        (void)snprintf(out, UNITS_TEXT_BYTES, "%s%" PRIu64, sign, hundredths / 100);
    else if (hundredths % 10 == 0)
        (void)snprintf(out, UNITS_TEXT_BYTES, "%s%" PRIu64 ".%" PRIu64, sign, hundredths / 100,
                       hundredths / 10 % 10);
    else
        (void)snprintf(out, UNITS_TEXT_BYTES, "%s%" PRIu64 ".%02" PRIu64, sign, hundredths / 100,
                       hundredths % 100);
}

void units_human_memory(int64_t bytes, char *out)
{
    static const char *const names[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    uint64_t size;
    const char *sign = sign_of(bytes, &size);
    double value = (double)size / 1024;
    size_t i = 0;

    if (size < 1024) {
        (void)snprintf(out, UNITS_TEXT_BYTES, "%s%" PRIu64 " B", sign, size);
        return;
    }
    // 1023.95 would print as 1024.0 of the smaller unit.
    for (; value >= 1023.95 && i + 1 < sizeof(names) / sizeof(names[0]); i++)
        value /= 1024;
    (void)snprintf(out, UNITS_TEXT_BYTES, "%s%.1f %s", sign, value, names[i]);
}

void units_human_duration(int64_t ms, char *out)
{
    uint64_t size;
    const char *sign = sign_of(ms, &size);
    uint64_t s = size / 1000;

    if (size < 1000)
        (void)snprintf(out, UNITS_TEXT_BYTES, "%s%" PRIu64 "ms", sign, size);
    else if (s < 60)
        (void)snprintf(out, UNITS_TEXT_BYTES, "%s%" PRIu64 "s", sign, s);
    else if (s < 3600)
        (void)snprintf(out, UNITS_TEXT_BYTES, "%s%" PRIu64 "m%" PRIu64 "s", sign, s / 60, s % 60);
    else if (s < 86400)
        (void)snprintf(out, UNITS_TEXT_BYTES, "%s%" PRIu64 "h%" PRIu64 "m", sign, s / 3600,
                       s / 60 % 60);
    else
        (void)snprintf(out, UNITS_TEXT_BYTES, "%s%" PRIu64 "d%" PRIu64 "h", sign, s / 86400,
                       s / 3600 % 24);
}
