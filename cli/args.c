// SPDX-License-Identifier: Apache-2.0
// Parsing in two passes: the first finds the command (global options may stand before and between
// its two words), the second reads options and arguments by that command's list. "--" ends options;
// "-" is an argument.
#include "cli/args.h"

#include "cli/command.h"

#include <stdlib.h>
#include <string.h>

const struct option_spec args_global_options[] = {
    {"dir", 0, "DIR", "the local cluster in DIR (MEADOW_DIR)"},
    {"master", 0, "URL", "the master: https://HOST:PORT or unix:/PATH (MEADOW_MASTER)"},
    {"token", 0, "T", "bearer token (better: MEADOW_TOKEN, which `ps` doesn't show)"},
    {"ca", 0, "FILE", "the cluster's CA certificate (MEADOW_CA)"},
    {"context", 0, "NAME", "a context of ~/.config/meadow/contexts.json"},
    {"sealed", 0, NULL, "in RSA+AES envelopes, signed with your key (MEADOW_SEALED)"},
    {"key", 0, "NAME", "which of your keys signs (MEADOW_KEY; default \"default\")"},
    {"output", 'o', "FORMAT", "table, json or yaml"},
    {"quiet", 'q', NULL, "names or ids alone"},
    {"no-color", 0, NULL, "no colours"},
    {"help", 'h', NULL, "help on a command"},
    {0},
};

static const struct option_spec *by_name(const struct option_spec *list, const char *name,
                                         size_t len)
{
    for (; list && list->name; list++)
        if (strlen(list->name) == len && strncmp(list->name, name, len) == 0)
            return list;
    return NULL;
}

static const struct option_spec *by_letter(const struct option_spec *list, char letter)
{
    for (; list && list->name; list++)
        if (list->letter == letter)
            return list;
    return NULL;
}

// Both look in the command's own list (may be NULL) first.
static const struct option_spec *find_long(const struct option_spec *own, const char *name,
                                           size_t len)
{
    const struct option_spec *s = by_name(own, name, len);
    return s ? s : by_name(args_global_options, name, len);
}

static const struct option_spec *find_letter(const struct option_spec *own, char letter)
{
    const struct option_spec *s = by_letter(own, letter);
    return s ? s : by_letter(args_global_options, letter);
}

static bool is_option(const char *text)
{
    return text[0] == '-' && text[1] != '\0';
}

// How many words of argv an option takes up, in the first pass; 0 = not a global option.
static int global_width(const char *text)
{
    if (text[1] == '-') {
        size_t len = strcspn(text + 2, "=");
        const struct option_spec *s = by_name(args_global_options, text + 2, len);
        return !s ? 0 : s->value && text[2 + len] == '\0' ? 2 : 1;
    }
    const struct option_spec *s = by_letter(args_global_options, text[1]);
    return !s ? 0 : s->value && text[2] == '\0' ? 2 : 1;
}

// The next word at or after *at that is not a global option; -1 when there is none.
static int next_word(int argc, char **argv, int *at)
{
    while (*at < argc && is_option(argv[*at])) {
        int width = strcmp(argv[*at], "--") == 0 ? 0 : global_width(argv[*at]);
        if (width == 0)
            return -1;
        *at += width;
    }
    return *at < argc ? (*at)++ : -1;
}

static int add_option(struct args *a, const struct option_spec *spec, const char *value,
                      struct err *e)
{
    if (a->n_options == ARGS_OPTIONS_MAX)
        return err_set(e, -EINVAL, "more than %d options", ARGS_OPTIONS_MAX);
    a->options[a->n_options++] = (struct arg_option){spec, value};
    return 0;
}

static int unknown_option(const struct option_spec *own, const char *name, size_t len,
                          struct err *e)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "%.*s", (int)len, name);
    const char *near = suggest_option(own, text);
    return near ? err_set(e, -EINVAL, "there is no option --%s; did you mean --%s?", text, near)
                : err_set(e, -EINVAL, "there is no option --%s", text);
}

// Takes argv[*at] (and its value); *at moves behind.
static int take_long(const struct option_spec *own, int argc, char **argv, int *at, struct args *a,
                     struct err *e)
{
    const char *name = argv[*at] + 2;
    size_t len = strcspn(name, "=");
    const char *value = name[len] == '=' ? name + len + 1 : NULL;
    const struct option_spec *s = find_long(own, name, len);

    (*at)++;
    if (!s)
        return unknown_option(own, name, len, e);
    if (!s->value && value)
        return err_set(e, -EINVAL, "--%s takes no value", s->name);
    if (s->value && !value) {
        if (*at >= argc)
            return err_set(e, -EINVAL, "--%s needs a value: --%s %s", s->name, s->name, s->value);
        value = argv[(*at)++];
    }
    return add_option(a, s, s->value ? value : "", e);
}

// -q, -fq, -ojson, -o json.
static int take_letters(const struct option_spec *own, int argc, char **argv, int *at,
                        struct args *a, struct err *e)
{
    const char *p = argv[(*at)++] + 1;

    for (; *p; p++) {
        const struct option_spec *s = find_letter(own, *p);
        if (!s)
            return err_set(e, -EINVAL, "there is no option -%c", *p);
        if (!s->value) {
            int r = add_option(a, s, "", e);
            if (r < 0)
                return r;
            continue;
        }
        if (p[1])
            return add_option(a, s, p + 1, e);
        if (*at >= argc)
            return err_set(e, -EINVAL, "-%c needs a value: -%c %s", *p, *p, s->value);
        return add_option(a, s, argv[(*at)++], e);
    }
    return 0;
}

static int add_word(struct args *a, const char *word, int *skip, struct err *e)
{
    if (*skip > 0) { // the command's own name
        (*skip)--;
        return 0;
    }
    if (a->n_words == ARGS_WORDS_MAX)
        return err_set(e, -EINVAL, "more than %d arguments", ARGS_WORDS_MAX);
    a->words[a->n_words++] = word;
    return 0;
}

static int take_all(int argc, char **argv, int skip, struct args *a, struct err *e)
{
    const struct option_spec *own = a->command ? a->command->options : NULL;
    bool options = true;
    int at = 1, r = 0;

    while (r == 0 && at < argc) {
        if (options && strcmp(argv[at], "--") == 0) {
            options = false;
            at++;
        } else if (options && is_option(argv[at])) {
            r = argv[at][1] == '-' ? take_long(own, argc, argv, &at, a, e)
                                   : take_letters(own, argc, argv, &at, a, e);
        } else {
            r = add_word(a, argv[at++], &skip, e);
        }
    }
    return r;
}

static int check_count(const struct args *a, struct err *e)
{
    const struct command *c = a->command;

    if (args_has(a, "help"))
        return 0;
    if ((int)a->n_words < c->min_words)
        return err_set(e, -EINVAL, "an argument is missing");
    if (c->max_words >= 0 && (int)a->n_words > c->max_words)
        return err_set(e, -EINVAL, "unexpected argument \"%.80s\"", a->words[c->max_words]);
    return 0;
}

int args_parse(int argc, char **argv, struct args *ret, struct err *e)
{
    int at = 1, words = 1;
    struct args *a = ret;

    memset(a, 0, sizeof(*a));
    int verb = next_word(argc, argv, &at);
    if (verb < 0) {
        int r = take_all(argc, argv, 0, a, e);
        return r < 0 || args_has(a, "help") ? r : err_set(e, -EINVAL, "a command is missing");
    }
    a->verb = argv[verb];
    if (command_has_subs(a->verb)) {
        int sub = next_word(argc, argv, &at);
        a->sub = sub < 0 ? NULL : argv[sub];
        words = sub < 0 ? 1 : 2;
    }
    a->command = command_find(a->verb, a->sub);
    if (a->command && !a->command->run)
        return err_set(e, -ENOSYS, "not supported yet");
    if (!a->command && (a->sub || !command_has_subs(a->verb)))
        return command_unknown(a->verb, a->sub, e);
    int r = take_all(argc, argv, words, a, e);
    if (r < 0 || args_has(a, "help"))
        return r;
    return a->command ? check_count(a, e)
                      : err_set(e, -EINVAL, "meadow %s needs one more word", a->verb);
}

const char *args_value(const struct args *a, const char *name)
{
    for (size_t i = a->n_options; i > 0; i--)
        if (strcmp(a->options[i - 1].spec->name, name) == 0)
            return a->options[i - 1].value;
    return NULL;
}

bool args_has(const struct args *a, const char *name)
{
    return args_value(a, name) != NULL;
}

int args_number(const struct args *a, const char *name, long min, long max, long *ret,
                struct err *e)
{
    const char *text = args_value(a, name);
    char *end;

    if (!text)
        return 0;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (errno || *text == '\0' || *end || n < min || n > max)
        return err_set(e, -EINVAL, "--%s: expected a whole number from %ld to %ld, found \"%.40s\"",
                       name, min, max, text);
    *ret = n;
    return 0;
}
