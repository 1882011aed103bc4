// SPDX-License-Identifier: Apache-2.0
// Error texts: set, wrap, append errno. See err.h for the convention.
#include "common/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

PRINTF_LIKE(2, 0) static void set_text(struct err *e, const char *fmt, va_list ap)
{
    if (vsnprintf(e->text, sizeof(e->text), fmt, ap) < 0)
        e->text[0] = '\0';
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
    if (e) {
        va_list ap;
        va_start(ap, fmt);
        set_text(e, fmt, ap);
        va_end(ap);
    }
    return code;
}

int err_wrap(struct err *e, int code, const char *fmt, ...)
{
    if (e) {
        struct err inner = *e;
        va_list ap;
        va_start(ap, fmt);
        set_text(e, fmt, ap);
        va_end(ap);
        size_t len = strlen(e->text);
        (void)snprintf(e->text + len, sizeof(e->text) - len, ": %s", inner.text);
    }
    return code;
}

int err_errno(struct err *e, int code, const char *fmt, ...)
{
    if (e) {
        va_list ap;
        va_start(ap, fmt);
        set_text(e, fmt, ap);
        va_end(ap);
        size_t len = strlen(e->text);
        (void)snprintf(e->text + len, sizeof(e->text) - len, ": %s", strerror(-code));
    }
    return code;
}
