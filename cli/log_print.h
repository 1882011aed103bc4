// SPDX-License-Identifier: Apache-2.0
// Log lines of several tasks on one output: each behind the name of its task.
#pragma once

#include "common/strbuf.h"
#include <stdbool.h>
#include <stdio.h>

struct log_print; // takes application/x-ndjson in pieces of any size

struct log_print_options {
    FILE *to;
    bool color;
    bool timestamps;
    bool raw_json;  // pass the lines on as they are
    unsigned width; // of the task names
};
struct log_print *log_print_new(const struct log_print_options *options); // NULL = out of memory
void log_print_free(struct log_print *p);
// 0, or -ENOMEM, -EPIPE when the output is gone.
int log_print_feed(struct log_print *p, const char *data, size_t len) WARN_UNUSED;
// After a broken connection the stream begins again: as many lines of each task as were printed are
// skipped.
void log_print_again(struct log_print *p);
