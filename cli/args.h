// SPDX-License-Identifier: Apache-2.0
// A command line, taken apart by the command table: which command, its options, its arguments.
// Pure.
#pragma once

#include "common/err.h"
#include <stdbool.h>
#include <stddef.h>

struct command;

struct option_spec {
    const char *name;  // "tail" for --tail; NULL ends a list
    char letter;       // 'f' for -f; 0 = none
    const char *value; // what --help calls the value; NULL = a flag
    const char *help;
};

#define ARGS_OPTIONS_MAX 64
#define ARGS_WORDS_MAX 64

struct args {
    const struct command *command; // NULL only while nothing was recognised
    struct arg_option {
        const struct option_spec *spec;
        const char *value; // NULL for a flag; borrowed from argv
    } options[ARGS_OPTIONS_MAX];
    size_t n_options;
    const char *words[ARGS_WORDS_MAX]; // what follows the command's name; borrowed from argv
    size_t n_words;
    const char *verb; // as typed, NULL when there is none
    const char *sub;  // as typed
};

// Options of every command.
extern const struct option_spec args_global_options[];

// argv[0] is skipped. 0; -EINVAL: wrong usage, e says how; -ENOENT: no command of that name, e
// suggests the nearest; -ENOSYS: a reserved name (ret->command is set). ret is filled as far as it
// goes in every case.
int args_parse(int argc, char **argv, struct args *ret, struct err *e) WARN_UNUSED;

// The last value of an option; NULL when absent. For a flag: "" when given.
const char *args_value(const struct args *a, const char *name);
bool args_has(const struct args *a, const char *name);
// A whole number of at least `min`; *ret keeps its value when the option is absent. -EINVAL with
// text.
int args_number(const struct args *a, const char *name, long min, long max, long *ret,
                struct err *e) WARN_UNUSED;
