// SPDX-License-Identifier: Apache-2.0
// The one error convention: functions return 0 or a negative errno; when a person will read the
// reason, the last parameter is a `struct err` that holds one line of text.
#pragma once

#include <errno.h>

#define WARN_UNUSED __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))

struct err {
    char text[512];
};

// Writes the text into `e` (NULL allowed) and returns `code` (a negative errno), so that failing is
// one line: `return err_set(e, -EINVAL, "port %d: ...", port);`
int err_set(struct err *e, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

// Puts "context: " before the text that is there and returns `code`. Long texts are cut at the end.
int err_wrap(struct err *e, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

// Same as err_set, with ": " and strerror(-code) appended.
int err_errno(struct err *e, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);
