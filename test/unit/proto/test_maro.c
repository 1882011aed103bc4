// SPDX-License-Identifier: Apache-2.0
// MARO's job files, as they stand: every form is read, and what has no meaning here is named.
#include "proto/job_spec.h"
#include "test/unit/suite.h"

#include <check.h>
#include <string.h>

static struct job_spec *read_file(const char *yaml, struct job_warnings *warnings)
{
    struct job_spec *spec = NULL;
    struct job_problems problems = {0};
    struct err e = {""};
    int r = job_spec_parse(yaml, strlen(yaml), "yaml", NULL, &spec, &problems, warnings, &e);
    ck_assert_msg(r == 0, "%s", e.text);
    return spec;
}

static const char maro_azure[] = "mode: grass/azure\n"
                                 "name: MyJobName\n"
                                 "allocation:\n"
                                 "  mode: single-metric-compacted\n"
                                 "  metric: CPU\n"
                                 "components:\n"
                                 "  actor:\n"
                                 "    image: image_name\n"
                                 "    resources:\n"
                                 "      cpu: 2\n"
                                 "      memory: \"4096m\"\n"
                                 "      gpu: 0\n"
                                 "    num: 5\n"
                                 "    mount:\n"
                                 "      target: /mnt/cim_dqn\n"
                                 "    command: \"python /mnt/cim_dqn/run_actor.py\"\n"
                                 "  learner:\n"
                                 "    image: image_name\n"
                                 "    resources: {cpu: 2, memory: 2048m, gpu: 0}\n"
                                 "    num: 1\n"
                                 "    mount: {target: /mnt/cim_dqn}\n"
                                 "    command: python /mnt/cim_dqn/run_learner.py\n"
                                 "tags:\n"
                                 "  owner: me\n";

START_TEST(maro_grass)
    {
        struct job_warnings w = {0};
        struct job_spec *s = read_file(maro_azure, &w);

        ck_assert_int_eq(s->mode, JOB_MODE_GRASS_AZURE);
        ck_assert_str_eq(s->name, "MyJobName");
        ck_assert_int_eq(s->alloc, ALLOC_COMPACTED);
        ck_assert_int_eq(s->metric, METRIC_CPU);
        ck_assert_int_eq(s->components[0].num, 5);
        ck_assert_int_eq(s->components[0].resources.memory, INT64_C(4096) << 20);
        ck_assert_str_eq(s->components[0].mounts[0].target, "/mnt/cim_dqn");
        ck_assert_ptr_null(s->components[0].mounts[0].source);
        ck_assert_str_eq(s->components[0].command[2], "python /mnt/cim_dqn/run_actor.py");
        ck_assert_uint_eq(w.count, 1);
        ck_assert_ptr_nonnull(strstr(w.items[0], "mode: \"grass/azure\" has no effect"));
        job_warnings_free(&w);
        job_spec_free(s);
    }
END_TEST

START_TEST(maro_on_premises_and_local)
    {
        struct job_warnings w = {0};
        struct job_spec *s = read_file(
            "mode: grass/on-premises\nname: x\nallocation: {mode: "
            "single-metric-balanced, metric: gpu}\ncomponents: {a: {image: i, num: 2, "
            "resources: {cpu: 1, memory: 1024m, gpu: 1}, mount: {target: /m}, command: c}}",
            &w);
        ck_assert_int_eq(s->metric, METRIC_GPU);
        job_spec_free(s);
        job_warnings_free(&w);
        s = read_file("mode: grass/local\nname: x\ncomponents:\n  a:\n    image: i\n    num: 2\n"
                      "    resources: {cpu: 1, memory: 1024m, gpu: 0}\n"
                      "    mount: {target: \"/home/me/data:/mnt/data\"}\n    command: c\n",
                      &w);
        ck_assert_int_eq(s->mode, JOB_MODE_GRASS_LOCAL);
        ck_assert_str_eq(s->components[0].mounts[0].source, "/home/me/data");
        ck_assert_str_eq(s->components[0].mounts[0].target, "/mnt/data");
        job_spec_free(s);
        job_warnings_free(&w);
    }
END_TEST

START_TEST(maro_process_and_kubernetes)
    {
        struct job_warnings w = {0};
        struct job_spec *s =
            read_file("mode: process\nname: MyJob\ncomponents:\n  learner:\n    num: 1\n"
                      "    command: python run.py\n    image: ignored\n",
                      &w);
        ck_assert_int_eq(s->mode, JOB_MODE_PROCESS);
        ck_assert_ptr_null(s->components[0].image);
        ck_assert_uint_eq(w.count, 1);
        ck_assert_ptr_nonnull(strstr(w.items[0], "components.learner.image: ignored"));
        job_spec_free(s);
        job_warnings_free(&w);
        s = read_file("mode: k8s/aks\nname: x\ncomponents:\n  a:\n    image: i\n    num: 2\n"
                      "    resources: {cpu: 2, memory: 4096M, gpu: 0}\n"
                      "    mount: {target: /mnt/data}\n"
                      "    command: [\"bash\", \"-c\", \"python /mnt/data/x.py\"]\n",
                      &w);
        ck_assert_int_eq(s->components[0].resources.memory, INT64_C(4096) << 20);
        ck_assert_str_eq(s->components[0].command[0], "bash");
        job_spec_free(s);
        job_warnings_free(&w);
    }
END_TEST

int main(void)
{
    TCase *c = tcase_create("maro");
    tcase_add_test(c, maro_grass);
    tcase_add_test(c, maro_on_premises_and_local);
    tcase_add_test(c, maro_process_and_kubernetes);
    return run_case("maro", c);
}
