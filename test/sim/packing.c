// SPDX-License-Identifier: Apache-2.0
// How full a cluster gets when more arrives than it holds: the scheduler library's ways of placing,
// and policies that look at every node (lib/pack.h tells the protocol and which).
//   packing NODES.csv PODS.csv [SEEDS]   the OpenB files of alibaba/clusterdata
// First with whole cards, as the library gives them: the same tasks, and the same count of what
// they ask for, for all. Then with shared ones, as the paper has it, to see that these policies are
// the paper's; the library gives whole cards there too, and is shown for what that costs.
#include "master/scheduler/plan.h"
#include "test/sim/lib/pack.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct result {
    double at_full, at_end; // part of all cards in use when as much was asked for, and at the end
    double given;           // part of all cards given, whole, at the end
    double fragmented;      // at the end: part of what is free that tasks can't use
    double seconds;
    size_t passed, arrived;
};

static double seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// --- the library ---

struct library {
    struct plan_node *nodes;
    struct plan_card (*cards)[PACK_CARDS];
    struct plan_index *index;
};

static void library_free(struct library *l)
{
    plan_index_free(l->index);
    free(l->nodes);
    free(l->cards);
}

static int library_make(struct library *l, const struct pack *p)
{
    *l = (struct library){.nodes = calloc(p->n_nodes, sizeof(*l->nodes)),
                          .cards = calloc(p->n_nodes, sizeof(*l->cards))};
    for (size_t i = 0; l->nodes && l->cards && i < p->n_nodes; i++) {
        const struct trace_node *t = &p->from[i];
        for (int c = 0; c < PACK_CARDS; c++)
            l->cards[i][c].model = t->model;
        l->nodes[i] = (struct plan_node){.name = t->name,
                                         .runtime = PLAN_RUNTIME_ANY,
                                         .total = t->total,
                                         .free = t->total,
                                         .gpus_free = (UINT64_C(1) << t->total.gpu) - 1,
                                         .cards = l->cards[i],
                                         .n_cards = (size_t)t->total.gpu};
    }
    return l->nodes && l->cards ? plan_index_new(l->nodes, p->n_nodes, &l->index) : -1;
}

static bool library_place(struct library *l, enum alloc_mode mode, const struct pack_kind *k)
{
    char where[160];
    trace_where(k->need.gpu ? k->as->models : "", where, sizeof(where));
    struct plan_task task = {.demand = {.resources = k->need,
                                        .runtimes = PLAN_RUNTIME_ANY,
                                        .where = *where ? where : NULL}};
    struct plan_job job = {
        .id = "j", .alloc = mode, .metric = METRIC_GPU, .tasks = &task, .n_tasks = 1};
    struct plan_job *list[1] = {&job};
    if (plan_index_run(l->index, list, 1) < 0)
        abort();
    return job.placed;
}

// What is free, as the policies see it.
static void library_show(const struct library *l, struct pack *p)
{
    for (size_t i = 0; i < p->n_nodes; i++) {
        struct pack_node *n = &p->nodes[i];
        n->cpu = l->nodes[i].free.cpu_milli;
        n->memory = l->nodes[i].free.memory;
        for (int c = 0; c < n->n_cards; c++)
            n->milli[c] = l->nodes[i].gpus_free >> c & 1 ? WHOLE : 0;
    }
}

// --- a run ---

// mode < 0: by the policy. Adds to r.
static int run(struct pack *p, int mode, enum pack_policy policy, uint64_t seed, struct result *r)
{
    struct library l;
    double asked = 0, used = 0, all = (double)p->all_milli, free = 0, lost = 0, from;
    if (pack_draw(p, seed) < 0 || library_make(&l, p) < 0)
        return -1;
    from = seconds();
    for (size_t i = 0; i < p->n_order; i++) {
        const struct pack_kind *k = &p->kinds[p->order[i]];
        bool placed = mode >= 0 ? library_place(&l, (enum alloc_mode)mode, k)
                                : pack_place(p, policy, p->order[i]);
        double before = asked;
        asked += (double)pack_asks(k);
        used += placed ? (double)pack_asks(k) : 0;
        r->passed += !placed;
        if (before < all && asked >= all)
            r->at_full += used / all;
    }
    r->seconds += seconds() - from;
    r->arrived += p->n_order;
    r->at_end += used / all;
    if (mode >= 0)
        library_show(&l, p);
    for (size_t i = 0; i < p->n_nodes; i++) {
        free += (double)pack_free_milli(&p->nodes[i]);
        lost += pack_fragments(&p->nodes[i], p);
    }
    r->given += 1 - free / all;
    r->fragmented += free > 0 ? lost / free : 0;
    library_free(&l);
    return 0;
}

static void report(struct pack *p, const char *name, int mode, enum pack_policy policy,
                   unsigned seeds)
{
    struct result r = {0};
    for (unsigned s = 1; s <= seeds; s++)
        if (run(p, mode, policy, s, &r) < 0) {
            (void)fprintf(stderr, "packing: out of memory, or nothing asks for cards\n");
            exit(1);
        }
    printf("%-24s %8.2f %8.2f %8.2f %8.3f %9.3f %9.2f\n", name, 100 * r.at_full / seeds,
           100 * r.at_end / seeds, 100 * r.given / seeds, r.fragmented / seeds,
           (double)r.passed / (double)r.arrived, r.seconds * 1e6 / (double)r.arrived);
    (void)fflush(stdout);
}

static int compare(const struct trace_node *nodes, size_t n_nodes, const struct trace_job *jobs,
                   size_t n_jobs, bool shared, unsigned seeds)
{
    struct pack *p = pack_new(nodes, n_nodes, jobs, n_jobs, shared);
    if (!p)
        return 1;
    printf("%s cards: %zu nodes, %" PRId64 " cards, %zu tasks of %zu kinds, %u seeds\n",
           shared ? "Shared" : "Whole", n_nodes, p->all_milli / WHOLE, n_jobs, p->n_kinds, seeds);
    printf("%-24s %8s %8s %8s %8s %9s %9s\n", "cards in use, %", "at 100%", "at 130%", "given",
           "frag", "passed", "us/task");
    for (int i = 0; i < PACK_POLICIES; i++)
        if (!shared || i == PACK_BEST || i == PACK_DOT || i == PACK_GRADIENT)
            report(p, pack_policy_names[i], -1, (enum pack_policy)i, seeds);
    if (!shared) {
        report(p, "MARO balanced", ALLOC_BALANCED, PACK_FIRST, seeds);
        report(p, "MARO compacted", ALLOC_COMPACTED, PACK_FIRST, seeds);
        report(p, "meadow spread", ALLOC_SPREAD, PACK_FIRST, seeds);
    }
    report(p, "meadow best-fit", ALLOC_BEST_FIT, PACK_FIRST, seeds);
    pack_free(p);
    return 0;
}

// What was published for a trace, at 100 % and 130 %, of shared cards: means of 6 to 10 of the 10
// seeds of experiments/analysis/expected_results/analysis_allo_discrete.csv of
// github.com/hkust-adsl/kubernetes-scheduler-simulator (Apache-2.0).
static void published(const char *path)
{
    static const struct {
        const char *trace, *policy;
        double full, end;
    } rows[] = {
        {"_default.csv", "published: best fit", 92.85, 93.07},
        {"_default.csv", "published: gradient", 95.22, 95.39},
        {"_multigpu50.csv", "published: best fit", 95.66, 95.78},
        {"_multigpu50.csv", "published: gradient", 97.10, 97.19},
        {"_gpuspec33.csv", "published: best fit", 80.45, 93.13},
        {"_gpuspec33.csv", "published: gradient", 87.84, 94.55},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strstr(path, rows[i].trace))
            printf("%-24s %8.2f %8.2f\n", rows[i].policy, rows[i].full, rows[i].end);
}

int main(int argc, char **argv)
{
    struct trace_node *nodes = NULL;
    struct trace_job *jobs = NULL;
    size_t n_nodes = 0, n_jobs = 0;
    unsigned seeds = argc > 3 ? (unsigned)atoi(argv[3]) : 10;
    if (argc < 3 || seeds == 0) {
        (void)printf("usage: packing NODES.csv PODS.csv [SEEDS] (no trace given: nothing to do)\n");
        return 0;
    }
    if (trace_nodes(argv[1], &nodes, &n_nodes) < 0 || trace_jobs(argv[2], &jobs, &n_jobs) < 0) {
        (void)fprintf(stderr,
                      "packing: %s or %s can't be read, or has nothing of the expected form\n",
                      argv[1], argv[2]);
        return 1;
    }
    int r = compare(nodes, n_nodes, jobs, n_jobs, false, seeds) ||
            compare(nodes, n_nodes, jobs, n_jobs, true, seeds);
    published(argv[2]);
    free(nodes);
    free(jobs);
    return r;
}
