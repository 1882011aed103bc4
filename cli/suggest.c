// SPDX-License-Identifier: Apache-2.0
// The nearest known word to a misspelt one: edit distance (with transpositions), accepted up to a
// third of the word.
#include "cli/command.h"

#include <string.h>

#define WORD_MAX 32

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

// Optimal string alignment distance; words longer than WORD_MAX count as far away.
static unsigned distance(const char *a, const char *b)
{
    unsigned d[WORD_MAX + 1][WORD_MAX + 1];
    size_t la = strlen(a), lb = strlen(b);

    if (la > WORD_MAX || lb > WORD_MAX)
        return WORD_MAX;
    for (size_t i = 0; i <= la; i++)
        d[i][0] = (unsigned)i;
    for (size_t j = 0; j <= lb; j++)
        d[0][j] = (unsigned)j;
    for (size_t i = 1; i <= la; i++) {
        for (size_t j = 1; j <= lb; j++) {
            unsigned cost = a[i - 1] != b[j - 1];
            d[i][j] = least(least(d[i - 1][j] + 1, d[i][j - 1] + 1), d[i - 1][j - 1] + cost);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[la][lb];
}

const char *suggest(const char *text, const char *const *candidates, size_t n)
{
    const char *best = NULL;
    unsigned best_distance = (unsigned)strlen(text) / 3 + 1;

    for (size_t i = 0; i < n; i++) {
        unsigned x = distance(text, candidates[i]);
        if (x <= best_distance && (!best || x < best_distance)) {
            best = candidates[i];
            best_distance = x;
        }
    }
    return best;
}

const char *suggest_option(const struct option_spec *own, const char *name)
{
    const char *names[64];
    size_t n = 0;

    for (; own && own->name && n < 40; own++)
        names[n++] = own->name;
    for (const struct option_spec *s = args_global_options; s->name && n < 64; s++)
        names[n++] = s->name;
    return suggest(name, names, n);
}

int command_unknown(const char *verb, const char *sub, struct err *e)
{
    const char *names[96];
    size_t n = 0;

    for (const struct command *c = command_table; c->verb && n < 96; c++)
        if (!sub || strcmp(c->verb, verb) == 0)
            names[n++] = sub ? c->sub : c->verb;
    const char *near = suggest(sub ? sub : verb, names, n);
    const char *head = sub ? verb : "";
    const char *gap = sub ? " " : "";
    const char *last = sub ? sub : verb;
    return near ? err_set(e, -ENOENT, "there is no command \"%s%s%.40s\"; did you mean \"%s%s%s\"?",
                          head, gap, last, head, gap, near)
                : err_set(e, -ENOENT, "there is no command \"%s%s%.40s\"", head, gap, last);
}
