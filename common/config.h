// SPDX-License-Identifier: Apache-2.0
// One loader for the daemons' YAML files: a table of fields with defaults; an unknown field is an
// error with its line.
#pragma once

#include "common/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum config_type {
    CONFIG_STRING,
    CONFIG_INT,
    CONFIG_BOOL,
    CONFIG_DURATION_MS,
    CONFIG_MEMORY,
    CONFIG_CPU,
    CONFIG_STRING_LIST
};

struct config_field {
    const char *name; // "listen.port": dots are nested mappings
    enum config_type type;
    size_t offset; // into the caller's struct: char *, int64_t, bool, int64_t ms/bytes/milli, char
                   // ** (NULL-terminated)
    const char *default_text; // as written in the file; NULL = NULL / 0 / false
    int64_t min, max;         // for numbers; both 0 = no bound
};

// Fills the struct with defaults, then with the file (path NULL = defaults only). On failure
// nothing leaks and e names file, line and field (with the nearest known name for an unknown one).
// Texts are owned by the struct: config_free.
int config_load(const char *path, const struct config_field *fields, size_t n_fields, void *out,
                struct err *e) WARN_UNUSED;
void config_free(const struct config_field *fields, size_t n_fields, void *out);
