// SPDX-License-Identifier: Apache-2.0
// What somebody may have meant who misspelt an option or a command.
#include "cli/command.h"

#include "common/text.h"

#include <string.h>

const char *suggest_option(const struct option_spec *own, const char *name)
{
    const char *names[64];
    size_t n = 0;

    for (; own && own->name && n < 40; own++)
        names[n++] = own->name;
    for (const struct option_spec *s = args_global_options; s->name && n < 64; s++)
        names[n++] = s->name;
    return text_suggest(name, names, n, sizeof(*names));
}

int command_unknown(const char *verb, const char *sub, struct err *e)
{
    const char *names[96];
    size_t n = 0;

    for (const struct command *c = command_table; c->verb && n < 96; c++)
        if (!sub || strcmp(c->verb, verb) == 0)
            names[n++] = sub ? c->sub : c->verb;
    const char *near = text_suggest(sub ? sub : verb, names, n, sizeof(*names));
    const char *head = sub ? verb : "";
    const char *gap = sub ? " " : "";
    const char *last = sub ? sub : verb;
    return near ? err_set(e, -ENOENT, "there is no command \"%s%s%.40s\"; did you mean \"%s%s%s\"?",
                          head, gap, last, head, gap, near)
                : err_set(e, -ENOENT, "there is no command \"%s%s%.40s\"", head, gap, last);
}
