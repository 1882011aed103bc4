// SPDX-License-Identifier: Apache-2.0
// Log lines of several tasks: prefixes, bytes that are no text, pieces of any size, and a stream
// that begins again.
#include "cli/log_print.h"

#include "common/cleanup.h"
#include "test/unit/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char lines[] =
    "{\"task\":\"j1/actor/"
    "0\",\"attempt\":1,\"stream\":\"stdout\",\"time\":\"T1\",\"text\":\"one\"}\n"
    "{\"task\":\"j1/learner/"
    "0\",\"attempt\":1,\"stream\":\"stderr\",\"time\":\"T2\",\"text\":\"two\"}\n"
    "\n"
    "{\"task\":\"j1/actor/0\",\"attempt\":1,\"stream\":\"stdout\",\"time\":\"T3\",\"base64\":\"/"
    "wBh\"}\n"
    "{\"task\":\"j1/actor/0\",\"attempt\":1,\"stream\":\"stdout\",\"time\":\"T4\",\"gap\":7}\n";
static const char printed[] = "actor/0   | one\nlearner/0 | two\nactor/0   | \xff\0a\nactor/0   | "
                              "[meadow: 7 bytes lost here]\n";

static char *out;
static size_t out_len;
static FILE *to;

static struct log_print *begin(struct log_print_options o)
{
    to = open_memstream(&out, &out_len);
    o.to = to;
    struct log_print *p = log_print_new(&o);
    ck_assert_ptr_nonnull(p);
    return p;
}

static void finish(struct log_print *p)
{
    log_print_free(p);
    (void)fclose(to);
}

START_TEST(pieces_of_any_size)
    {
        size_t step = (size_t)_i + 1;
        struct log_print *p = begin((struct log_print_options){.width = 9});
        for (size_t at = 0; at < sizeof(lines) - 1; at += step) {
            size_t n = sizeof(lines) - 1 - at;
            ck_assert_int_eq(log_print_feed(p, lines + at, n < step ? n : step), 0);
        }
        finish(p);
        ck_assert_uint_eq(out_len, sizeof(printed) - 1);
        ck_assert_int_eq(memcmp(out, printed, out_len), 0);
        free(out);
    }
END_TEST

START_TEST(a_stream_that_begins_again_repeats_nothing)
    {
        struct log_print *p = begin((struct log_print_options){.width = 9});
        ck_assert_int_eq(log_print_feed(p, lines, 150), 0); // one line and a half
        log_print_again(p);
        ck_assert_int_eq(log_print_feed(p, lines, sizeof(lines) - 1), 0);
        finish(p);
        ck_assert_uint_eq(out_len, sizeof(printed) - 1);
        ck_assert_int_eq(memcmp(out, printed, out_len), 0);
        free(out);
    }
END_TEST

START_TEST(times_and_colours_when_asked_for)
    {
        struct log_print *p =
            begin((struct log_print_options){.width = 7, .timestamps = true, .color = true});
        const char *end = strchr(lines, '\n');
        ck_assert_int_eq(log_print_feed(p, lines, (size_t)(end - lines) + 1), 0);
        finish(p);
        ck_assert_ptr_nonnull(strstr(out, "actor/0 |\033[0m T1 one\n"));
        ck_assert_int_eq(out[0], '\033');
        free(out);
    }
END_TEST

START_TEST(json_passes_through)
    {
        struct log_print *p = begin((struct log_print_options){.raw_json = true});
        ck_assert_int_eq(log_print_feed(p, lines, sizeof(lines) - 1), 0);
        finish(p);
        ck_assert_uint_eq(out_len, sizeof(lines) - 2); // without the empty line
        free(out);
    }
END_TEST

START_TEST(damage_costs_one_line)
    {
        static const char bad[] = "{broken\n{\"task\":\"j/a/0\",\"text\":\"x\"}\n{\"task\":7}\n";
        struct log_print *p = begin((struct log_print_options){.width = 3});
        ck_assert_int_eq(log_print_feed(p, bad, sizeof(bad) - 1), 0);
        finish(p);
        ck_assert_ptr_nonnull(strstr(out, "a/0 | x\n"));
        free(out);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("log_print");
    tcase_add_loop_test(t, pieces_of_any_size, 0, 40);
    tcase_add_test(t, a_stream_that_begins_again_repeats_nothing);
    tcase_add_test(t, times_and_colours_when_asked_for);
    tcase_add_test(t, json_passes_through);
    tcase_add_test(t, damage_costs_one_line);
    return run_case("log_print", t);
}
