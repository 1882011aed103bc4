// SPDX-License-Identifier: Apache-2.0
// The plan on cases worked out by hand: each row gives nodes, jobs and where every task must go.
#include "test/unit/scheduler/plan_world.h"

#include "common/cleanup.h"
#include "test/unit/suite.h"

#define B ALLOC_BALANCED
#define C ALLOC_COMPACTED
#define F ALLOC_BEST_FIT
#define S ALLOC_SPREAD
#define CPU METRIC_CPU
#define MEM METRIC_MEMORY
#define GPU METRIC_GPU

static const struct row {
    const char *what;
    enum alloc_mode mode;
    enum alloc_metric metric;
    const char *nodes, *jobs, *expected;
} rows[] = {
    {"MARO's example, balanced", B, CPU, "n4=4 n8=8 n6=6", "0 a=1 b=3 c=2 d=1",
     "a>n8 b>n8 c>n6 d>n4"},
    {"MARO's example, compacted", C, CPU, "n4=4 n8=8 n6=6", "0 a=1 b=3 c=2 d=1",
     "a>n4 b>n4 c>n6 d>n6"},
    {"balanced, equal nodes: lowest name", B, CPU, "n2=4 n10=4 n1=4", "0 a=1", "a>n1"},
    {"names compare byte by byte: n10 before n2", B, CPU, "n2=4 n10=4", "0 a=1", "a>n10"},
    {"compacted skips what is too small", C, CPU, "n1=1 n2=2 n4=4", "0 a=3 b=1", "a>n4 b>n1"},
    {"the metric alone decides among those that fit", B, MEM, "n1=64,8 n2=2,32", "0 a=1,4", "a>n2"},
    {"the other resources must fit as well", B, CPU, "n1=64,8 n2=2,32", "0 a=1,16", "a>n2"},
    {"balanced by cards", B, GPU, "n1=8,16,2 n2=8,16,4", "0 a=1,1,1 b=1,1,2", "a>n1 b>n2"},
    {"compacted by cards", C, GPU, "n1=8,16,2 n2=8,16,4", "0 a=1,1,1 b=1,1,2", "a>n2 b>n1"},
    {"largest first lets all fit", C, CPU, "n1=4 n2=6", "0 a=2 b=4 c=4", "a>n2 b>n1 c>n2"},
    {"all or nothing", B, CPU, "n1=4", "0 a=3 b=2", "a>- b>-"},
    {"a job that does not fit gives way to the next", B, CPU, "n1=4", "0 a=3 b=2 | 0 c=4",
     "a>- b>- | c>n1"},
    {"priority first", B, CPU, "n1=4", "10 a=4 | 20 b=4", "a>- | b>n1"},
    {"then age", B, CPU, "n1=4", "10 a=4 | 10 b=4", "a>n1 | b>-"},
    {"a node that is not eligible", B, CPU, "n1=8:x n2=4", "0 a=1", "a>n2"},
    {"no node at all", B, CPU, "", "0 a=1", "a>-"},
    {"tasks that need nothing go where few are", F, CPU, "n1=4:uc3 n2=8 n3=8:t2",
     "0 a=0 b=0 c=0 d=0 e=0", "a>n2 b>n1 c>n2 d>n1 e>n2"},
    {"a task that needs nothing fits on a full node", F, CPU, "n1=4:uc4", "0 a=0", "a>n1"},
    {"and on an overbooked one", F, CPU, "n1=4:uc6", "0 a=0", "a>n1"},
    {"runtime", F, CPU, "n1=4:D n2=4:P", "0 a=1:P b=1:P", "a>n2 b>n2"},
    {"avoided while another fits", F, CPU, "n1=4 n2=8", "0 a=1:~n1", "a>n2"},
    {"several are avoided", F, CPU, "n1=4 n2=8 n3=8", "0 a=1:~n1,n2", "a>n3"},
    {"all are avoided", F, CPU, "n1=4 n2=8 n3=8", "0 a=1:~n3,n2,n1,n9", "a>n1"},
    {"a longer name is another", F, CPU, "n1=4 n10=8", "0 a=1:~n10", "a>n1"},
    {"avoided but the only one", F, CPU, "n1=4 n2=8:uc8", "0 a=1:~n1", "a>n1"},
    {"best-fit fills the fuller node", F, CPU, "n1=8 n2=8:uc4", "0 a=2", "a>n2"},
    {"best-fit counts both dimensions", F, CPU, "n1=8,16:uc4 n2=8,16:uc2um12", "0 a=1,1", "a>n2"},
    {"best-fit keeps cards for those who need them", F, CPU, "g1=8,16,4:uc6um12 n1=32,64", "0 a=1",
     "a>n1"},
    {"unless nothing else is left", F, CPU, "g1=8,16,4 n1=8:uc8", "0 a=1", "a>g1"},
    {"best-fit uses the started card machine", F, CPU, "g1=8,16,4 g2=8,16,4:ug2", "0 a=1,1,1",
     "a>g2"},
    {"best-fit leaves the whole machine for four cards", F, CPU, "g1=8,16,4 g2=8,16,4:ug2",
     "0 a=1,1,1 b=1,1,4 c=1,1,1", "a>g2 b>g1 c>g2"},
    {"kinds of equal rest: the started machine", F, CPU, "g1=8,16,4 g2=8,16,8:ug5", "0 a=1,1,1",
     "a>g2"},
    {"kinds of nodes are used up alike", F, CPU, "g1=8,16,1 g2=8,16,1 g3=8,16,2",
     "0 a=1,1,1 b=1,1,1 c=1,1,1 d=1,1,1 ", "a>g1 b>g3 c>g3 d>g2"},
    {"spread over nodes", S, CPU, "n1=8 n2=8 n3=8", "0 a=1 b=1 c=1 d=1", "a>n1 b>n2 c>n3 d>n1"},
    {"spread: own tasks before others' ", S, CPU, "n1=8:t5 n2=8", "0 a=1 b=1", "a>n2 b>n1"},
    {"spread: then the fewest tasks", S, CPU, "n1=8:t2 n2=8:t1", "0 a=1", "a>n2"},
    {"spread: then the most free", S, CPU, "n1=8:uc2 n2=8:uc1", "0 a=1", "a>n2"},
    {"spread starts anew for each job", S, CPU, "n1=8 n2=8", "0 a=1 | 0 b=1 | 0 c=1",
     "a>n1 | b>n2 | c>n1"},
    {"all of the cpu takes a wholly free node", F, CPU, "n1=8:uc1 n2=4", "0 a=all", "a>n2"},
    {"all of the cpu and one more", F, CPU, "n1=4", "0 a=all b=1", "a>- b>-"},
    {"all goes first", C, CPU, "n1=4 n2=8", "0 a=8 b=all", "a>n2 b>n1"},
    {"all of the cards wants cards", F, CPU, "n1=8 g1=8,16,2", "0 a=1,1,all", "a>g1"},
    {"all of the cards where there are none", F, CPU, "n1=8", "0 a=1,1,all", "a>-"},
    {"ports", F, CPU, "n1=4,16,0,2 n2=8,16,0,8", "0 a=1,0,0,3", "a>n2"},
    {"too many ports for any task", F, CPU, "n1=4", "0 a=1,0,0,17", "a>-"},
    {"thousandths of a core", C, CPU, "n1=1 n2=2", "0 a=0.5 b=0.5 c=0.001", "a>n1 b>n1 c>n2"},
};

START_TEST(test_row)
    {
        const struct row *c = &rows[_i];
        struct world w;
        char got[512];
        world_read(&w, c->nodes, c->jobs, c->mode, c->metric);
        ck_assert_int_eq(plan_run(w.nodes, w.n_nodes, w.list, w.n_jobs), 0);
        world_result(&w, got, sizeof(got));
        ck_assert_msg(strcmp(got, c->expected) == 0, "%s: %s", c->what, got);
    }
END_TEST

START_TEST(test_takes_what_it_grants)
    {
        struct world w;
        world_read(&w, "n1=8,16,4:ug1", "0 a=2,4,2,3 b=1,0,1", F, CPU);
        ck_assert_int_eq(plan_run(w.nodes, 1, w.list, 1), 0);
        ck_assert(w.jobs[0].placed);
        ck_assert_int_eq(w.nodes[0].free.cpu_milli, 5000);
        ck_assert_int_eq(w.nodes[0].free.memory, 12 * GIB);
        ck_assert_int_eq(w.nodes[0].free.gpu, 0);
        ck_assert_uint_eq(w.nodes[0].gpus_free, 0);
        ck_assert_uint_eq(w.tasks[0].gpus, 0x6); // card 0 is in use
        ck_assert_uint_eq(w.tasks[1].gpus, 0x8);
        ck_assert_uint_eq(w.tasks[0].port[0], 20000);
        ck_assert_uint_eq(w.tasks[0].port[2], 20002);
        ck_assert_uint_eq(w.tasks[0].port[3], 0);
        ck_assert_uint_eq(w.nodes[0].ports.cursor, 3);
        ck_assert_int_eq(w.nodes[0].tasks, 2);
    }
END_TEST

START_TEST(test_all_is_resolved)
    {
        struct world w;
        world_read(&w, "n1=8,16,4", "0 a=all,all,all", F, CPU);
        ck_assert_int_eq(plan_run(w.nodes, 1, w.list, 1), 0);
        ck_assert_int_eq(w.tasks[0].granted.cpu_milli, 8000);
        ck_assert_int_eq(w.tasks[0].granted.memory, 16 * GIB);
        ck_assert_int_eq(w.tasks[0].granted.gpu, 4);
        ck_assert_uint_eq(w.tasks[0].gpus, 0xF);
    }
END_TEST

START_TEST(test_undo_is_exact)
    {
        struct world w, before;
        world_read(&w, "n1=8,16,2 n2=4,16,1", "0 a=1,1,1,2 b=2,1,1,2 c=3,1,1,2 d=4,1,1,2", S, CPU);
        w.ports[0][0] = 0x35;
        w.nodes[0].ports.cursor = 38;
        before = w;
        ck_assert_int_eq(plan_run(w.nodes, w.n_nodes, w.list, 1), 0);
        ck_assert(!w.jobs[0].placed);
        ck_assert_mem_eq(w.ports, before.ports, sizeof(w.ports));
        for (size_t i = 0; i < w.n_nodes; i++) {
            w.nodes[i].ports.taken = before.nodes[i].ports.taken;
            ck_assert_mem_eq(&w.nodes[i], &before.nodes[i], sizeof(w.nodes[i]));
        }
    }
END_TEST

START_TEST(test_index_is_kept)
    {
        struct world w;
        struct plan_index *x;
        char got[512];
        world_read(&w, "n1=4 n2=4", "0 a=4 | 0 b=4 | 0 c=4", B, CPU);
        ck_assert_int_eq(plan_index_new(w.nodes, w.n_nodes, &x), 0);
        ck_assert_int_eq(plan_index_run(x, w.list, 2), 0);
        ck_assert_int_eq(plan_index_run(x, &w.list[2], 1), 0);
        ck_assert(!w.jobs[2].placed);
        w.nodes[1].free.cpu_milli = 4000; // b has ended
        plan_index_touch(x, 1);
        ck_assert_int_eq(plan_index_run(x, &w.list[2], 1), 0);
        plan_index_free(x);
        world_result(&w, got, sizeof(got));
        ck_assert_str_eq(got, "a>n1 | b>n2 | c>n2");
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("cases");
    tcase_add_loop_test(t, test_row, 0, (int)ARRAY_SIZE(rows));
    tcase_add_test(t, test_takes_what_it_grants);
    tcase_add_test(t, test_all_is_resolved);
    tcase_add_test(t, test_undo_is_exact);
    tcase_add_test(t, test_index_is_kept);
    return run_case("plan", t);
}
