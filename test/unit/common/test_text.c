// SPDX-License-Identifier: Apache-2.0
// Quoting into messages and suggestions.
#include "common/text.h"

#include "common/cleanup.h"
#include "test/unit/suite.h"

#include <check.h>
#include <errno.h>
#include <string.h>

static const char *const words[] = {"command", "components", "image", "num", "mount",
                                    "mounts",  "cpu",        "gpu",   "env"};

static const char *suggest(const char *text)
{
    return text_suggest(text, words, ARRAY_SIZE(words), sizeof(words[0]));
}

START_TEST(suggestions)
    {
        ck_assert_str_eq(suggest("comand"), "command");
        ck_assert_str_eq(suggest("Command"), "command");
        ck_assert_str_eq(suggest("ocmmand"), "command");
        ck_assert_str_eq(suggest("component"), "components");
        ck_assert_str_eq(suggest("cup"), "cpu");
        ck_assert_str_eq(suggest("mout"), "mount");
        ck_assert_ptr_null(suggest("xyz"));
        ck_assert_ptr_null(suggest("replicas"));
        ck_assert_ptr_null(suggest(""));
        ck_assert_ptr_null(
            suggest("commandcommandcommandcommandcommandcommandcommandcommandcommand"));
    }
END_TEST

START_TEST(quotes)
    {
        char out[TEXT_QUOTE_BYTES];
        char lots[300];

        ck_assert_str_eq(text_quote("abc", out), "\"abc\"");
        ck_assert_str_eq(text_quote("", out), "\"\"");
        ck_assert_str_eq(text_quote("a\nb\x7f", out), "\"a?b?\"");
        ck_assert_str_eq(text_quote("\xff", out), "\"?\"");
        for (int shift = 0; shift < 4; shift++) { // the cut falls on every byte of a character
            memset(lots, 'x', sizeof(lots));
            for (int i = shift; i + 3 < 299; i += 3)
                memcpy(lots + i, "\u20ac", 3);
            lots[299] = '\0';
            text_quote(lots, out);
            ck_assert_uint_lt(strlen(out), TEXT_QUOTE_BYTES);
            ck_assert_str_eq(out + strlen(out) - 4, "...\"");
            ck_assert_ptr_null(strchr(out, '?'));
        }
    }
END_TEST

START_TEST(utf8)
    {
        char cut[] = "ab\xe2\x82";
        char bad[] = "\xc0\x80 \xed\xa0\x80 \xf4\x90\x80\x80 ok \xc3\xa9";

        text_make_utf8(cut);
        ck_assert_str_eq(cut, "ab");
        text_make_utf8(bad);
        ck_assert_str_eq(bad, "?? ??? ???? ok \u00e9");
    }
END_TEST

START_TEST(percent)
    {
        static const struct {
            const char *text, *plain;
        } cases[] = {{"", ""},       {"a%2Fb%2fc", "a/b/c"}, {"%41", "A"}, {"%c3%a9", "\u00e9"},
                     {"a+b", "a+b"}, {"%2541", "%41"},       {"%", NULL},  {"%4", NULL},
                     {"a%zz", NULL}, {"%00", NULL},          {"%4g", NULL}};
        char out[16];

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            const char *want = cases[i].plain;
            int n = text_percent_decode(cases[i].text, strlen(cases[i].text), out);
            ck_assert_int_eq(n, want ? (int)strlen(want) : -EINVAL);
            if (want)
                ck_assert_str_eq(out, want);
        }
        // The length counts, not the end of the text; and it may be done in place.
        ck_assert_int_eq(text_percent_decode("%41", 2, out), -EINVAL);
        char same[] = "%41%42";
        ck_assert_int_eq(text_percent_decode(same, 6, same), 2);
        ck_assert_str_eq(same, "AB");
        ck_assert_int_eq(text_percent_decode("a\0b", 3, out), -EINVAL);
    }
END_TEST

int main(void)
{
    TCase *c = tcase_create("text");
    tcase_add_test(c, suggestions);
    tcase_add_test(c, quotes);
    tcase_add_test(c, utf8);
    tcase_add_test(c, percent);
    return run_case("text", c);
}
