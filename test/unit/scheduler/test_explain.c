// SPDX-License-Identifier: Apache-2.0
// Reasons why a job waits: texts by hand, and on random clusters the promise that giving a node
// what it is said to lack makes the task fit there.
#include "test/unit/scheduler/plan_world.h"

#include "common/cleanup.h"
#include "test/unit/suite.h"

static const struct row {
    const char *what;
    enum alloc_mode mode;
    const char *nodes, *job;
    const char *summary;
    const char *blockers;   // "cpu:2:2500 node:1:0"
    const char *reasons[3]; // NULL ends
} rows[] = {
    {"one resource",
     ALLOC_BEST_FIT,
     "n1=8:uc6.5 n2=2:uc1",
     "0 a=4",
     "needs 4 cpu on one node; the most any ready node has free is 1.5",
     "cpu:2:2500",
     {"cpu: needs 4, free 1.5 (short by 2.5)", "cpu: needs 4, free 1 (short by 3)"}},
    {"two resources at once",
     ALLOC_BEST_FIT,
     "n1=8,16,1:uc6.5ug1 n2=8:uc1",
     "0 a=4,0,1",
     "needs 1 gpu on one node; the most any ready node has free is 0",
     "gpu:2:1 cpu:1:2500",
     {"cpu: needs 4, free 1.5 (short by 2.5); gpu: needs 1, free 0 (short by 1)",
      "gpu: needs 1, free 0 (short by 1)"}},
    {"two that are short everywhere",
     ALLOC_BEST_FIT,
     "n1=8,16:uc7um12 n2=8,16:uc6um13",
     "0 a=4,8",
     "needs 4 cpu and 8 GiB memory on one node; the most any ready node has free is 2 cpu and 4 "
     "GiB memory",
     "cpu:2:2000 memory:2:4294967296",
     {"cpu: needs 4, free 1 (short by 3); memory: needs 8 GiB, free 4 GiB (short by 4 GiB)",
      "cpu: needs 4, free 2 (short by 2); memory: needs 8 GiB, free 3 GiB (short by 5 GiB)"}},
    {"larger than any node",
     ALLOC_SPREAD,
     "n1=8 n2=16:uc4",
     "0 a=64",
     "needs 64 cpu on one node; the most any ready node has free is 12, and the largest node has "
     "16 in all",
     "cpu:2:52000",
     {"cpu: needs 64, free 8 (short by 56)", "cpu: needs 64, free 12 (short by 52)"}},
    {"each is there but not on one node",
     ALLOC_BEST_FIT,
     "n1=8,16:um12 n2=8,16:uc6",
     "0 a=4,8",
     "no ready node has 4 cpu and 8 GiB memory free at once",
     "cpu:1:2000 memory:1:4294967296",
     {"memory: needs 8 GiB, free 4 GiB (short by 4 GiB)", "cpu: needs 4, free 2 (short by 2)"}},
    {"no node is ready",
     ALLOC_BEST_FIT,
     "n1=8:x n2=8:x",
     "0 a=1",
     "no node is ready (draining)",
     "node:2:0",
     {"draining", "draining"}},
    {"no nodes", ALLOC_BEST_FIT, "", "0 a=1", "the cluster has no nodes", "", {NULL}},
    {"runtime",
     ALLOC_BEST_FIT,
     "n1=8:D n2=8:x",
     "0 a=1:P",
     "needs a process node; none is ready",
     "runtime:1:0 node:1:0",
     {"runtime: needs a process node, this is a docker node", "draining"}},
    {"the ready one is small",
     ALLOC_BEST_FIT,
     "n1=8:x n2=1",
     "0 a=4",
     "needs 4 cpu on one node; the most any ready node has free is 1",
     "cpu:1:3000 node:1:0",
     {"draining", "cpu: needs 4, free 1 (short by 3)"}},
    {"ports",
     ALLOC_BEST_FIT,
     "n1=8,16,0,2",
     "0 a=1,0,0,5",
     "needs 5 free ports on one node; the most any ready node has free is 2, and the largest node "
     "has 2 in all",
     "ports:1:3",
     {"ports: needs 5, free 2 (short by 3)"}},
    {"too many ports",
     ALLOC_BEST_FIT,
     "n1=8",
     "0 a=1,0,0,17",
     "needs 17 free ports; a task can have 16",
     "ports:1:0",
     {"ports: needs 17, a task can have 16"}},
    {"all of a node",
     ALLOC_BEST_FIT,
     "n1=8:uc2 n2=4:uc1",
     "0 a=all",
     "needs all of the cpu of one node; no ready node has it wholly free",
     "cpu:2:1000",
     {"cpu: needs all 8, free 6 (short by 2)", "cpu: needs all 4, free 3 (short by 1)"}},
    {"all of the cards where there are none",
     ALLOC_BEST_FIT,
     "n1=8",
     "0 a=1,0,all",
     "needs all of the gpu of one node; no ready node has it wholly free",
     "gpu:1:0",
     {"gpu: needs all, the node has none"}},
    {"the task that fits nowhere speaks, not the largest",
     ALLOC_BALANCED,
     "n1=8,16",
     "0 a=8 b=1,32",
     "needs 32 GiB memory on one node; the most any ready node has free is 16 GiB, and the largest "
     "node has 16 GiB in all",
     "memory:1:17179869184",
     {"memory: needs 32 GiB, free 16 GiB (short by 16 GiB)"}},
    {"not all together: short in all",
     ALLOC_BALANCED,
     "n1=5 n2=4",
     "0 a=4 b=3 c=2 d=2 e=1 f=1",
     "4 of 6 tasks fit together now; cpu is short by 4 in all",
     "gang:2:2 cpu:2:2000",
     {"cpu: needs 2, free 0 (short by 2)", "cpu: needs 2, free 0 (short by 2)"}},
    {"not all together: scattered",
     ALLOC_BEST_FIT,
     "n1=3 n2=3",
     "0 a=2 b=2 c=2",
     "2 of 3 tasks fit together now; for the next, no ready node has 2 cpu free at once",
     "gang:2:1 cpu:2:1000",
     {"cpu: needs 2, free 1 (short by 1)", "cpu: needs 2, free 1 (short by 1)"}},
    {"it fits", ALLOC_BEST_FIT, "n1=3", "0 a=2", "fits now", "", {""}},
};

static void blockers_text(const struct plan_explanation *x, char *out, size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < x->n_blockers; i++)
        len += (size_t)snprintf(out + len, size - len, "%s%s:%d:%lld", i ? " " : "",
                                x->blockers[i].what, x->blockers[i].nodes,
                                (long long)x->blockers[i].short_by);
}

START_TEST(test_row)
    {
        const struct row *c = &rows[_i];
        struct world w;
        struct plan_explanation x;
        char blockers[256];
        world_read(&w, c->nodes, c->job, c->mode, METRIC_CPU);
        ck_assert_int_eq(plan_explain(w.nodes, w.n_nodes, &w.jobs[0], &x), 0);
        ck_assert_msg(strcmp(x.summary, c->summary) == 0, "%s: %s", c->what, x.summary);
        blockers_text(&x, blockers, sizeof(blockers));
        ck_assert_msg(strcmp(blockers, c->blockers) == 0, "%s: %s", c->what, blockers);
        ck_assert_uint_eq(x.n_reasons, w.n_nodes);
        for (size_t i = 0; i < w.n_nodes; i++) {
            ck_assert_int_eq(x.reasons[i].node, i);
            ck_assert_msg(strcmp(x.reasons[i].text, c->reasons[i]) == 0, "%s: %s", c->what,
                          x.reasons[i].text);
        }
        plan_explanation_free(&x);
        ck_assert_uint_eq(x.n_reasons, 0);
    }
END_TEST

START_TEST(test_changes_nothing)
    {
        struct world w, before;
        struct plan_explanation x;
        world_read(&w, "n1=4,16,1 n2=4", "0 a=2,1,1,2 b=2 c=2 d=2 e=2", ALLOC_SPREAD, METRIC_CPU);
        before = w;
        ck_assert_int_eq(plan_explain(w.nodes, w.n_nodes, &w.jobs[0], &x), 0);
        ck_assert_mem_eq(&w, &before, sizeof(w));
        ck_assert_str_eq(x.blockers[0].what, "gang");
        plan_explanation_free(&x);
    }
END_TEST

static void give(struct plan_node *n, const struct plan_blocker *b)
{
    if (strcmp(b->what, "cpu") == 0)
        n->free.cpu_milli += b->short_by;
    else if (strcmp(b->what, "memory") == 0)
        n->free.memory += b->short_by;
    else if (strcmp(b->what, "gpu") == 0) {
        n->free.gpu += b->short_by;
        for (int64_t i = 0, left = b->short_by; i < 64 && left > 0; i++)
            if (!(n->gpus_free >> i & 1)) {
                n->gpus_free |= UINT64_C(1) << i;
                left--;
            }
    } else if (strcmp(b->what, "ports") == 0) {
        for (int64_t i = 0, left = b->short_by; i < n->ports.count && left > 0; i++)
            if (n->ports.taken[i / 64] >> (i % 64) & 1) {
                n->ports.taken[i / 64] &= ~(UINT64_C(1) << (i % 64));
                left--;
            }
    } else {
        ck_abort_msg("nothing can be given for %s", b->what);
    }
}

static unsigned pick(unsigned n)
{
    static uint64_t state = 11;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)((state >> 33) % n);
}

static bool fits(struct world *w)
{
    struct world copy = *w;
    copy.nodes[0].ports.taken = copy.ports[0];
    copy.jobs[0].tasks = copy.tasks;
    copy.list[0] = &copy.jobs[0];
    ck_assert_int_eq(plan_run(copy.nodes, 1, copy.list, 1), 0);
    return copy.jobs[0].placed;
}

// One node, one task: what is short, given (all of it, nothing else), makes it fit; one less of any
// does not.
START_TEST(test_what_is_short_is_enough)
    {
        int unplaced = 0;
        for (int i = 0; i < 5000; i++) {
            struct world w;
            struct plan_explanation x;
            char node[64], job[64];
            (void)snprintf(node, sizeof(node), "n1=8,16,4,%u:uc%uum%uug%u", 8 + pick(30), pick(10),
                           pick(18), pick(5));
            if (pick(8) == 0)
                (void)snprintf(job, sizeof(job), "0 a=all,%u,all,%u", pick(17), pick(8));
            else
                (void)snprintf(job, sizeof(job), "0 a=%u.5,%u,%u,%u", pick(8), pick(17), pick(5),
                               pick(8));
            world_read(&w, node, job, (enum alloc_mode)pick(ALLOC_MAX), METRIC_CPU);
            w.ports[0][0] = pick(2) ? UINT64_MAX : pick(1u << 30);
            bool fitted = fits(&w);
            ck_assert_int_eq(plan_explain(w.nodes, 1, &w.jobs[0], &x), 0);
            ck_assert_int_eq(fitted, x.n_blockers == 0);
            ck_assert_int_eq(fitted, x.reasons[0].text[0] == '\0');
            unplaced += !fitted;
            for (size_t less = 0; less < x.n_blockers; less++) {
                struct world short_of_it = w;
                short_of_it.nodes[0].ports.taken = short_of_it.ports[0];
                for (size_t b = 0; b < x.n_blockers; b++) {
                    struct plan_blocker given = x.blockers[b];
                    given.short_by -= b == less;
                    give(&short_of_it.nodes[0], &given);
                }
                ck_assert(!fits(&short_of_it));
            }
            for (size_t b = 0; b < x.n_blockers; b++)
                give(&w.nodes[0], &x.blockers[b]);
            ck_assert(fits(&w));
            plan_explanation_free(&x);
        }
        ck_assert_int_gt(unplaced, 1000);
    }
END_TEST

#define MANY (PLAN_REASONS_MAX + 50)

// All are counted, the first ones are told, and the last one decides, whether it is told or not.
START_TEST(test_of_many_nodes_the_first_are_told)
    {
        static char names[MANY][8];
        static struct plan_node nodes[MANY];
        for (size_t tasks = 1; tasks <= 2; tasks++) {
            struct plan_task list[2];
            struct plan_job job = {.id = "j", .tasks = list, .n_tasks = tasks};
            struct plan_explanation x;
            for (size_t i = 0; i < MANY; i++) {
                (void)snprintf(names[i], sizeof(names[i]), "n%zu", i);
                nodes[i] = (struct plan_node){.name = names[i],
                                              .runtime = PLAN_RUNTIME_ANY,
                                              .total = {4000, GIB, 0},
                                              .free = {1000, GIB, 0}};
            }
            nodes[MANY - 1].free.cpu_milli = tasks > 1 ? 3000 : 1500; // one would fit; or none
            for (size_t k = 0; k < tasks; k++)
                list[k] = (struct plan_task){
                    .demand = {.resources = {2000, 0, 0}, .runtimes = PLAN_RUNTIME_ANY}};
            ck_assert_int_eq(plan_explain(nodes, MANY, &job, &x), 0);
            ck_assert_uint_eq(x.n_nodes, MANY);
            ck_assert_uint_eq(x.n_reasons, PLAN_REASONS_MAX);
            ck_assert_str_eq(x.reasons[PLAN_REASONS_MAX - 1].text,
                             "cpu: needs 2, free 1 (short by 1)");
            const struct plan_blocker *cpu = &x.blockers[tasks > 1];
            ck_assert_str_eq(cpu->what, "cpu");
            ck_assert_int_eq(cpu->nodes, MANY);
            ck_assert_int_eq(cpu->short_by, tasks > 1 ? 1000 : 500);
            plan_explanation_free(&x);
        }
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("explain");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, test_row, 0, (int)ARRAY_SIZE(rows));
    tcase_add_test(t, test_changes_nothing);
    tcase_add_test(t, test_of_many_nodes_the_first_are_told);
    tcase_add_test(t, test_what_is_short_is_enough);
    return run_case("explain", t);
}
