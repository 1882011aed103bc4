// SPDX-License-Identifier: Apache-2.0
// The table of commands. Parsing, help and suggestions all read it; nothing about a command is said
// anywhere else.
#pragma once

#include "cli/args.h"
#include <stdio.h>

struct cli;

struct command {
    const char *verb;
    const char *sub;                   // NULL: the verb stands alone
    const char *args;                  // as shown by help: "FILE", "J [C]", ""
    const char *help;                  // one line
    const struct option_spec *options; // ends with name NULL; may be NULL
    int min_words, max_words;          // arguments; max < 0 = any number
    int (*run)(struct cli *cli,
               const struct args *args); // exit status; NULL: reserved, not supported yet
};

extern const struct command command_table[]; // ends with verb NULL

// Whether the verb takes a second word, as "job" does.
bool command_has_subs(const char *verb);
const struct command *command_find(const char *verb,
                                   const char *sub); // sub may be NULL; NULL when there is none
// -ENOENT with "there is no command ..., did you mean ...?".
int command_unknown(const char *verb, const char *sub, struct err *e) WARN_UNUSED;

// Among a command's own options (may be NULL) and the global ones.
const char *suggest_option(const struct option_spec *own, const char *name);

// `meadow help`: every command in a line; one command with its options.
void help_overview(FILE *to);
void help_command(FILE *to, const struct command *c);
// Every command of a verb. False when there is none of that name.
bool help_verb(FILE *to, const char *verb);
// `meadow help [VERB [SUB]]`.
int cmd_help(struct cli *cli, const struct args *args);
