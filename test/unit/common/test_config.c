// SPDX-License-Identifier: Apache-2.0
// Configuration by table: defaults, every type, and errors that name file, line and field.
#include "common/config.h"

#include "common/cleanup.h"
#include "test/unit/suite.h"

#include <check.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sample {
    char *name;
    char *note;
    int64_t port;
    bool on;
    int64_t wait_ms;
    int64_t memory;
    int64_t cpu;
    char **names;
    char **labels;
};

#define AT(member) offsetof(struct sample, member)

static const struct config_field fields[] = {
    {"name", CONFIG_STRING, AT(name), "meadow", 0, 0},
    {"note", CONFIG_STRING, AT(note), NULL, 0, 0},
    {"listen.port", CONFIG_INT, AT(port), "7420", 1, 65535},
    {"listen.on", CONFIG_BOOL, AT(on), "true", 0, 0},
    {"wait", CONFIG_DURATION_MS, AT(wait_ms), "2s", 200, 600000},
    {"memory", CONFIG_MEMORY, AT(memory), "1g", 0, 0},
    {"cpu", CONFIG_CPU, AT(cpu), "1", 0, 0},
    {"names", CONFIG_STRING_LIST, AT(names), NULL, 0, 0},
    {"labels", CONFIG_STRING_LIST, AT(labels), "[a, b]", 0, 0},
};

static char path[] = "/tmp/meadow-test-config-XXXXXX";

static int load(const char *text, struct sample *s, struct err *e)
{
    (void)strcpy(path + strlen(path) - 6, "XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    int r = config_load(path, fields, ARRAY_SIZE(fields), s, e);
    unlink(path);
    return r;
}

static void good(const char *text, struct sample *s)
{
    struct err e = {""};
    ck_assert_msg(load(text, s, &e) == 0, "%s", e.text);
}

static void bad(const char *text, const char *place, const char *says)
{
    struct sample s = {0};
    struct err e = {""};
    ck_assert_msg(load(text, &s, &e) < 0, "%s", text);
    ck_assert_msg(strncmp(e.text, path, strlen(path)) == 0, "%s", e.text);
    ck_assert_msg(strstr(e.text, place) && strstr(e.text, says), "%s", e.text);
    ck_assert_ptr_null(s.name);
    ck_assert_ptr_null(s.names);
}

START_TEST(defaults)
    {
        struct sample s;
        struct err e = {""};

        memset(&s, 0x5a, sizeof(s)); // what was there before does not matter
        ck_assert_int_eq(config_load(NULL, fields, ARRAY_SIZE(fields), &s, &e), 0);
        ck_assert_str_eq(s.name, "meadow");
        ck_assert_ptr_null(s.note);
        ck_assert_int_eq(s.port, 7420);
        ck_assert(s.on);
        ck_assert_int_eq(s.wait_ms, 2000);
        ck_assert_int_eq(s.memory, INT64_C(1) << 30);
        ck_assert_int_eq(s.cpu, 1000);
        ck_assert_ptr_null(s.names);
        ck_assert_str_eq(s.labels[1], "b");
        ck_assert_ptr_null(s.labels[2]);
        config_free(fields, ARRAY_SIZE(fields), &s);
        config_free(fields, ARRAY_SIZE(fields), &s);
    }
END_TEST

START_TEST(a_file)
    {
        struct sample s;

        good("name: 1.10\nlisten: {port: 80, on: false}\nwait: 500ms\nmemory: 64m\ncpu: 0.5\n"
             "names: [a, 1.10, 'x y']\nlabels: []\nnote:\n",
             &s);
        ck_assert_str_eq(s.name, "1.10");
        ck_assert_int_eq(s.port, 80);
        ck_assert(!s.on);
        ck_assert_int_eq(s.wait_ms, 500);
        ck_assert_int_eq(s.memory, 64 << 20);
        ck_assert_int_eq(s.cpu, 500);
        ck_assert_str_eq(s.names[1], "1.10");
        ck_assert_str_eq(s.names[2], "x y");
        ck_assert_ptr_null(s.labels[0]);
        config_free(fields, ARRAY_SIZE(fields), &s);
        good("listen.port: 81\n", &s);
        ck_assert_int_eq(s.port, 81);
        config_free(fields, ARRAY_SIZE(fields), &s);
        good("# empty\n", &s);
        config_free(fields, ARRAY_SIZE(fields), &s);
    }
END_TEST

START_TEST(mistakes)
    {
        struct err e = {""};
        struct sample s = {0};

        bad("name: a\nnaem: b\n", "line 2, column 1: naem", "did you mean \"name\"?");
        bad("lisen: {port: 1}\n", "line 1, column 1: lisen", "did you mean \"listen\"?");
        bad("listen:\n  prt: 1\n", "line 2, column 3: listen.prt", "did you mean \"listen.port\"?");
        bad("nothing_like_it: 1\n", "nothing_like_it", "unknown field");
        bad("listen: {port: 70000}\n", "line 1, column 10: listen.port",
            "70000 is not between 1 and 65535");
        bad("listen: {port: x}\n", "listen.port", "expected a whole number, found \"x\"");
        bad("listen: {port: 1.5}\n", "listen.port", "found \"1.5\"");
        bad("listen: {on: yes}\n", "listen.on", "expected true or false, found \"yes\"");
        bad("listen: 5\n", "listen", "expected a mapping");
        bad("names: a\n", "names", "expected a list");
        bad("names: [{}]\n", "names", "list of texts");
        bad("name: [a]\n", "name", "found a list");
        bad("name: {a: b}\n", "name", "found a mapping");
        bad("wait: 1ms\n", "wait", "1ms is not between 200ms and 10m");
        bad("memory: lots\n", "memory", "amount of memory");
        bad("name: a\nname: b\n", "line 2", "already given");
        bad("- a\n", "", "expected");
        ck_assert_int_eq(config_load("/nonexistent/x.yml", fields, ARRAY_SIZE(fields), &s, &e),
                         -ENOENT);
        ck_assert_ptr_nonnull(strstr(e.text, "/nonexistent/x.yml"));
    }
END_TEST

int main(void)
{
    TCase *c = tcase_create("config");
    tcase_add_test(c, defaults);
    tcase_add_test(c, a_file);
    tcase_add_test(c, mistakes);
    return run_case("config", c);
}
