// SPDX-License-Identifier: Apache-2.0
// The job file: what good files mean, and that canonical JSON reads back to the same.
#include "proto/job_spec.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/json.h"
#include "test/unit/suite.h"

#include <check.h>
#include <glob.h>
#include <signal.h>
#include <string.h>

// Parses a good file; its canonical JSON must give a spec with the same canonical JSON.
static struct job_spec *good_named(const char *text, const char *format, const char *name,
                                   struct job_warnings *warnings)
{
    struct job_spec *spec = NULL, *again = NULL;
    struct job_problems problems = {0};
    struct err e = {""};

    int r = job_spec_parse(text, strlen(text), format, name, &spec, &problems, warnings, &e);
    ck_assert_msg(r == 0, "%s", e.text);
    ck_assert_uint_eq(problems.count, 0);
    cleanup_json json_t *json = job_spec_to_json(spec);
    ck_assert_msg(job_spec_from_json(json, &again, &e) == 0, "%s", e.text);
    cleanup_json json_t *back = job_spec_to_json(again);
    ck_assert(json_equal(json, back));
    job_spec_free(again);
    return spec;
}

static struct job_spec *good(const char *yaml)
{
    struct job_warnings warnings = {0};
    struct job_spec *spec = good_named(yaml, "yaml", NULL, &warnings);
    ck_assert_msg(warnings.count == 0, "%s", warnings.count ? warnings.items[0] : "");
    job_warnings_free(&warnings);
    return spec;
}

START_TEST(everything)
    {
        struct job_spec *s =
            good("name: cim-dqn\n"
                 "priority: 70\n"
                 "allocation: {mode: single-metric-balanced, metric: MEMORY}\n"
                 "components:\n"
                 "  learner:\n"
                 "    image: pytorch:2.1\n"
                 "    command: \"python /mnt/data/run.py\"\n"
                 "    num: 1\n"
                 "    resources: {cpu: 0.5, memory: 8192m, gpu: 1}\n"
                 "    mount: {target: /mnt/data}\n"
                 "    mounts:\n"
                 "      - target: /srv/x:/x\n"
                 "      - {source: /srv/y, target: /y, read_only: true}\n"
                 "    env: {KEY: value, VERSION: 1.10, N: 010, ON: no, B: true, E: ''}\n"
                 "    ports: 2\n"
                 "    network: bridge\n"
                 "    restart: {policy: on-failure, max_attempts: 5, backoff: 2s, "
                 "max_backoff: 1m30s, scope: task}\n"
                 "    stop: {signal: USR1, grace: 30s}\n"
                 "    timeout: 12h\n"
                 "    finishes_job: true\n"
                 "  actor: {command: [python, -c, 'x', 10], num: 4}\n"
                 "tags: {project: cim, version: 1.10, nested: [1, {a: b}]}\n");
        const struct job_component *c = &s->components[0];

        ck_assert_int_eq(s->priority, 70);
        ck_assert_int_eq(s->alloc, ALLOC_BALANCED);
        ck_assert_int_eq(s->metric, METRIC_MEMORY);
        ck_assert_uint_eq(s->n_components, 2);
        ck_assert_str_eq(c->name, "learner");
        ck_assert_str_eq(s->components[1].name, "actor");
        ck_assert_int_eq(job_spec_total_tasks(s), 5);
        ck_assert_str_eq(c->image, "pytorch:2.1");
        ck_assert(c->command_shell);
        ck_assert_str_eq(c->command[0], "/bin/sh");
        ck_assert_str_eq(c->command[2], "python /mnt/data/run.py");
        ck_assert_ptr_null(c->command[3]);
        ck_assert(c->has_resources);
        ck_assert_int_eq(c->resources.cpu_milli, 500);
        ck_assert_int_eq(c->resources.memory, INT64_C(8192) << 20);
        ck_assert_int_eq(c->resources.gpu, 1);
        ck_assert_uint_eq(c->n_mounts, 3);
        ck_assert_ptr_null(c->mounts[0].source);
        ck_assert_str_eq(c->mounts[1].source, "/srv/x");
        ck_assert_str_eq(c->mounts[1].target, "/x");
        ck_assert(c->mounts[2].read_only);
        ck_assert_uint_eq(c->n_env, 6);
        ck_assert_str_eq(c->env[1].value, "1.10");
        ck_assert_str_eq(c->env[2].value, "010");
        ck_assert_str_eq(c->env[3].value, "no");
        ck_assert_str_eq(c->env[4].value, "true");
        ck_assert_str_eq(c->env[5].value, "");
        ck_assert_int_eq(c->ports, 2);
        ck_assert_int_eq(c->network, NETWORK_BRIDGE);
        ck_assert_int_eq(c->restart, RESTART_ON_FAILURE);
        ck_assert_int_eq(c->max_attempts, 5);
        ck_assert_int_eq(c->backoff_ms, 2000);
        ck_assert_int_eq(c->max_backoff_ms, 90000);
        ck_assert_int_eq(c->stop_signal, SIGUSR1);
        ck_assert_int_eq(c->grace_ms, 30000);
        ck_assert_int_eq(c->timeout_ms, 43200000);
        ck_assert(c->finishes_job);
        c = &s->components[1];
        ck_assert(!c->command_shell);
        ck_assert_str_eq(c->command[3], "10");
        ck_assert(!c->has_resources);
        cleanup_free char *tags = json_text(s->tags);
        ck_assert_str_eq(tags,
                         "{\"project\":\"cim\",\"version\":\"1.10\",\"nested\":[1,{\"a\":\"b\"}]}");
        job_spec_free(s);
        job_spec_free(NULL);
    }
END_TEST

START_TEST(defaults)
    {
        struct job_spec *s = good("name: 123\ncomponents: {a: {command: ls}}\n");
        const struct job_component *c = &s->components[0];

        ck_assert_str_eq(s->name, "123");
        ck_assert_int_eq(s->mode, JOB_MODE_DEFAULT);
        ck_assert_int_eq(s->priority, 50);
        ck_assert_int_eq(s->alloc, ALLOC_BEST_FIT);
        ck_assert_ptr_null(s->tags);
        ck_assert_int_eq(c->num, 1);
        ck_assert_ptr_null(c->image);
        ck_assert(!c->has_resources);
        ck_assert_int_eq(c->ports, 0);
        ck_assert_int_eq(c->network, NETWORK_HOST);
        ck_assert_int_eq(c->restart, RESTART_NEVER);
        ck_assert_int_eq(c->max_attempts, 3);
        ck_assert_int_eq(c->backoff_ms, 1000);
        ck_assert_int_eq(c->max_backoff_ms, 60000);
        ck_assert_int_eq(c->stop_signal, SIGTERM);
        ck_assert_int_eq(c->grace_ms, 10000);
        ck_assert_int_eq(c->timeout_ms, 0);
        ck_assert(!c->finishes_job);
        job_spec_free(s);
    }
END_TEST

START_TEST(small_forms)
    {
        struct job_spec *s = good(
            "name: a\n"
            "components:\n"
            "  one: {image: 1.10, resources: {cpu: all, memory: all, gpu: all}, env: , ports: 0}\n"
            "  two: {command: x, resources: {}, restart: {policy: always, backoff: 2m}, stop: "
            "{signal: 15}}\n"
            "  tri: {command: x, resources: {memory: 512}, stop: {signal: 40, grace: 0}}\n"
            "tags:\n");
        ck_assert_str_eq(s->components[0].image, "1.10");
        ck_assert_ptr_null(s->components[0].command);
        ck_assert(s->components[0].cpu_all && s->components[0].memory_all);
        ck_assert(s->components[0].gpu_all);
        ck_assert(s->components[1].has_resources);
        ck_assert_int_eq(s->components[1].resources.cpu_milli, 0);
        ck_assert_int_eq(s->components[1].max_backoff_ms, 120000);
        ck_assert_int_eq(s->components[2].resources.memory, INT64_C(512) << 20);
        ck_assert_int_eq(s->components[2].stop_signal, 40);
        job_spec_free(s);
    }
END_TEST

START_TEST(json_text_keeps_numbers_as_written)
    {
        struct job_warnings w = {0};
        struct job_spec *s = good_named(
            "{\"name\":\"a\\/b\",\"components\":{\"x\":{\"command\":\"echo \\ud83d\\ude00\","
            "\"env\":{\"V\":1.10,\"I\":7,\"E\":1e3},\"resources\":{\"cpu\":0.25}}}}",
            "json", "other", &w);
        ck_assert_str_eq(s->name, "other");
        ck_assert_str_eq(s->components[0].command[2], "echo \xf0\x9f\x98\x80");
        ck_assert_str_eq(s->components[0].env[0].value, "1.10");
        ck_assert_str_eq(s->components[0].env[1].value, "7");
        ck_assert_str_eq(s->components[0].env[2].value, "1e3");
        ck_assert_int_eq(s->components[0].resources.cpu_milli, 250);
        ck_assert_uint_eq(w.count, 0);
        job_spec_free(s);
    }
END_TEST

static void check_canonical(const char *yaml, const char *want)
{
    struct job_spec *s = good(yaml);
    cleanup_json json_t *j = job_spec_to_json(s);
    cleanup_free char *text = json_text(j);
    ck_assert_str_eq(text, want);
    job_spec_free(s);
}

START_TEST(canonical)
    {
        check_canonical(
            "name: a\ncomponents:\n  x:\n    command: ls\n    num: 2\n"
            "    resources: {cpu: 1.5, memory: 1g}\n    mount: {target: /d}\n",
            "{\"name\":\"a\",\"priority\":50,\"allocation\":{\"mode\":\"best-fit\"},\"components\":"
            "{"
            "\"x\":{\"command\":\"ls\",\"num\":2,\"resources\":{\"cpu\":\"1500m\",\"memory\":"
            "\"1024m\",\"gpu\":0},\"mounts\":[{\"target\":\"/"
            "d\"}],\"ports\":0,\"network\":\"host\","
            "\"restart\":{\"policy\":\"never\",\"max_attempts\":3,\"backoff\":\"1s\",\"max_"
            "backoff\":"
            "\"1m\",\"scope\":\"task\"},\"stop\":{\"signal\":\"SIGTERM\",\"grace\":\"10s\"},"
            "\"on_node_lost\":{\"action\":\"restart\"},\"finishes_job\":false}}}");
        static const char *const checks[][2] = {
            {"{command: ./ok}",
             "{\"command\":\"./"
             "ok\",\"interval\":\"10s\",\"timeout\":\"5s\",\"start_period\":\"0s\","
             "\"retries\":3}"},
            {"{command: [a, b], interval: 1s, timeout: 100ms, retries: 1}",
             "{\"command\":[\"a\",\"b\"],\"interval\":\"1s\",\"timeout\":\"100ms\","
             "\"start_period\":\"0s\",\"retries\":1}"},
            {"{http: {path: /well}, start_period: 1h}",
             "{\"http\":{\"port\":0,\"path\":\"/well\"},\"interval\":\"10s\",\"timeout\":\"5s\","
             "\"start_period\":\"1h\",\"retries\":3}"},
        };
        for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
            char yaml[256];
            (void)snprintf(yaml, sizeof(yaml),
                           "name: a\ncomponents: {x: {command: y, ports: 1, health: %s}}\n",
                           checks[i][0]);
            struct job_spec *s = good(yaml);
            cleanup_json json_t *j = job_spec_to_json(s);
            cleanup_free char *text = json_text(
                json_object_get(json_object_get(json_object_get(j, "components"), "x"), "health"));
            ck_assert_str_eq(text, checks[i][1]);
            job_spec_free(s);
        }
    }
END_TEST

START_TEST(kinds_of_cards)
    {
        struct job_spec *s = good_named(
            "name: a\ncomponents:\n"
            "  x: {command: ls, resources: {gpu: 2, gpu_model: 'A100*', gpu_memory: 40g},\n"
            "      constraints: {zone: b}}\n"
            "  y: {command: ls, resources: {gpu: 0, gpu_model: T4}}\n",
            "yaml", NULL, NULL);
        ck_assert_str_eq(s->components[0].where,
                         "zone\nb\n$gpu.model\nA100*\n$gpu.memory\n>= 42949672960\n");
        ck_assert_ptr_null(s->components[1].where); // no cards, no conditions
        json_t *j = job_spec_to_json(s);
        struct job_spec *again = NULL;
        const json_t *x = json_object_get(json_object_get(j, "components"), "x");
        ck_assert_uint_eq(json_object_size(json_object_get(x, "constraints")), 1);
        ck_assert_int_eq(job_spec_from_json(j, &again, NULL), 0);
        ck_assert_str_eq(again->components[0].where, s->components[0].where);
        json_decref(j);
        job_spec_free(again);
        job_spec_free(s);
    }
END_TEST

START_TEST(beside)
    {
        struct job_spec *s =
            good_named("name: a\nexclusive: true\nallocation: {gang: few-nodes}\ncomponents:\n"
                       "  x: {command: ls, affinity: ['job:web', 'job:db'], exclusive: true}\n"
                       "  y: {command: ls, anti_affinity: [y, x], gang: same-node}\n",
                       "yaml", NULL, NULL);
        json_t *j = job_spec_to_json(s);
        struct job_spec *again = NULL;
        job_spec_free(s);
        ck_assert_int_eq(job_spec_from_json(j, &again, NULL), 0);
        ck_assert(again->exclusive && again->gang == GANG_FEW_NODES);
        ck_assert(again->components[0].exclusive && !again->components[1].exclusive);
        ck_assert_int_eq(again->components[1].gang, GANG_SAME_NODE);
        ck_assert_str_eq(again->components[0].near[1], "job:db");
        ck_assert_str_eq(job_named(again->components[0].near[1]), "db");
        ck_assert_ptr_null(again->components[0].apart);
        ck_assert_str_eq(again->components[1].apart[0], "y");
        ck_assert_ptr_null(job_named(again->components[1].apart[0]));
        ck_assert_ptr_null(again->components[1].apart[2]);
        json_decref(j);
        job_spec_free(again);
    }
END_TEST

START_TEST(warnings)
    {
        struct job_warnings w = {0};
        struct job_spec *s =
            good_named("name: a\nallocation: {mode: spread, metric: cpu}\ncomponents:\n"
                       "  a-b: {command: x, env: {RANK: 1, PORT: 2, PORTS: 3, MEADOW_DATA: x}}\n"
                       "  A_B: {command: x, restart: {max_attempts: 3}, ports: 1, network: none}\n",
                       "yaml", NULL, &w);
        static const char *const want[] = {
            "components.a-b.env.RANK: ignored",      "components.a-b.env.PORT: ignored",
            "components.a-b.env.MEADOW_DATA: ign",   "components.A_B.restart: without `policy",
            "allocation.metric: ignored: mode spre", "components.A_B: `ports` are of no use",
            "components a-b and A_B share one MEAD",
        };
        ck_assert_uint_eq(w.count, ARRAY_SIZE(want));
        for (size_t i = 0; i < w.count; i++)
            ck_assert_msg(strncmp(w.items[i], want[i], strlen(want[i])) == 0, "%s", w.items[i]);
        job_spec_free(s);
        job_warnings_free(&w);
    }
END_TEST

// The files that people start from (the tests run in the top folder).
START_TEST(examples)
    {
        glob_t found = {0};
        struct err e = {""};

        ck_assert_int_eq(glob("examples/*/*.yml", 0, NULL, &found), 0);
        for (size_t i = 0; i < found.gl_pathc; i++) {
            cleanup_free char *text = NULL;
            ck_assert_msg(atomic_file_read(found.gl_pathv[i], 1 << 20, &text, NULL, &e) == 0, "%s",
                          e.text);
            job_spec_free(good(text));
        }
        globfree(&found);
    }
END_TEST

#define CHECK_ENUM(type, name, max, first)                                                         \
    for (int i = first; i < max; i++) {                                                            \
        enum type back = max;                                                                      \
        ck_assert_int_eq(name##_from_string(name##_to_string((enum type)i), &back), 0);            \
        ck_assert_int_eq(back, i);                                                                 \
        ck_assert_int_eq(name##_from_string("nothing", &back), -EINVAL);                           \
        ck_assert_int_eq(back, i);                                                                 \
    }

START_TEST(enums)
    {
        CHECK_ENUM(job_mode, job_mode, JOB_MODE_MAX, 1);
        CHECK_ENUM(alloc_mode, alloc_mode, ALLOC_MAX, 0);
        CHECK_ENUM(alloc_metric, alloc_metric, METRIC_MAX, 0);
        CHECK_ENUM(restart_policy, restart_policy, RESTART_MAX, 0);
        CHECK_ENUM(network_mode, network_mode, NETWORK_MAX, 0);
        ck_assert_str_eq(job_mode_to_string(JOB_MODE_DEFAULT), "");
    }
END_TEST

int main(void)
{
    TCase *c = tcase_create("job_spec");
    tcase_add_test(c, everything);
    tcase_add_test(c, defaults);
    tcase_add_test(c, small_forms);
    tcase_add_test(c, json_text_keeps_numbers_as_written);
    tcase_add_test(c, canonical);
    tcase_add_test(c, kinds_of_cards);
    tcase_add_test(c, beside);
    tcase_add_test(c, warnings);
    tcase_add_test(c, examples);
    tcase_add_test(c, enums);
    return run_case("job_spec", c);
}
