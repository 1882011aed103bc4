// SPDX-License-Identifier: Apache-2.0
// The YAML loader: what converts and what stays a text, positions, and everything it refuses; and
// the same positions for JSON texts.
#include "common/yaml.h"

#include "common/cleanup.h"
#include "common/json.h"
#include "common/json_marks.h"
#include "common/strbuf.h"
#include "test/unit/suite.h"

#include <check.h>
#include <string.h>

static struct yaml_doc *load(const char *text)
{
    struct yaml_doc *doc = NULL;
    struct err e = {""};
    int r = yaml_parse(text, strlen(text), &doc, &e);
    ck_assert_msg(r == 0, "%s\n%s", e.text, text);
    return doc;
}

static void same_as(const char *yaml, const char *json)
{
    struct yaml_doc *doc = load(yaml);
    cleanup_free char *text = json_text(yaml_root(doc));
    ck_assert_msg(strcmp(text, json) == 0, "%s\ngave %s\nnot  %s", yaml, text, json);
    yaml_doc_free(doc);
}

static void refused(const char *text, const char *says)
{
    struct yaml_doc *doc = NULL;
    struct err e = {""};
    int r = yaml_parse(text, strlen(text), &doc, &e);
    ck_assert_msg(r == -EPROTO, "%d for %s", r, text);
    ck_assert_ptr_null(doc);
    ck_assert_msg(strstr(e.text, says) != NULL, "%s\nsaid: %s\nnot:  %s", text, e.text, says);
    ck_assert_msg(strncmp(e.text, "line ", 5) == 0, "%s", e.text);
}

START_TEST(scalars)
    {
        same_as("[1, -2, 1.10, 0, 0.5, -0.25]", "[1,-2,1.1000000000000001,0,0.5,-0.25]");
        same_as("[true, false, null, ~, ]", "[true,false,null,null]");
        same_as("a:", "{\"a\":null}");
        same_as("[no, yes, on, off, True, NO, Null]",
                "[\"no\",\"yes\",\"on\",\"off\",\"True\",\"NO\",\"Null\"]");
        same_as(
            "[010, 0x1f, 0o7, 1e3, 1_000, +1, .5, 1., 22:22, 1:30, .inf, 2001-01-01]",
            "[\"010\",\"0x1f\",\"0o7\",\"1e3\",\"1_000\",\"+1\",\".5\",\"1.\",\"22:22\",\"1:30\","
            "\".inf\",\"2001-01-01\"]");
        same_as("['1', \"true\", 'null', \"~\"]", "[\"1\",\"true\",\"null\",\"~\"]");
        same_as("[9223372036854775807, 9223372036854775808]",
                "[9223372036854775807,\"9223372036854775808\"]");
        same_as("a: |\n  x\n  y\nb: >-\n  p\n  q\n", "{\"a\":\"x\\ny\\n\",\"b\":\"p q\"}");
        same_as("1: x\ntrue: y\n", "{\"1\":\"x\",\"true\":\"y\"}");
        same_as("", "null");
        same_as("# nothing\n", "null");
        same_as("\xef\xbb\xbf"
                "a: 1",
                "{\"a\":1}");
        same_as("{\"a\": [1, {\"b\": \"\\u00e9\"}]}", "{\"a\":[1,{\"b\":\"\u00e9\"}]}");
    }
END_TEST

START_TEST(positions_and_sources)
    {
        int line = 0, column = 0;
        struct yaml_doc *doc =
            load("image: 1.10\nenv:\n  A: 010\n  B: 'x'\nlist:\n  - true\n  - 5\n");
        json_t *root = yaml_root(doc);
        json_t *env = json_object_get(root, "env");

        ck_assert(yaml_position(doc, json_object_get(root, "image"), &line, &column));
        ck_assert_int_eq(line, 1);
        ck_assert_int_eq(column, 8);
        ck_assert(yaml_key_position(doc, env, "A", &line, &column));
        ck_assert_int_eq(line, 3);
        ck_assert_int_eq(column, 3);
        ck_assert(yaml_position(doc, json_object_get(env, "B"), &line, &column));
        ck_assert_int_eq(line, 4);
        ck_assert_int_eq(column, 6);
        ck_assert(!yaml_key_position(doc, env, "C", &line, &column));
        ck_assert(!yaml_key_position(doc, root, "A", &line, &column));
        ck_assert(!yaml_position(doc, json_true(), &line, &column));
        ck_assert_str_eq(yaml_source(doc, json_object_get(root, "image")), "1.10");
        ck_assert_str_eq(yaml_source(doc, json_object_get(env, "A")), "010");
        ck_assert_ptr_null(yaml_source(doc, json_object_get(env, "B")));
        ck_assert_ptr_null(yaml_source(doc, env));
        yaml_doc_free(doc);
        yaml_doc_free(NULL);
    }
END_TEST

START_TEST(refusals)
    {
        refused("a: 1\nb: 2\na: 3\n", "line 3, column 1: the key \"a\" is already given on line 1");
        refused("x: {a: 1, a: 2}", "line 1, column 11: the key \"a\"");
        refused("a: &x 1", "line 1, column 4: anchors");
        refused("a: &x {b: 1}", "anchors");
        refused("a: *x", "line 1, column 4: aliases");
        refused("<<: {a: 1}", "line 1, column 1: merge keys");
        refused("a: !!int '1'", "tags");
        refused("a: !foo [1]", "tags");
        refused("a: ! x", "tags");
        refused("a: 1\n---\nb: 2\n", "line 2, column 1: a second document");
        refused("[a]: 1", "a key is a text");
        refused("{{a: b}: 1}", "a key is a text");
        refused("a: \"x\\0y\"", "line 1, column 4: a NUL character");
        refused("\"x\\0y\": 1", "a NUL character");
        refused("a:\n\tb: 1", "not with tabs");
        refused("a: [1, 2", "did not find expected ',' or ']'");
        refused("a: @x", "needs quotes");
        refused("a: b: c", "line 1, column 5");
        refused("a: \xff", "line 1, column 4: not readable as UTF-8");
        refused("a: 1\nb: \xc3(", "line 2, column 5: not readable as UTF-8");
        refused("\xff\xfe"
                "a",
                "not readable as UTF-8");
        refused("a: \x01", "not readable as UTF-8");
    }
END_TEST

START_TEST(a_nul_byte_in_the_file)
    {
        struct yaml_doc *doc = NULL;
        struct err e = {""};
        ck_assert_int_eq(yaml_parse("a: 1\0b", 6, &doc, &e), -EPROTO);
        ck_assert_ptr_nonnull(strstr(e.text, "line 1, column 5"));
    }
END_TEST

static void repeat(struct strbuf *b, const char *text, int times)
{
    for (int i = 0; i < times; i++)
        strbuf_puts(b, text);
}

START_TEST(limits)
    {
        cleanup_strbuf struct strbuf deep = {0};
        cleanup_strbuf struct strbuf deeper = {0};
        cleanup_strbuf struct strbuf many = {0};
        cleanup_strbuf struct strbuf bomb = {0};

        repeat(&deep, "[", YAML_MAX_DEPTH);
        repeat(&deep, "]", YAML_MAX_DEPTH);
        yaml_doc_free(load(deep.data));
        repeat(&deeper, "[", 100000);
        refused(deeper.data, "nested more than 32");
        strbuf_puts(&many, "[");
        repeat(&many, "1,", YAML_MAX_NODES);
        strbuf_puts(&many, "]");
        refused(many.data, "more than 20000 values");
        strbuf_puts(&bomb, "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n");
        refused(bomb.data, "anchors");
    }
END_TEST

START_TEST(json_positions)
    {
        static const char text[] =
            "{\"a\\\"\\u007b\": [1, true,\n {\"b\" : \"\u00e9}\", \"c\":1.50}],\n"
            "  \"d\": {}, \"e\": 1e3 }";
        int line = 0, column = 0;
        cleanup_json json_t *root = NULL;
        struct json_marks *marks = NULL;

        ck_assert_int_eq(json_parse(text, sizeof(text) - 1, &root, NULL), 0);
        ck_assert_int_eq(json_marks_scan(text, sizeof(text) - 1, root, &marks), 0);
        const json_t *inner = json_array_get(json_object_get(root, "a\"{"), 2);
        ck_assert(json_marks_position(marks, inner, &line, &column));
        ck_assert_int_eq(line * 100 + column, 202);
        ck_assert(json_marks_key_position(marks, inner, "c", &line, &column));
        ck_assert_int_eq(line * 100 + column, 215);
        ck_assert_str_eq(json_marks_source(marks, json_object_get(inner, "c")), "1.50");
        ck_assert_str_eq(json_marks_source(marks, json_object_get(root, "e")), "1e3");
        ck_assert(json_marks_key_position(marks, root, "d", &line, &column));
        ck_assert_int_eq(line * 100 + column, 303);
        ck_assert(json_marks_position(marks, json_object_get(root, "d"), &line, &column));
        ck_assert_int_eq(line * 100 + column, 308);
        json_marks_free(marks);
    }
END_TEST

int main(void)
{
    TCase *c = tcase_create("yaml");
    tcase_add_test(c, scalars);
    tcase_add_test(c, positions_and_sources);
    tcase_add_test(c, refusals);
    tcase_add_test(c, a_nul_byte_in_the_file);
    tcase_add_test(c, limits);
    tcase_add_test(c, json_positions);
    return run_case("yaml", c);
}
