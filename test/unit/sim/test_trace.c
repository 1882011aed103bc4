// SPDX-License-Identifier: Apache-2.0
// Lines of every form of trace that is read; lines that are none.
#include "test/sim/lib/trace.h"

#include "test/unit/suite.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/trace-XXXXXX";

static const char *file(const char *name, const char *text)
{
    static char path[64];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *f = fopen(path, "we");
    ck_assert_ptr_nonnull(f);
    (void)fputs(text, f);
    (void)fclose(f);
    return path;
}

static struct trace_job *read_all(const char *name, const char *text, size_t expected)
{
    struct trace_job *list = NULL;
    size_t n = 0;
    ck_assert_int_eq(trace_jobs(file(name, text), &list, &n), 0);
    ck_assert_uint_eq(n, expected);
    return list;
}

static void check(const struct trace_job *j, const char *user, int64_t cards, int64_t arrives_s,
                  int64_t lasts_ms)
{
    ck_assert_str_eq(j->user, user);
    ck_assert_int_eq(j->need.gpu, cards);
    ck_assert_int_eq(j->arrives_ms, arrives_s * 1000);
    ck_assert_int_eq(j->lasts_ms, lasts_ms);
}

START_TEST(openb)
    {
        struct trace_job *list = NULL;
        size_t n = 0;
        ck_assert_int_eq(trace_jobs("test/unit/sim/tiny_pods.csv", &list, &n), 0);
        ck_assert_uint_eq(n, 4);
        check(&list[0], "LS", 1, 0, 100000); // by arrival
        check(&list[1], "BE", 2, 10, 50000); // from when it was scheduled
        check(&list[2], "LS", 1, 20, 90000); // never was
        check(&list[3], "BE", 0, 60, 20000);
        ck_assert_int_eq(list[0].milli, 500);
        ck_assert_int_eq(list[1].milli, 1000);
        ck_assert_str_eq(list[1].models, "A|B");
        ck_assert_int_eq(list[3].need.memory, INT64_C(1) << 30);
        free(list);
        // Five columns only: no times.
        list = read_all("short.csv",
                        "name,cpu_milli,memory_mib,num_gpu,gpu_milli\nx,500,10,1,460\n", 1);
        check(&list[0], "", 1, 0, 0);
        ck_assert_int_eq(list[0].milli, 460);
        free(list);
    }
END_TEST

START_TEST(philly)
    {
        struct trace_job *list = read_all("philly.csv",
                                          "timestamp,duration,num_gpus,gpu_time,cluster\n"
                                          "1970-01-02 00:00:05,66.5,2,133.0,6214e9\n"
                                          "1970-01-01 00:00:10,7.0,1,7.0,11cb48\n"
                                          "1970-01-01 00:00:10,7.0,0,0.0,none\n"
                                          "not a line\n",
                                          2);
        check(&list[0], "11cb48", 1, 10, 7000);
        check(&list[1], "6214e9", 2, 86405, 66500);
        free(list);
    }
END_TEST

START_TEST(tiresias)
    {
        struct trace_job *list =
            read_all("60_job.csv",
                     "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
                     "0,1,0,606,vgg19,164,30\n1,8,30,133,vgg11,147,23\n",
                     2);
        check(&list[0], "vgg19", 1, 0, 164000);
        check(&list[1], "vgg11", 8, 30, 147000);
        free(list);
    }
END_TEST

START_TEST(gavel)
    {
        (void)file("isolated_throughputs.csv", "gpu_type,job_type,num_workers,steps_per_second\n"
                                               "k80,LM (batch size 5),1,1\n"
                                               "v100,LM (batch size 5),1,10\n"
                                               "v100,LM (batch size 5),2,16\n");
        struct trace_job *list = read_all("a.trace",
                                          "LM (batch size 5)\tcmd\t-n\t1\t800\t30.0\t2\n"
                                          "LM (batch size 5)\tcmd\t-n\t1\t800\t40.0\t4\n"
                                          "Other (batch size 5)\tcmd\t-n\t1\t800\t50.0\t1\n",
                                          2);
        check(&list[0], "LM", 2, 30, 50000);
        check(&list[1], "LM", 4, 40, 80000); // as one worker: four are not known
        free(list);
        list =
            read_all("b.trace", "LM (batch size 5)\tcmd\tdir\t-n\t1\t800\t1\t1\t-1.0\t70.5\n", 1);
        ck_assert_int_eq(list[0].arrives_ms, 70500);
        ck_assert_int_eq(list[0].lasts_ms, 80000);
        free(list);
    }
END_TEST

START_TEST(conditions)
    {
        char text[64];
        trace_where("", text, sizeof(text));
        ck_assert_str_eq(text, "");
        trace_where("T4", text, sizeof(text));
        ck_assert_str_eq(text, "$gpu.model\x0a"
                               "in T4\x0a");
        trace_where("V100M16|V100M32", text, sizeof(text));
        ck_assert_str_eq(text, "$gpu.model\x0a"
                               "in V100M16, V100M32\x0a");
    }
END_TEST

START_TEST(nodes_and_nothing)
    {
        struct trace_node *nodes = NULL;
        struct trace_job *jobs = NULL;
        size_t n = 0;
        ck_assert_int_eq(trace_nodes("test/unit/sim/tiny_nodes.csv", &nodes, &n), 0);
        ck_assert_uint_eq(n, 2);
        ck_assert_str_eq(nodes[0].name, "n1");
        ck_assert_str_eq(nodes[0].model, "A");
        ck_assert_int_eq(nodes[0].total.gpu, 2);
        ck_assert_int_eq(nodes[1].total.memory, INT64_C(8) << 30);
        free(nodes);
        ck_assert_int_eq(trace_jobs("/nowhere", &jobs, &n), -ENOENT);
        ck_assert_int_eq(trace_jobs(file("empty", ""), &jobs, &n), -ENOENT);
        ck_assert_int_eq(trace_nodes("/nowhere", &nodes, &n), -ENOENT);
    }
END_TEST

static void make_folder(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void remove_folder(void)
{
    const char *const names[] = {
        "short.csv", "philly.csv", "60_job.csv", "isolated_throughputs.csv",
        "a.trace",   "b.trace",    "empty"};
    char path[64];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

int main(void)
{
    TCase *t = tcase_create("trace");
    tcase_add_checked_fixture(t, make_folder, remove_folder);
    tcase_add_test(t, openb);
    tcase_add_test(t, philly);
    tcase_add_test(t, tiresias);
    tcase_add_test(t, gavel);
    tcase_add_test(t, conditions);
    tcase_add_test(t, nodes_and_nothing);
    return run_case("trace", t);
}
