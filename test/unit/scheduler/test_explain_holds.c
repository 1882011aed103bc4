// SPDX-License-Identifier: Apache-2.0
// What an explanation says is so: on a random node, a random task starts when it is given exactly
// what is said to keep it back, and not while one of these is left out; whatever the reason is.
// SEED= and CASES= choose others.
#include "master/scheduler/plan.h"

#include "test/unit/suite.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define GIB (INT64_C(1) << 30)
#define PORTS 4
#define ROUNDS 8 // an ineligible node, or a rule, hides what else is lacking

static uint64_t state, seed_now;
static unsigned pick(unsigned n) // 0 .. n - 1
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)((state >> 33) % n);
}

struct scene {
    struct plan_node node;
    uint64_t ports;
    struct plan_task task;
    struct plan_rules rules;
    struct plan_tie tie;
    struct plan_peer peer;
    struct plan_job job;
};

static const char *const groups[] = {"m", "job:x"};
static const struct plan_label zone_a = {"zone", "a"}, zone_b = {"zone", "b"};
static unsigned long told[16];

// As ck_assert_msg, which tells the test's parent each time that it was passed.
#define CHECK(what, ...)                                                                           \
    do {                                                                                           \
        if (!(what))                                                                               \
            ck_abort_msg("SEED=%lu: " __VA_ARGS__);                                                \
    } while (0)
#define AT (unsigned long)seed_now

// --- a node, a job ---

static void random_node(struct scene *s)
{
    struct plan_node *n = &s->node;
    *n = (struct plan_node){.name = "n",
                            .ineligible = pick(5) ? NULL : "draining",
                            .runtime = 1 + pick(3),
                            .total = {1000 * pick(5), GIB * pick(4), pick(4)},
                            .labels = pick(2) ? &zone_a : &zone_b,
                            .n_labels = pick(3) > 0,
                            .tasks = (int)pick(3),
                            .max_tasks = pick(3) ? 0 : 1 + (int)pick(2)};
    n->free =
        (struct resources){n->total.cpu_milli / (1 + pick(2)), n->total.memory / (1 + pick(2)), 0};
    n->gpus_free = ((UINT64_C(1) << n->total.gpu) - 1) & pick(8);
    n->free.gpu = __builtin_popcountll(n->gpus_free);
    n->exclusive = n->tasks == 1 && pick(3) == 0;
    s->ports = pick(1 << PORTS);
}

static void random_job(struct scene *s)
{
    bool ruled = pick(2), alone = ruled && pick(4) == 0;
    s->task =
        (struct plan_task){.demand = {.resources = {500 * pick(9), GIB / 2 * pick(7), pick(4)},
                                      .cpu_all = pick(8) == 0,
                                      .memory_all = pick(8) == 0,
                                      .gpu_all = pick(8) == 0,
                                      .runtimes = 1 + (int)pick(3),
                                      .ports = (int)pick(PORTS),
                                      .where = pick(3) ? NULL : "zone\na\n",
                                      .ruled = ruled,
                                      .exclusive = alone}};
    s->tie = (struct plan_tie){0, 1, alone || pick(2)};
    s->rules = (struct plan_rules){
        .key = "k", .names = groups, .n_groups = 2, .n_own = 1, .n_ties = pick(2)};
    s->job = (struct plan_job){.id = "j",
                               .alloc = (enum alloc_mode)pick(ALLOC_MAX),
                               .n_tasks = 1,
                               .n_peers = ruled && s->node.tasks > 0 && pick(2)};
}

// The job points into the scene.
static struct plan_job *bind(struct scene *s)
{
    s->node.ports = (struct plan_ports){1000, PORTS, 0, &s->ports};
    s->peer = (struct plan_peer){0, 1};
    s->rules.ties = &s->tie;
    s->job.tasks = &s->task;
    s->job.rules = s->task.demand.ruled ? &s->rules : NULL;
    s->job.peers = &s->peer;
    return &s->job;
}

static bool starts(struct scene s) // on a copy
{
    struct plan_job *job = bind(&s);
    CHECK(plan_run(&s.node, 1, &job, 1) == 0, "out of memory", AT);
    return job->placed;
}

// --- remedies ---

static void give_cards(struct plan_node *n, const struct plan_blocker *b)
{
    bool none = b->short_by == 0; // all of none
    for (int64_t k = none ? 1 : b->short_by; k > 0; k--) {
        n->gpus_free |= ~n->gpus_free & -~n->gpus_free;
        n->free.gpu++;
    }
    n->total.gpu = n->free.gpu > n->total.gpu ? n->free.gpu : n->total.gpu;
}

static void give_amount(int64_t *free, int64_t *total, const struct plan_blocker *b)
{
    *free += b->short_by ? b->short_by : 1000;
    *total = *free > *total ? *free : *total;
}

static void give_others(struct scene *s, const char *what)
{
    struct plan_node *n = &s->node;
    if (strcmp(what, "affinity") == 0) {
        s->job.n_peers = s->tie.apart ? 0 : 1;
        n->tasks = s->tie.apart ? n->tasks : n->tasks + 1;
    } else if (strcmp(what, "exclusive") == 0) {
        n->exclusive = 0;
        if (s->task.demand.exclusive)
            n->tasks = 0;
    } else if (strcmp(what, "tasks") == 0) {
        n->max_tasks = 0;
    } else if (strcmp(what, "labels") == 0) {
        n->labels = &zone_a;
        n->n_labels = 1;
    } else if (strcmp(what, "runtime") == 0) {
        n->runtime = (enum plan_runtime)s->task.demand.runtimes;
    } else {
        CHECK(strcmp(what, "node") == 0, "%s", AT, what);
        n->ineligible = NULL;
    }
}

static void give(struct scene *s, const struct plan_blocker *b)
{
    struct plan_node *n = &s->node;
    CHECK(b->nodes == 1, "%s on %d nodes", AT, b->what, b->nodes);
    if (strcmp(b->what, "cpu") == 0)
        give_amount(&n->free.cpu_milli, &n->total.cpu_milli, b);
    else if (strcmp(b->what, "memory") == 0)
        give_amount(&n->free.memory, &n->total.memory, b);
    else if (strcmp(b->what, "gpu") == 0)
        give_cards(n, b);
    else if (strcmp(b->what, "ports") == 0)
        for (int64_t k = b->short_by; k > 0; k--)
            s->ports &= s->ports - 1;
    else
        give_others(s, b->what);
}

static void count(const char *what)
{
    static const char *const names[] = {"cpu",   "memory",    "gpu",      "ports", "runtime",
                                        "tasks", "exclusive", "affinity", "node",  "labels"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        told[i] += strcmp(what, names[i]) == 0;
}

// --- the cases ---

// Whether it starts already; else it is given what it lacks, as far as that is told.
static bool one_round(struct scene *s)
{
    struct plan_explanation x;
    CHECK(plan_explain(&s->node, 1, bind(s), &x) == 0, "out of memory", AT);
    bool fits = strcmp(x.summary, "fits now") == 0;
    CHECK(fits == starts(*s), "it starts: %d, but: %s", AT, !fits, x.summary);
    CHECK(fits == (x.n_blockers == 0), "%zu blockers, but: %s", AT, x.n_blockers, x.summary);
    CHECK(fits == (x.reasons[0].text[0] == '\0'), "%s, but: %s", AT, x.reasons[0].text, x.summary);
    for (size_t left_out = 0; left_out < x.n_blockers; left_out++) {
        struct scene but = *s;
        for (size_t i = 0; i < x.n_blockers; i++)
            if (i != left_out)
                give(&but, &x.blockers[i]);
        CHECK(!starts(but), "it starts without %s: %s", AT, x.blockers[left_out].what, x.summary);
    }
    for (size_t i = 0; i < x.n_blockers; i++) {
        give(s, &x.blockers[i]);
        count(x.blockers[i].what);
    }
    plan_explanation_free(&x);
    return fits;
}

START_TEST(it_starts_with_what_it_is_said_to_lack)
    {
        uint64_t cases = number_from_env("CASES", 100000), first = number_from_env("SEED", 1);
        for (uint64_t i = 0; i < cases; i++) {
            struct scene s = {0};
            int rounds = 0;
            state = seed_now = first + i;
            (void)pick(2);
            random_node(&s);
            random_job(&s);
            while (!one_round(&s))
                CHECK(++rounds < ROUNDS, "something is always lacking", AT);
        }
        for (size_t i = 0; i < 10; i++)
            ck_assert_uint_gt(told[i] * 1000, cases);
    }
END_TEST

RUN_SUITE("explain holds", 300, it_starts_with_what_it_is_said_to_lack)
