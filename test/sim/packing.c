// SPDX-License-Identifier: Apache-2.0
// How full a cluster gets: tasks of a public trace arrive until their cards are 130 % of all there
// are, none ends, and one that finds no place is passed over.
//   packing NODES.csv PODS.csv [SEEDS]   the OpenB files of alibaba/clusterdata
//                                        (cluster-trace-gpu-v2023)
// The protocol is that of Weng et al., "Beware of Fragmentation" (USENIX ATC 2023): tasks are drawn
// from the trace in random order. A card is whole here: what asks for a part of one gets one, under
// every policy. The library's modes run against policies that look at every node, written from the
// papers:
//   first fit; best fit (least sum of what remains, cpu and cards as parts of the largest node);
//   dot product (the node with the least product of what is free and what is asked, as in that
//   paper, and the one with the greatest, as Tetris: Grandl et al., SIGCOMM 2014); fragmentation
//   gradient (the node where the cards that tasks of the trace cannot use grow least).
// Prints cards in use when as many had been asked for as there are, and at the end; the share of
// the free cards that a task of the trace cannot use; tasks passed over; microseconds per task.
#include "master/scheduler/plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NODES_MAX 2000
#define PODS_MAX 20000
#define TYPES_MAX 400
#define MIB (INT64_C(1) << 20)
#define OVERFILL 1.3

struct type { // of tasks
    int64_t cpu, memory, gpus;
    char spec[64]; // allowed models, '|' between them; "" = any
    char where[160];
    double weight; // share of the trace
};

static struct plan_node nodes[NODES_MAX];
static struct resources totals[NODES_MAX];
static char names[NODES_MAX][32], models[NODES_MAX][16];
static struct plan_card cards[NODES_MAX][8];
static size_t n_nodes, n_pods, n_types;
static struct type types[TYPES_MAX];
static uint16_t pods[PODS_MAX]; // types
static int64_t all_cards;

static uint64_t state;
static size_t pick(size_t n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)(state >> 33) % n;
}

// --- reading ---

// Fields of a line; "" where there is none.
static void split(char *line, const char **field, int n)
{
    line[strcspn(line, "\r\n")] = '\0';
    for (int i = 0; i < n; i++) {
        field[i] = line;
        line += strcspn(line, ",");
        if (*line)
            *line++ = '\0';
    }
}

static FILE *open_csv(const char *path, char *line, int size)
{
    FILE *f = fopen(path, "re");
    if (!f || !fgets(line, size, f)) {
        (void)fprintf(stderr, "packing: %s can't be read\n", path);
        exit(1);
    }
    return f;
}

static void read_nodes(const char *path)
{
    char line[512];
    const char *f[5];
    FILE *file = open_csv(path, line, sizeof(line));
    while (n_nodes < NODES_MAX && fgets(line, sizeof(line), file)) {
        size_t i = n_nodes++;
        split(line, f, 5);
        (void)snprintf(names[i], sizeof(names[i]), "%.31s", f[0]);
        (void)snprintf(models[i], sizeof(models[i]), "%.15s", f[4]);
        totals[i] = (struct resources){atoll(f[1]), atoll(f[2]) * MIB, atoll(f[3])};
        for (int k = 0; k < 8; k++)
            cards[i][k].model = models[i];
        all_cards += totals[i].gpu;
    }
    (void)fclose(file);
}

static void set_where(struct type *t)
{
    size_t len = (size_t)snprintf(t->where, sizeof(t->where),
                                  "$gpu.model\n"
                                  "in ");
    for (const char *p = t->spec; *p; p++)
        len +=
            (size_t)snprintf(t->where + len, sizeof(t->where) - len, *p == '|' ? ", " : "%c", *p);
    (void)snprintf(t->where + len, sizeof(t->where) - len, "\n");
}

static size_t type_of(const struct type *t)
{
    for (size_t i = 0; i < n_types; i++)
        if (types[i].cpu == t->cpu && types[i].memory == t->memory && types[i].gpus == t->gpus &&
            strcmp(types[i].spec, t->spec) == 0)
            return i;
    if (n_types == TYPES_MAX)
        exit(1);
    types[n_types] = *t;
    set_where(&types[n_types]);
    return n_types++;
}

static void read_pods(const char *path)
{
    char line[512];
    const char *f[6];
    FILE *file = open_csv(path, line, sizeof(line));
    while (n_pods < PODS_MAX && fgets(line, sizeof(line), file)) {
        split(line, f, 6);
        struct type t = {.cpu = atoll(f[1]), .memory = atoll(f[2]) * MIB, .gpus = atoll(f[3])};
        (void)snprintf(t.spec, sizeof(t.spec), "%.63s", f[5]);
        pods[n_pods] = (uint16_t)type_of(&t);
        types[pods[n_pods++]].weight += 1;
    }
    (void)fclose(file);
    for (size_t i = 0; i < n_types; i++)
        types[i].weight /= (double)n_pods;
}

// --- what the policies share ---

static bool allowed(const struct type *t, size_t node)
{
    const char *at = t->spec;
    size_t len = strlen(models[node]);
    for (; *at; at += at[strcspn(at, "|")] ? strcspn(at, "|") + 1 : strcspn(at, "|"))
        if (len && strncmp(at, models[node], len) == 0 && (at[len] == '|' || !at[len]))
            return true;
    return !t->spec[0] || t->gpus == 0;
}

static bool fits(const struct resources *free, const struct type *t, size_t node)
{
    return t->cpu <= free->cpu_milli && t->memory <= free->memory && t->gpus <= free->gpu &&
           allowed(t, node);
}

static struct resources less(const struct resources *free, const struct type *t)
{
    return (struct resources){free->cpu_milli - t->cpu, free->memory - t->memory,
                              free->gpu - t->gpus};
}

// Cards of the node that a task of the trace, on average, cannot use.
static double fragments(const struct resources *free, size_t node)
{
    double sum = 0;
    for (size_t i = 0; free->gpu > 0 && i < n_types; i++)
        if (types[i].gpus == 0 || !fits(free, &types[i], node))
            sum += types[i].weight * (double)free->gpu;
    return sum;
}

// --- policies that look at every node: less is better ---

enum policy { FIRST_FIT, BEST_FIT, DOT_LEAST, DOT_MOST, GRADIENT, POLICIES };
static const char *const policy_names[POLICIES] = {"first fit", "best fit", "dot product, least",
                                                   "dot product, most", "fragmentation gradient"};
static double now_fragments[NODES_MAX];

static double score(enum policy p, const struct type *t, size_t node)
{
    const struct resources *free = &nodes[node].free;
    struct resources rest = less(free, t);
    double dot = (double)free->cpu_milli / 128e3 * (double)t->cpu / 128e3 +
                 (double)free->gpu / 8 * (double)t->gpus / 8;
    switch (p) {
    case BEST_FIT:
        return (double)rest.cpu_milli / 128e3 + (double)rest.gpu / 8;
    case DOT_LEAST:
        return dot;
    case DOT_MOST:
        return -dot;
    case GRADIENT:
        return fragments(&rest, node) - now_fragments[node];
    default:
        return (double)node;
    }
}

static bool place_by(enum policy p, const struct type *t)
{
    size_t best = n_nodes;
    double least = INFINITY;
    for (size_t i = 0; i < n_nodes; i++) {
        if (!fits(&nodes[i].free, t, i))
            continue;
        double s = score(p, t, i);
        if (s < least) {
            least = s;
            best = i;
        }
        if (p == FIRST_FIT)
            break;
    }
    if (best == n_nodes)
        return false;
    nodes[best].free = less(&nodes[best].free, t);
    now_fragments[best] = p == GRADIENT ? fragments(&nodes[best].free, best) : 0;
    return true;
}

// --- the library ---

static bool place_in(struct plan_index *x, enum alloc_mode mode, enum alloc_metric metric,
                     const struct type *t)
{
    struct plan_task task = {.demand = {.resources = {t->cpu, t->memory, t->gpus},
                                        .runtimes = PLAN_RUNTIME_ANY,
                                        .where = t->spec[0] && t->gpus ? t->where : NULL}};
    struct plan_job job = {
        .id = "j", .alloc = mode, .metric = metric, .tasks = &task, .n_tasks = 1};
    struct plan_job *list[1] = {&job};
    if (plan_index_run(x, list, 1) < 0)
        abort();
    return job.placed;
}

// --- a run ---

struct result {
    double at_full, at_end, fragmented, seconds;
    size_t passed, arrived;
};

static void begin(void)
{
    for (size_t i = 0; i < n_nodes; i++) {
        nodes[i] = (struct plan_node){.name = names[i],
                                      .runtime = PLAN_RUNTIME_ANY,
                                      .total = totals[i],
                                      .free = totals[i],
                                      .gpus_free = (UINT64_C(1) << totals[i].gpu) - 1,
                                      .cards = cards[i],
                                      .n_cards = (size_t)totals[i].gpu};
        now_fragments[i] = fragments(&totals[i], i);
    }
}

static double in_use(void)
{
    int64_t free = 0;
    for (size_t i = 0; i < n_nodes; i++)
        free += nodes[i].free.gpu;
    return 1 - (double)free / (double)all_cards;
}

static double seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// library: by mode and metric; else by policy.
static void run(bool library, int policy, enum alloc_metric metric, uint64_t seed, struct result *r)
{
    struct plan_index *x = NULL;
    double asked = 0, start, free = 0, lost = 0;
    begin();
    if (plan_index_new(nodes, n_nodes, &x) < 0)
        abort();
    state = seed;
    start = seconds();
    while (asked < OVERFILL * (double)all_cards) {
        const struct type *t = &types[pods[pick(n_pods)]];
        double before = asked;
        bool placed = library ? place_in(x, (enum alloc_mode)policy, metric, t)
                              : place_by((enum policy)policy, t);
        asked += (double)t->gpus;
        r->arrived++;
        r->passed += !placed;
        if (before < (double)all_cards && asked >= (double)all_cards)
            r->at_full += in_use();
    }
    r->seconds += seconds() - start;
    r->at_end += in_use();
    for (size_t i = 0; i < n_nodes; i++) {
        free += (double)nodes[i].free.gpu;
        lost += fragments(&nodes[i].free, i);
    }
    r->fragmented += free > 0 ? lost / free : 0;
    plan_index_free(x);
}

static void report(const char *name, bool library, int policy, enum alloc_metric metric,
                   unsigned seeds)
{
    struct result r = {0};
    for (unsigned s = 1; s <= seeds; s++)
        run(library, policy, metric, s, &r);
    printf("%-28s cards_used at_100%% %.4f at_130%% %.4f fragmented %.3f passed_over %.4f "
           "us_per_task %.2f\n",
           name, r.at_full / seeds, r.at_end / seeds, r.fragmented / seeds,
           (double)r.passed / (double)r.arrived, r.seconds * 1e6 / (double)r.arrived);
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    unsigned seeds = argc > 3 ? (unsigned)atoi(argv[3]) : 3;
    if (argc < 3 || seeds == 0) {
        (void)printf("usage: packing NODES.csv PODS.csv [SEEDS] (no trace given: nothing to do)\n");
        return 0;
    }
    read_nodes(argv[1]);
    read_pods(argv[2]);
    printf("%zu nodes, %" PRId64 " cards; %zu tasks of %zu kinds; %u seeds\n", n_nodes, all_cards,
           n_pods, n_types, seeds);
    for (int p = 0; p < POLICIES; p++)
        report(policy_names[p], false, p, METRIC_CPU, seeds);
    report("meadow balanced by gpu", true, ALLOC_BALANCED, METRIC_GPU, seeds);
    report("meadow compacted by gpu", true, ALLOC_COMPACTED, METRIC_GPU, seeds);
    report("meadow spread", true, ALLOC_SPREAD, METRIC_CPU, seeds);
    report("meadow best-fit", true, ALLOC_BEST_FIT, METRIC_CPU, seeds);
    return 0;
}
