// SPDX-License-Identifier: Apache-2.0
// The meadow command: takes its line apart by the command table and runs the one command it names.
// From there: cmd_*.c (one family each), cli.c (requests and errors), api.c (the connection),
// output_*.c.
#include "cli/cli.h"
#include "cli/command.h"
#include "proto/version.h"

#include <string.h>

static int help(const struct args *args)
{
    if (args->command)
        help_command(stdout, args->command);
    else if (!args->verb || !help_verb(stdout, args->verb))
        help_overview(stdout);
    return cli_finish(CLI_OK);
}

static int not_yet(const struct args *args)
{
    const struct command *c = args->command;
    return cli_failf(CLI_USAGE, "not supported yet", "`meadow help` lists what is there",
                     "\"meadow %s%s%s\" comes with a later version", c->verb, c->sub ? " " : "",
                     c->sub ? c->sub : "");
}

static int wrong(const struct args *args, const struct err *e)
{
    if (!args->verb && args->n_options == 0) {
        help_overview(stderr);
        return CLI_USAGE;
    }
    if (args->verb && !args->sub && !args->command && command_has_subs(args->verb)) {
        (void)help_verb(stderr, args->verb);
        return CLI_USAGE;
    }
    return cli_usage(args, e->text);
}

static int run(const struct args *args)
{
    struct cli cli;
    int code = cli_setup(&cli, args);
    if (code == CLI_OK)
        code = args->command->run(&cli, args);
    cli_close(&cli);
    return cli_finish(code);
}

int main(int argc, char **argv)
{
    struct args args;
    struct err e = {""};

    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return puts("meadow " MEADOW_VERSION) < 0;
    int r = args_parse(argc, argv, &args, &e);
    if (r == -ENOSYS)
        return not_yet(&args);
    if (r < 0)
        return wrong(&args, &e);
    if (args_has(&args, "help"))
        return help(&args);
    return run(&args);
}
