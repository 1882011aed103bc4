// SPDX-License-Identifier: Apache-2.0
// The command line: every command of the table is found, options stand anywhere, and what is wrong
// is told with a suggestion.
#include "cli/args.h"

#include "cli/command.h"
#include "test/unit/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct args a;
static struct err e;

// Splits a line at spaces; the words live until the next call.
static int parse(const char *line)
{
    static char text[512];
    static char *argv[64];
    int argc = 0;
    char *rest = NULL;

    (void)snprintf(text, sizeof(text), "meadow %s", line);
    for (char *w = strtok_r(text, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
        argv[argc++] = w;
    e.text[0] = '\0';
    return args_parse(argc, argv, &a, &e);
}

START_TEST(every_command_is_found)
    {
        for (const struct command *c = command_table; c->verb; c++) {
            ck_assert_ptr_eq(command_find(c->verb, c->sub), c);
            ck_assert_int_eq(command_has_subs(c->verb), c->sub != NULL);
            ck_assert_msg(!c->run || c->help[0], "%s has no help", c->verb);
        }
    }
END_TEST

START_TEST(options_stand_anywhere)
    {
        ck_assert_int_eq(parse("-o json --dir /x job logs --tail=5 J -f --component actor -q"), 0);
        ck_assert_str_eq(a.command->sub, "logs");
        ck_assert_uint_eq(a.n_words, 1);
        ck_assert_str_eq(a.words[0], "J");
        ck_assert_str_eq(args_value(&a, "output"), "json");
        ck_assert_str_eq(args_value(&a, "dir"), "/x");
        ck_assert_str_eq(args_value(&a, "tail"), "5");
        ck_assert_str_eq(args_value(&a, "component"), "actor");
        ck_assert(args_has(&a, "follow"));
        ck_assert(args_has(&a, "quiet"));
        ck_assert(!args_has(&a, "timestamps"));
    }
END_TEST

START_TEST(letters_can_be_joined)
    {
        ck_assert_int_eq(parse("job logs J -fqoyaml"), 0);
        ck_assert(args_has(&a, "follow"));
        ck_assert(args_has(&a, "quiet"));
        ck_assert_str_eq(args_value(&a, "output"), "yaml");
    }
END_TEST

START_TEST(the_last_value_counts)
    {
        long n = 7;
        ck_assert_int_eq(parse("job logs J --tail 3 --tail 4"), 0);
        ck_assert_int_eq(args_number(&a, "tail", 0, 10, &n, &e), 0);
        ck_assert_int_eq(n, 4);
        ck_assert_int_eq(args_number(&a, "index", 0, 10, &n, &e), 0);
        ck_assert_int_eq(n, 4);
        ck_assert_int_eq(args_number(&a, "tail", 0, 3, &n, &e), -EINVAL);
    }
END_TEST

START_TEST(a_dash_is_a_word_and_two_end_options)
    {
        ck_assert_int_eq(parse("job start - --name x"), 0);
        ck_assert_str_eq(a.words[0], "-");
        ck_assert_int_eq(parse("job start -- --name"), 0);
        ck_assert_str_eq(a.words[0], "--name");
    }
END_TEST

static const struct {
    const char *line;
    int code;
    const char *says;
} wrong[] = {
    {"", -EINVAL, "a command is missing"},
    {"jbo list", -ENOENT, "did you mean \"job\""},
    {"job strat x", -ENOENT, "did you mean \"job start\""},
    {"statsu", -ENOENT, "did you mean \"status\""},
    {"zzzzzzz", -ENOENT, "there is no command \"zzzzzzz\""},
    {"job", -EINVAL, "one more word"},
    {"job logs J --tial 3", -EINVAL, "did you mean --tail"},
    {"job logs J -x", -EINVAL, "no option -x"},
    {"job logs J --tail", -EINVAL, "--tail needs a value"},
    {"job logs J -o", -EINVAL, "-o needs a value"},
    {"job logs J --follow=yes", -EINVAL, "takes no value"},
    {"job logs", -EINVAL, "an argument is missing"},
    {"status now", -EINVAL, "unexpected argument \"now\""},
    {"--frob status", -EINVAL, "no option --frob"},
    {"job scale J a=3", -ENOSYS, "not supported yet"},
    {"schedule start f --anything -x", -ENOSYS, "not supported yet"},
    {"exec J/C/0 -it -- sh", -ENOSYS, "not supported yet"},
};

START_TEST(mistakes_are_told)
    {
        ck_assert_msg(parse(wrong[_i].line) == wrong[_i].code, "%s", wrong[_i].line);
        ck_assert_msg(strstr(e.text, wrong[_i].says), "%s: %s", wrong[_i].line, e.text);
    }
END_TEST

START_TEST(help_needs_no_arguments)
    {
        ck_assert_int_eq(parse("job logs --help"), 0);
        ck_assert(args_has(&a, "help"));
        ck_assert_int_eq(parse("job --help"), 0);
        ck_assert_ptr_null(a.command);
        ck_assert_str_eq(a.verb, "job");
        ck_assert_int_eq(parse("-h"), 0);
    }
END_TEST

START_TEST(too_many_options_are_refused)
    {
        char line[512] = "status";
        for (int i = 0; i < 40; i++)
            (void)strcat(line, " -qq");
        ck_assert_int_eq(parse(line), -EINVAL);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("args");
    tcase_add_test(t, every_command_is_found);
    tcase_add_test(t, options_stand_anywhere);
    tcase_add_test(t, letters_can_be_joined);
    tcase_add_test(t, the_last_value_counts);
    tcase_add_test(t, a_dash_is_a_word_and_two_end_options);
    tcase_add_loop_test(t, mistakes_are_told, 0, sizeof(wrong) / sizeof(wrong[0]));
    tcase_add_test(t, help_needs_no_arguments);
    tcase_add_test(t, too_many_options_are_refused);
    return run_case("args", t);
}
