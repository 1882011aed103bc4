// SPDX-License-Identifier: Apache-2.0
// What is wrong with a job file: every mistake at once, each with path, line, column, what was
// found and what was expected; and texts that are no JSON or YAML at all.
#include "proto/job_spec.h"

#include "common/cleanup.h"
#include "common/strbuf.h"
#include "test/unit/suite.h"

#include <check.h>
#include <string.h>

struct result {
    int code;
    struct job_problems problems;
    struct job_warnings warnings;
    struct err e;
};

static struct result parse(const char *text, const char *format, const char *name)
{
    struct result x = {.e = {""}};
    struct job_spec *spec = NULL;
    x.code =
        job_spec_parse(text, strlen(text), format, name, &spec, &x.problems, &x.warnings, &x.e);
    ck_assert_ptr_null(spec);
    return x;
}

static void done(struct result *x)
{
    job_problems_free(&x->problems);
    job_warnings_free(&x->warnings);
}

static void dump(const struct result *x)
{
    for (size_t i = 0; i < x->problems.count; i++)
        printf("  %d:%d %s: %s\n", x->problems.items[i].line, x->problems.items[i].column,
               x->problems.items[i].path, x->problems.items[i].message);
}

// Whether the problems hold one at "path" whose message has `says`.
static bool has(const struct result *x, const char *path, int line, const char *says)
{
    for (size_t i = 0; i < x->problems.count; i++) {
        const struct job_problem *p = &x->problems.items[i];
        if (strcmp(p->path, path) == 0 && (!line || p->line == line) && strstr(p->message, says))
            return true;
    }
    printf("missing: %d %s: %s in\n", line, path, says);
    dump(x);
    return false;
}

// A file with this component "a" has exactly this problem.
static void component(const char *fields, const char *path, const char *says)
{
    char text[2000], full[200];

    (void)snprintf(text, sizeof(text), "name: x\ncomponents:\n  a: {%s}\n", fields);
    (void)snprintf(full, sizeof(full), "components.a%s%s", *path ? "." : "", path);
    struct result x = parse(text, "yaml", NULL);
    ck_assert_int_eq(x.code, -EINVAL);
    ck_assert(has(&x, full, 3, says));
    if (x.problems.count != 1)
        dump(&x);
    ck_assert_uint_eq(x.problems.count, 1);
    done(&x);
}

// A file with these top-level lines besides a good component.
static void top(const char *lines, const char *path, const char *says)
{
    char text[2000];

    (void)snprintf(text, sizeof(text), "components: {a: {command: ls}}\n%s\n", lines);
    struct result x = parse(text, "yaml", strncmp(lines, "name", 4) == 0 ? NULL : "named");
    ck_assert_int_eq(x.code, -EINVAL);
    ck_assert(has(&x, path, 0, says));
    ck_assert_uint_eq(x.problems.count, 1);
    done(&x);
}

static void malformed(const char *text, const char *format, const char *says)
{
    struct result x = parse(text, format, NULL);
    ck_assert_msg(x.code == -EPROTO, "%d for %s", x.code, text);
    ck_assert_msg(strstr(x.e.text, says) != NULL, "%s", x.e.text);
    ck_assert_msg(strncmp(x.e.text, "line ", 5) == 0, "%s", x.e.text);
    done(&x);
}

START_TEST(all_at_once)
    {
        struct result x = parse("name: \"bad name\"\n"
                                "priority: 101\n"
                                "components:\n"
                                "  actor:\n"
                                "    comand: ls\n"
                                "    num: 010\n"
                                "    resources: {cpu: -1, memory: 5m, gpu: 1.5}\n"
                                "    env: {1A: x, B: [1]}\n"
                                "  bad/one: {command: ls, ports: 16}\n",
                                "yaml", NULL);
        static const struct {
            int line, column;
            const char *path, *says;
        } want[] = {
            {1, 7, "name", "found \"bad name\", expected 1 to 63 letters"},
            {2, 11, "priority", "found 101, expected a whole number from 0 to 100"},
            {4, 3, "components.actor", "neither `image` nor `command`"},
            {5, 5, "components.actor.comand", "unknown key \"comand\": did you mean \"command\"?"},
            {6, 10, "components.actor.num", "without leading zeros"},
            {7, 22, "components.actor.resources.cpu", "found -1, expected cores"},
            {7, 34, "components.actor.resources.memory",
             "container engines refuse less than 6 MiB"},
            {7, 43, "components.actor.resources.gpu",
             "found 1.5, expected a whole number of cards"},
            {8, 11, "components.actor.env.1A", "a variable's name"},
            {8, 21, "components.actor.env.B", "found a list, expected a text"},
            {9, 3, "components.bad/one", "a component's name"},
            {9, 33, "components.bad/one.ports", "found 16, expected a whole number from 0 to 15"},
        };
        ck_assert_int_eq(x.code, -EINVAL);
        if (x.problems.count != ARRAY_SIZE(want))
            dump(&x);
        ck_assert_uint_eq(x.problems.count, ARRAY_SIZE(want));
        for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
            const struct job_problem *p = &x.problems.items[i];
            ck_assert_str_eq(p->path, want[i].path);
            ck_assert_msg(p->line == want[i].line && p->column == want[i].column, "%s is at %d:%d",
                          p->path, p->line, p->column);
            ck_assert_msg(strstr(p->message, want[i].says) != NULL, "%s", p->message);
        }
        ck_assert_ptr_nonnull(strstr(x.e.text, "name: found \"bad name\""));
        done(&x);
    }
END_TEST

START_TEST(json_has_places_too)
    {
        struct result x =
            parse("{\"name\": \"x\",\n \"components\": {\"a\": {\"comand\": \"l\\\"s\",\n"
                  "  \"command\": \"ls\", \"num\": 1.0, \"finishes_job\": null,\n"
                  "  \"mounts\": [{\"target\": \"/a\"}, {\"target\": true}]}}}",
                  "json", NULL);
        ck_assert_uint_eq(x.problems.count, 4);
        ck_assert(has(&x, "components.a.comand", 2, "did you mean"));
        ck_assert_int_eq(x.problems.items[0].column, 23);
        ck_assert(has(&x, "components.a.num", 3, "found 1.0, expected a whole number"));
        ck_assert(has(&x, "components.a.finishes_job", 3, "found nothing, expected true or false"));
        ck_assert(has(&x, "components.a.mounts[1].target", 4, "found true, expected an absolute"));
        done(&x);
    }
END_TEST

START_TEST(top_level)
    {
        top("name: ''", "name", "found \"\"");
        top("name: -a", "name", "found \"-a\"");
        top("name: jabcdefghij23", "name", "looks like the id of a job");
        top("name: [a]", "name", "found a list");
        top("name: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "name",
            "1 to 63");
        top("nam: x", "nam", "did you mean \"name\"?");
        top("replicas: 3", "replicas", "unknown key \"replicas\"");
        top("mode: docker", "mode", "found \"docker\", expected process, grass");
        top("priority: high", "priority", "found \"high\", expected a whole number from 0 to 100");
        top("priority: '5'", "priority", "without quotes");
        top("allocation: spread", "allocation", "found \"spread\", expected a mapping such as");
        top("allocation: {mode: random}", "allocation.mode", "expected best-fit, spread");
        top("allocation: {mode: spread, metrics: cpu}", "allocation.metrics", "mean \"metric\"?");
        top("allocation: {metric: disk, mode: single-metric-balanced}", "allocation.metric",
            "expected cpu, memory or gpu");
        top("tags: x", "tags", "expected a mapping");
    }
END_TEST

START_TEST(whole_files)
    {
        struct result x = parse("", "yaml", NULL);
        ck_assert(has(&x, "", 0, "found nothing, expected a mapping"));
        done(&x);
        x = parse("[1]", "json", NULL);
        ck_assert(has(&x, "", 1, "found a list"));
        done(&x);
        x = parse("{}", "json", NULL);
        ck_assert_uint_eq(x.problems.count, 2);
        ck_assert(has(&x, "name", 1, "`name` is missing"));
        ck_assert(has(&x, "components", 1, "`components` is missing"));
        done(&x);
        x = parse("name: x\ncomponents: {}\n", "yaml", NULL);
        ck_assert(has(&x, "components", 2, "at least one component"));
        done(&x);
        x = parse("mode: process\nname: x\ncomponents: {a: {image: i}}\n", "yaml", NULL);
        ck_assert(has(&x, "components.a", 3, "`command` is missing"));
        done(&x);
        x = parse("{\"components\":{\"a\":{\"command\":\"ls\"}}}", "json", "no good");
        ck_assert_uint_eq(x.problems.count, 1);
        ck_assert(has(&x, "name", 0, "found \"no good\""));
        done(&x);
    }
END_TEST

START_TEST(components)
    {
        component("command: ''", "command", "found \"\", expected a command");
        component("command: ' '", "command", "expected a command");
        component("command: {a: b}", "command", "found a mapping, expected a text (run by sh -c)");
        component("command: []", "command", "must start with the program");
        component("command: ['']", "command", "must start with the program");
        component("command: [a, [b]]", "command[1]", "found a list, expected a text");
        component("command: [a, ~]", "command[1]", "found nothing, expected a text");
        component("image: 'a b', command: x", "image", "without spaces");
        component("image: '', command: x", "image", "found \"\"");
        component("num: 0, command: x", "num", "found 0, expected a whole number from 1 to 10000");
        component("num: 10001, command: x", "num", "found 10001");
        component("num: no, command: x", "num", "found \"no\"");
        component("num: 22:22, command: x", "num", "found \"22:22\"");
        component("num: true, command: x", "num", "found true");
        component("network: lan, command: x", "network", "expected host, bridge or none");
        component("finishes_job: yes, command: x", "finishes_job", "found \"yes\", expected true");
        component("timeout: 0, command: x", "timeout", "found 0, expected a duration from 1ms");
        component("timeout: soon, command: x", "timeout", "found \"soon\", expected a duration");
        component("ports: -1, command: x", "ports", "found -1");
        component("resources: 4, command: x", "resources", "expected a mapping such as {cpu: 4");
        component("resources: {memory: 1q}, command: x", "resources.memory",
                  "expected memory such");
        component("resources: {memory: 65t}, command: x", "resources.memory", "at most 64t");
        component("resources: {cpu: 0.0001}, command: x", "resources.cpu", "expected cores");
        component("resources: {gpus: 1}, command: x", "resources.gpus", "did you mean \"gpu\"?");
        component("affinity: [acter], command: x", "affinity", "is no component of this job");
        component("anti_affinity: actor, command: x", "anti_affinity", "a list of components");
        component("anti_affinity: ['job:'], command: x", "anti_affinity[0]", "or job:NAME");
        component("affinity: [a], command: x", "affinity", "beside itself already");
        component("affinity: ['job:b'], anti_affinity: ['job:b'], command: x", "affinity",
                  "it cannot be both");
        component("gang: one, command: x", "gang", "same-node, few-nodes or any");
        component("exclusive: 1, command: x", "exclusive", "expected true or false");
        component("resources: {gpu_model: A100}, command: x", "resources", "add `gpu: 1`");
        component("resources: {gpu: 1, gpu_model: '>= x'}, command: x", "resources.gpu_model",
                  "expected a number after");
        component("resources: {gpu: 1, gpu_memory: big}, command: x", "resources.gpu_memory",
                  "the least memory of a card");
        component("resources: {disk: 1}, command: x", "resources.disk",
                  "known here: cpu, memory, gpu");
        component("stop: {signal: SIGFOO}, command: x", "stop.signal", "expected a signal such as");
        component("stop: {grace: 2h}, command: x", "stop.grace", "a duration from 0s to 1h");
        component("restart: on-failure, command: x", "restart", "such as {policy: on-failure}");
        component("restart: {policy: sometimes}, command: x", "restart.policy",
                  "never, on-failure");
        component("restart: {policy: always, max_attempts: -1}, command: x", "restart.max_attempts",
                  "found -1");
        component("restart: {policy: always, backoff: 10s, max_backoff: 5s}, command: x", "restart",
                  "max_backoff is shorter than backoff");
        component("env: [A], command: x", "env", "expected a mapping such as {KEY: value}");
        component("env: {A: }, command: x", "env.A", "\"\" for an empty one");
        component("env: {A-B: x}, command: x", "env.A-B", "a variable's name");
    }
END_TEST

START_TEST(mounts)
    {
        component("mount: /mnt, command: x", "mount", "a mapping such as {target: /mnt/data}");
        component("mount: {}, command: x", "mount", "`target` is missing");
        component("mount: {target: mnt}, command: x", "mount.target",
                  "found \"mnt\", expected an abs");
        component("mount: {target: /}, command: x", "mount.target", "an absolute path");
        component("mount: {target: /a/../b}, command: x", "mount.target", "an absolute path");
        component("mount: {target: '/a:b'}, command: x", "mount.target", "/host/path:/container");
        component("mount: {target: '/a:/b:ro'}, command: x", "mount.target",
                  "/host/path:/container");
        component("mount: {target: '/a:/b', source: /c}, command: x", "mount.source", "keep one");
        component("mount: {source: /c, target: '/a:/b'}, command: x", "mount.target", "keep one");
        component("mounts: [{target: /a}, {target: /a}], command: x", "mounts[1]", "this target");
        component("mounts: {target: /a}, command: x", "mounts", "expected a list");
        component("mounts: [{target: /a, readonly: true}], command: x", "mounts[0].readonly",
                  "did you mean \"read_only\"?");
    }
END_TEST

START_TEST(health)
    {
        component("health: x, command: x", "health", "a mapping such as {command: ./check");
        component("health: {}, command: x", "health", "exactly one of `command` and `http`");
        component("health: {command: a, http: {port: 80}}, command: x", "health", "exactly one of");
        component("health: {command: a, retrie: 1}, command: x", "health.retrie",
                  "did you mean \"retries\"?");
        component("health: {command: 3s, interval: 1ms}, command: x", "health.interval",
                  "expected");
        component("health: {command: a, retries: 0}, command: x", "health.retries", "expected");
        component("health: {http: 80}, command: x", "health.http", "a mapping such as {port: 0");
        component("health: {http: {port: 70000}}, command: x", "health.http.port", "expected");
        component("health: {http: {port: 80, path: a b}}, command: x", "health.http.path",
                  "a path such as /healthz");
        component("health: {http: {}}, command: x", "health.http", "set `ports: 1`, or name");
        component("health: {http: {port: 2}}, ports: 2, command: x", "health.http",
                  "expected 0 to 1");
    }
END_TEST

START_TEST(not_supported_yet)
    {
        top("weight: 2", "weight", "\"weight\": not supported yet");
        top("weight: 0", "weight", "expected a number above 0");
        top("job_redis: true", "job_redis", "not supported yet");
        top("job_redis: 1", "job_redis", "expected true or false");
        top("job_names: [a, b]", "job_names", "not supported yet");
        top("secrets: {A: b}", "secrets", "not supported yet");
        top("data: x", "data", "not supported yet");
        component("num: {min: 1, max: 32}, command: x", "num", "not supported yet");
        component("constraints: {zone: {a: b}}, command: x", "constraints.zone", "expected a text");
        component("constraints: {cuda: '>= new'}, command: x", "constraints.cuda",
                  "expected a number after");
        component("constraints: {zone: '!='}, command: x", "constraints.zone", "expected a value");
        component("constraints: {'a b': x}, command: x", "constraints.a b", "expected a label");
        component("constraints: a, command: x", "constraints", "a mapping of node labels");
        component("on_node_lost: {after: 60s, action: stop}, command: x", "on_node_lost.action",
                  "expected restart, fail or wait");
        component("on_node_lost: {after: 0}, command: x", "on_node_lost.after", "expected");
        component("on_node_lost: 60s, command: x", "on_node_lost", "a mapping such as");
        component("resize: {mode: live}, command: x", "resize", "not supported yet");
        component("restart: {policy: always, scope: job}, command: x", "restart.scope",
                  "\"scope: job\": not supported yet");
        component("restart: {policy: always, scope: node}, command: x", "restart.scope",
                  "expected task, component or job");
    }
END_TEST

START_TEST(texts_that_are_none)
    {
        cleanup_strbuf struct strbuf deep = {0};
        cleanup_strbuf struct strbuf many = {0};

        malformed("{\"a\": }", "json", "line 1, column");
        malformed("{\"a\": 1,\n \"a\": 2}", "json", "line 2");
        malformed("", "json", "line 1");
        malformed("{\"a\": \"\\u0000\"}", "json", "line 1");
        malformed("{\"a\": \"\\ud800\"}", "json", "line 1");
        malformed("{} x", "json", "line 1");
        malformed("a: &x 1", "yaml", "anchors (&name) are not accepted: write the value out");
        malformed("a: 1\na: 2", "yaml", "line 2, column 1: the key \"a\" is already given");
        strbuf_puts(&deep, "{\"tags\":\n");
        for (int i = 0; i < 40; i++)
            strbuf_puts(&deep, "[");
        for (int i = 0; i < 40; i++)
            strbuf_puts(&deep, "]");
        strbuf_puts(&deep, "}");
        malformed(deep.data, "json", "line 2, column 32: nested more than 32 levels deep");
        malformed(deep.data, "yaml", "line 2, column 32: nested more than 32 levels deep");
        strbuf_puts(&many, "{\"tags\": [");
        for (int i = 0; i < 20000; i++)
            strbuf_puts(&many, "1,");
        strbuf_puts(&many, "1]}");
        malformed(many.data, "json", "more than 20000 values");
        malformed(many.data, "yaml", "more than 20000 values");
    }
END_TEST

START_TEST(very_many_mistakes)
    {
        cleanup_strbuf struct strbuf b = {0};

        strbuf_puts(&b, "name: x\ncomponents: {a: {command: ls}}\n");
        for (int i = 0; i < 5000; i++)
            strbuf_printf(&b, "key%d: 1\n", i);
        struct result x = parse(b.data, "yaml", NULL);
        ck_assert_int_eq(x.code, -EINVAL);
        ck_assert_uint_eq(x.problems.count, JOB_PROBLEMS_MAX);
        ck_assert_uint_eq(x.problems.more, 5000 - JOB_PROBLEMS_MAX);
        done(&x);
    }
END_TEST

START_TEST(too_many)
    {
        cleanup_strbuf struct strbuf tasks = {0};
        cleanup_strbuf struct strbuf parts = {0};
        cleanup_strbuf struct strbuf arg = {0};

        strbuf_puts(&tasks, "name: x\ncomponents:\n");
        for (int i = 0; i < 11; i++)
            strbuf_printf(&tasks, "  c%d: {command: ls, num: 10000}\n", i);
        struct result x = parse(tasks.data, "yaml", NULL);
        ck_assert(has(&x, "components", 2, "110000 tasks together, expected at most 100000"));
        done(&x);
        strbuf_puts(&parts, "name: x\ncomponents:\n");
        for (int i = 0; i < 101; i++)
            strbuf_printf(&parts, "  c%d: {command: ls}\n", i);
        x = parse(parts.data, "yaml", NULL);
        ck_assert(has(&x, "components", 3, "found 101 components, expected at most 100"));
        done(&x);
        strbuf_puts(&arg, "{\"name\":\"x\",\"components\":{\"a\":{\"command\":\"");
        for (int i = 0; i < 131072; i++)
            strbuf_puts(&arg, "x");
        strbuf_puts(&arg, "\"}}}");
        x = parse(arg.data, "json", NULL);
        ck_assert(has(&x, "components.a.command", 1, "131072 bytes long, expected at most 131071"));
        done(&x);
    }
END_TEST

START_TEST(messages_are_utf8_and_bounded)
    {
        char key[600];
        cleanup_strbuf struct strbuf b = {0};

        for (int i = 0; i < 599; i += 3)
            memcpy(key + i, "\u20ac", 3);
        key[597] = '\0';
        strbuf_printf(&b, "name: \"%s\\n\"\n%s: 1\nxx%s: {}\ncomponents: {a: {command: ls}}\n", key,
                      key, key);
        struct result x = parse(b.data, "yaml", NULL);
        ck_assert_uint_eq(x.problems.count, 3);
        for (size_t i = 0; i < 3; i++) {
            cleanup_json json_t *path = json_string(x.problems.items[i].path);
            cleanup_json json_t *message = json_string(x.problems.items[i].message);
            ck_assert_ptr_nonnull(path);
            ck_assert_ptr_nonnull(message);
            ck_assert_ptr_null(strchr(x.problems.items[i].message, '\n'));
        }
        done(&x);
    }
END_TEST

int main(void)
{
    TCase *c = tcase_create("problems");
    tcase_add_test(c, all_at_once);
    tcase_add_test(c, json_has_places_too);
    tcase_add_test(c, top_level);
    tcase_add_test(c, whole_files);
    tcase_add_test(c, components);
    tcase_add_test(c, mounts);
    tcase_add_test(c, health);
    tcase_add_test(c, not_supported_yet);
    tcase_add_test(c, texts_that_are_none);
    tcase_add_test(c, very_many_mistakes);
    tcase_add_test(c, too_many);
    tcase_add_test(c, messages_are_utf8_and_bounded);
    return run_case("job_spec_problems", c);
}
