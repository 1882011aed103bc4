// SPDX-License-Identifier: Apache-2.0
// Output: tables align by characters, YAML reads back as what it was written from (by our own
// reader), nothing reaches the terminal that could steer it.
#include "cli/output.h"

#include "common/cleanup.h"
#include "common/json.h"
#include "common/yaml.h"
#include "test/unit/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static char *yaml_of(const char *json)
{
    cleanup_json json_t *j = NULL;
    struct strbuf b = {0};
    struct err e = {""};
    ck_assert_msg(json_parse(json, strlen(json), &j, &e) == 0, "%s", e.text);
    output_yaml(&b, j);
    ck_assert(!b.failed);
    return strbuf_take(&b);
}

START_TEST(yaml_looks_as_people_write_it)
    {
        cleanup_free char *text = yaml_of("{\"name\": \"x\", \"list\": [1, \"two\", {\"a\": null, "
                                          "\"b\": []}], \"m\": {\"k\": true}, \"e\": {}}");
        ck_assert_str_eq(
            text, "name: x\nlist:\n  - 1\n  - two\n  - a: null\n    b: []\nm:\n  k: true\ne: {}\n");
    }
END_TEST

static const char *const values[] = {
    "{}",
    "{\"a\": {}, \"b\": [], \"c\": \"\"}",
    "{\"a\": \"no\", \"b\": \"true\", \"c\": \"null\", \"d\": \"1.10\", \"e\": \"010\", \"f\": "
    "\"22:22\", \"g\": \"~\"}",
    "{\"a\": \"- x\", \"b\": \"#x\", \"c\": \"a: b\", \"d\": \"a #b\", \"e\": \"x:\", \"f\": \" "
    "x\", \"g\": \"x \"}",
    "{\"a\": \"line\\nline\", \"b\": \"tab\\t\", \"c\": \"quote \\\" back \\\\\", \"d\": "
    "\"\\u00e4\\u20ac\", \"e\": \"\\u0001\"}",
    "{\"a b\": 1, \"1\": 2, \"true\": 3, \"x:y\": 4, \"\": 5, \"-\": 6}",
    "{\"a\": [[1, 2], [], [[3]], {\"x\": [{\"y\": 1}]}], \"b\": -5, \"c\": 1.5}",
    "{\"path\": \"/tmp/x.yml\", \"time\": \"2026-01-02T03:04:05.678Z\", \"url\": "
    "\"https://127.0.0.1:7420\", \"v\": \"&x\"}",
};

START_TEST(yaml_reads_back_the_same)
    {
        struct err e = {""};
        struct yaml_doc *doc = NULL;
        cleanup_json json_t *j = NULL;
        cleanup_free char *text = yaml_of(values[_i]);

        ck_assert_int_eq(json_parse(values[_i], strlen(values[_i]), &j, &e), 0);
        ck_assert_msg(yaml_parse(text, strlen(text), &doc, &e) == 0, "%s\n%s", text, e.text);
        ck_assert_msg(json_equal(j, yaml_root(doc)), "%s", text);
        yaml_doc_free(doc);
    }
END_TEST

static const char *const headings[] = {"NAME", "STATE", "REASON", NULL};

static char *render(struct table *t, bool color, unsigned width)
{
    struct strbuf b = {0};
    table_render(t, color, width, &b);
    ck_assert(!b.failed);
    return strbuf_take(&b);
}

START_TEST(columns_are_as_wide_as_their_cells)
    {
        struct table *t = table_new(headings);
        table_cell(t, "\u00e4\u00f6");
        table_cell(t, "ready");
        table_cell(t, NULL);
        table_cell(t, "longer");
        table_cell(t, "not_ready");
        table_cellf(t, "why %d", 5);
        cleanup_free char *text = render(t, false, 0);
        ck_assert_str_eq(text, "NAME    STATE      REASON\n"
                               "\u00e4\u00f6      ready      -\n"
                               "longer  not_ready  why 5\n");
        table_free(t);
    }
END_TEST

START_TEST(states_are_coloured_when_asked_for)
    {
        struct table *t = table_new(headings);
        table_cell(t, "n");
        table_cell(t, "failed");
        table_cell(t, "");
        cleanup_free char *text = render(t, true, 0);
        ck_assert_str_eq(text, "NAME  STATE   REASON\nn     \033[31mfailed\033[0m  -\n");
        table_free(t);
    }
END_TEST

START_TEST(lines_are_cut_at_the_width)
    {
        struct table *t = table_new(headings);
        table_cell(t, "n");
        table_cell(t, "ready");
        table_cell(t, "a long reason");
        cleanup_free char *text = render(t, false, 18);
        ck_assert_str_eq(text, "NAME  STATE  REASO\nn     ready  a lon\n");
        table_free(t);
    }
END_TEST

START_TEST(control_characters_are_shown_harmless)
    {
        cleanup_strbuf struct strbuf b = {0};
        output_safe(&b, "a\033[2Jb\nc\x7f\xc2\x9b"
                        "d\u00e4");
        ck_assert_str_eq(b.data, "a?[2Jb?c??d\u00e4");
    }
END_TEST

START_TEST(formats_have_names)
    {
        enum output_format f;
        ck_assert_int_eq(output_format_from_string("yaml", &f), 0);
        ck_assert_int_eq(f, OUTPUT_YAML);
        ck_assert_int_eq(output_format_from_string("xml", &f), -EINVAL);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("output");
    tcase_add_test(t, yaml_looks_as_people_write_it);
    tcase_add_loop_test(t, yaml_reads_back_the_same, 0, sizeof(values) / sizeof(values[0]));
    tcase_add_test(t, columns_are_as_wide_as_their_cells);
    tcase_add_test(t, states_are_coloured_when_asked_for);
    tcase_add_test(t, lines_are_cut_at_the_width);
    tcase_add_test(t, control_characters_are_shown_harmless);
    tcase_add_test(t, formats_have_names);
    return run_case("output", t);
}
