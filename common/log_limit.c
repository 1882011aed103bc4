// SPDX-License-Identifier: Apache-2.0
// A bounded table of offences with the time of their last line and the count since.
#include "common/log_limit.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <uthash.h>
#include <utlist.h>

#define KEY_BYTES 128

struct offence {
    char key[KEY_BYTES]; // "what who"
    int64_t told_ms;
    uint64_t kept_back;
    UT_hash_handle hh;
    struct offence *prev, *next; // least recently seen first
};

struct log_limit {
    unsigned max;
    int64_t interval_ms;
    struct offence *by_key;
    struct offence *seen;
};

int log_limit_new(unsigned max, int64_t interval_ms, struct log_limit **ret)
{
    struct log_limit *l = calloc(1, sizeof(*l));
    if (!l)
        return -ENOMEM;
    l->max = max ? max : 1;
    l->interval_ms = interval_ms;
    *ret = l;
    return 0;
}

static void forget(struct log_limit *l, struct offence *o)
{
    HASH_DEL(l->by_key, o);
    DL_DELETE(l->seen, o);
    free(o);
}

void log_limit_free(struct log_limit *l)
{
    while (l && l->seen)
        forget(l, l->seen);
    free(l);
}

static bool first(struct log_limit *l, const char *key, int64_t now_ms)
{
    if (HASH_COUNT(l->by_key) >= l->max)
        forget(l, l->seen);
    struct offence *o = calloc(1, sizeof(*o));
    if (!o)
        return true;
    (void)snprintf(o->key, sizeof(o->key), "%s", key);
    o->told_ms = now_ms;
    HASH_ADD_STR(l->by_key, key, o);
    DL_APPEND(l->seen, o);
    return true;
}

bool log_limit_pass(struct log_limit *l, const char *who, const char *what, int64_t now_ms,
                    uint64_t *ret_before)
{
    char key[KEY_BYTES];
    struct offence *o;
    *ret_before = 0;
    (void)snprintf(key, sizeof(key), "%s %s", what, who);
    HASH_FIND_STR(l->by_key, key, o);
    if (!o)
        return first(l, key, now_ms);
    DL_DELETE(l->seen, o);
    DL_APPEND(l->seen, o);
    if (now_ms - o->told_ms < l->interval_ms) {
        o->kept_back++;
        return false;
    }
    *ret_before = o->kept_back;
    o->kept_back = 0;
    o->told_ms = now_ms;
    return true;
}

void log_limit_warn(struct log_limit *l, const char *token, const char *who, const char *what,
                    const char *fmt, ...)
{
    char text[256];
    uint64_t before = 0;
    va_list ap;
    if (l && !log_limit_pass(l, who, what, clock_boot_ms(), &before))
        return;
    va_start(ap, fmt);
    if (vsnprintf(text, sizeof(text), fmt, ap) < 0)
        text[0] = '\0';
    va_end(ap);
    text_make_utf8(text);
    if (before)
        log_warn(token, "%s: %s (%llu more since the last such line)", who, text,
                 (unsigned long long)before);
    else
        log_warn(token, "%s: %s", who, text);
}
