// SPDX-License-Identifier: Apache-2.0
// Help, printed from the command table.
#include "cli/cli.h"
#include "cli/command.h"

#include <string.h>

static void print_options(FILE *to, const struct option_spec *s)
{
    char left[64];

    for (; s && s->name; s++) {
        char letter[8] = "    ";
        if (s->letter)
            (void)snprintf(letter, sizeof(letter), "-%c, ", s->letter);
        (void)snprintf(left, sizeof(left), "%s--%s%s%s", letter, s->name, s->value ? " " : "",
                       s->value ? s->value : "");
        (void)fprintf(to, "  %-28s %s\n", left, s->help);
    }
}

static void print_usage(FILE *to, const struct command *c, const char *lead)
{
    (void)fprintf(to, "%smeadow %s%s%s%s%s%s\n", lead, c->verb, c->sub ? " " : "",
                  c->sub ? c->sub : "", c->args[0] ? " " : "", c->args,
                  c->options ? " [options]" : "");
}

static void print_line(FILE *to, const struct command *c)
{
    char left[64];

    (void)snprintf(left, sizeof(left), "%s%s%s%s%s", c->verb, c->sub ? " " : "",
                   c->sub ? c->sub : "", c->args[0] ? " " : "", c->args);
    (void)fprintf(to, "  %-28s %s\n", left, c->help);
}

void help_overview(FILE *to)
{
    size_t column = 0;

    (void)fputs("usage: meadow COMMAND [options]\n\nCommands:\n", to);
    for (const struct command *c = command_table; c->verb; c++)
        if (c->run)
            print_line(to, c);
    (void)fputs("\nNot supported yet:", to);
    for (const struct command *c = command_table; c->verb; c++) {
        if (c->run)
            continue;
        if (column++ % 8 == 0)
            (void)fputs("\n ", to);
        (void)fprintf(to, " %s%s%s%s", c->verb, c->sub ? " " : "", c->sub ? c->sub : "",
                      c[1].verb ? "," : "");
    }
    (void)fputs("\n\nOptions of every command:\n", to);
    print_options(to, args_global_options);
    (void)fputs("\nExit status: 0 done, 1 refused or failed, 2 wrong usage, 3 master unreachable.\n"
                "`meadow help COMMAND` tells more; job files are described in docs/job-file.md.\n",
                to);
}

void help_command(FILE *to, const struct command *c)
{
    if (!c->run) {
        (void)fprintf(to, "meadow %s%s%s: not supported yet\n", c->verb, c->sub ? " " : "",
                      c->sub ? c->sub : "");
        return;
    }
    print_usage(to, c, "usage: ");
    (void)fprintf(to, "\n%s\n", c->help);
    if (c->options) {
        (void)fputs("\nOptions:\n", to);
        print_options(to, c->options);
    }
    (void)fputs("\nOptions of every command:\n", to);
    print_options(to, args_global_options);
}

bool help_verb(FILE *to, const char *verb)
{
    bool found = false;

    for (const struct command *c = command_table; c->verb; c++) {
        if (strcmp(c->verb, verb) != 0)
            continue;
        if (!found)
            (void)fprintf(to, "usage: meadow %s COMMAND [options]\n\nCommands:\n", verb);
        found = true;
        if (c->run)
            print_line(to, c);
    }
    if (found)
        (void)fprintf(to, "\n`meadow help %s COMMAND` tells more.\n", verb);
    return found;
}

int cmd_help(struct cli *cli, const struct args *args)
{
    struct err e = {""};
    const char *verb = args->n_words > 0 ? args->words[0] : NULL;
    const char *sub = args->n_words > 1 ? args->words[1] : NULL;

    (void)cli;
    if (!verb) {
        help_overview(stdout);
        return CLI_OK;
    }
    const struct command *c = command_find(verb, sub);
    if (c)
        help_command(stdout, c);
    else if (sub || !help_verb(stdout, verb)) {
        int r = command_unknown(verb, sub, &e);
        return cli_fail(r < 0 ? CLI_USAGE : CLI_OK, "help", e.text,
                        "`meadow help` lists the commands");
    }
    return CLI_OK;
}
