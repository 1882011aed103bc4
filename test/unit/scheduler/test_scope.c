// SPDX-License-Identifier: Apache-2.0
// Jobs with rules on random small clusters: what is placed keeps every rule (told by a checker that
// knows nothing of how it was placed), a job that is not placed leaves no trace, and where any
// placement exists at all one is nearly always found. SEED= and CASES= choose others.
#include "master/scheduler/scope.h"

#include "test/unit/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES 4
#define TASKS 5
#define GROUPS 3 // two of the job, one other

static uint64_t state;
static unsigned pick(unsigned n) // 0 .. n - 1
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)((state >> 33) % n);
}

static struct plan_node nodes[NODES], before[NODES];
static struct plan_task tasks[TASKS];
static struct plan_tie ties[2];
static struct plan_rules rules;
static struct plan_peer peers[2 * NODES];
static struct plan_job job;
static const char *const node_names[NODES] = {"n0", "n1", "n2", "n3"};
static const char *const group_names[GROUPS] = {"a", "b", "job:c"};

static void random_nodes(void)
{
    job.n_peers = 0;
    for (uint32_t i = 0; i < NODES; i++) {
        int others = pick(3) == 0;
        nodes[i] = (struct plan_node){.name = node_names[i],
                                      .ineligible = pick(12) ? NULL : "draining",
                                      .runtime = PLAN_RUNTIME_ANY,
                                      .total = {1000 * (1 + pick(5)), 1 << 20, 0},
                                      .tasks = others};
        nodes[i].free = nodes[i].total;
        nodes[i].free.cpu_milli -= others * 1000 * (int64_t)pick(2);
        nodes[i].exclusive = others && pick(4) == 0;
        if (others && pick(2))
            peers[job.n_peers++] = (struct plan_peer){i, 2};
        if (pick(6) == 0 && !nodes[i].exclusive) { // a task of the job runs there
            peers[job.n_peers++] = (struct plan_peer){i, (uint16_t)pick(2)};
            nodes[i].tasks++;
        }
    }
    memcpy(before, nodes, sizeof(nodes));
}

static void random_job(void)
{
    size_t n_peers = job.n_peers;
    bool exclusive[2] = {pick(4) == 0, pick(4) == 0};
    enum gang_mode gang[2] = {pick(4) ? 0 : pick(GANG_MAX), pick(4) ? 0 : pick(GANG_MAX)};
    int64_t cpu[2] = {1000 * pick(4), 1000 * pick(4)};
    rules = (struct plan_rules){.key = "k",
                                .names = group_names,
                                .n_groups = GROUPS,
                                .n_own = 2,
                                .ties = ties,
                                .n_ties = pick(3),
                                .gang = pick(5) ? GANG_ANY_NODES : pick(GANG_MAX)};
    bool gangs = gang[0] || gang[1] || rules.gang;
    for (size_t i = 0; i < rules.n_ties; i++) {
        ties[i] = (struct plan_tie){(uint16_t)pick(2), (uint16_t)pick(3), pick(2)};
        if (!ties[i].apart && (ties[i].group == ties[i].with || gangs)) // refused in job files
            ties[i].with = 2;
    }
    job = (struct plan_job){.id = "j",
                            .alloc = (enum alloc_mode)pick(ALLOC_MAX),
                            .tasks = tasks,
                            .n_tasks = 1 + pick(TASKS),
                            .rules = &rules,
                            .peers = peers,
                            .n_peers = n_peers};
    size_t firsts = pick((unsigned)job.n_tasks + 1);
    for (size_t i = 0; i < job.n_tasks; i++) {
        int g = i >= firsts;
        tasks[i] = (struct plan_task){.demand = {.resources = {cpu[g], 0, 0},
                                                 .runtimes = PLAN_RUNTIME_ANY,
                                                 .ruled = true,
                                                 .exclusive = exclusive[g],
                                                 .group = (uint16_t)g,
                                                 .gang = gang[g]}};
    }
}

// --- the checker: at[i] = node of task i ---

static int count_at(const int *at, int node, int group) // group -1 = all of the job
{
    int n = 0;
    for (size_t i = 0; i < job.n_tasks; i++)
        n += at[i] == node && (group < 0 || tasks[i].demand.group == group);
    for (size_t i = 0; i < job.n_peers; i++)
        n += (int)peers[i].node == node &&
             (group < 0 ? peers[i].group < 2 : peers[i].group == group);
    return n;
}

static bool tie_kept(const int *at, const struct plan_tie *t)
{
    for (size_t i = 0; i < job.n_tasks; i++) {
        int g = tasks[i].demand.group;
        if (t->apart && g == t->group && count_at(at, at[i], t->with) > (t->with == g))
            return false;
        if (t->apart && g == t->with && count_at(at, at[i], t->group) > (t->group == g))
            return false;
        if (!t->apart && g == t->group && count_at(at, at[i], t->with) == 0)
            return false;
    }
    return true;
}

static bool same_node(const int *at, int group)
{
    int node = -1;
    for (size_t i = 0; i < job.n_tasks; i++) {
        if (group >= 0 && tasks[i].demand.group != group)
            continue;
        if (node >= 0 && at[i] != node)
            return false;
        node = at[i];
    }
    for (size_t i = 0; node >= 0 && i < job.n_peers; i++)
        if (peers[i].group < 2 && (group < 0 || peers[i].group == group) &&
            (int)peers[i].node != node)
            return count_at((int[TASKS]){-1, -1, -1, -1, -1}, node, group) > 0; // one of several
    return true;
}

static bool room_kept(const int *at)
{
    for (int i = 0; i < NODES; i++) {
        const struct plan_node *n = &before[i];
        int64_t cpu = 0;
        bool used = false, alone = false;
        for (size_t k = 0; k < job.n_tasks; k++)
            if (at[k] == i) {
                used = true;
                cpu += tasks[k].demand.resources.cpu_milli;
                alone |= tasks[k].demand.exclusive;
            }
        int own_before = count_at((int[TASKS]){-1, -1, -1, -1, -1}, i, -1);
        if (used && (n->ineligible || cpu > n->free.cpu_milli))
            return false;
        if (used && ((n->exclusive && !own_before) || (alone && n->tasks > own_before)))
            return false;
    }
    return true;
}

static bool kept(const int *at)
{
    if (!room_kept(at) || (rules.gang == GANG_SAME_NODE && !same_node(at, -1)))
        return false;
    for (size_t i = 0; i < rules.n_ties; i++)
        if (!tie_kept(at, &ties[i]))
            return false;
    for (size_t i = 0; i < job.n_tasks && !rules.gang; i++)
        if (tasks[i].demand.gang == GANG_SAME_NODE && !same_node(at, tasks[i].demand.group))
            return false;
    return true;
}

static bool exists(void)
{
    int at[TASKS] = {0};
    size_t all = 1;
    for (size_t i = 0; i < job.n_tasks; i++)
        all *= NODES;
    for (size_t k = 0; k < all; k++) {
        size_t rest = k;
        for (size_t i = 0; i < job.n_tasks; i++, rest /= NODES)
            at[i] = (int)(rest % NODES);
        if (kept(at))
            return true;
    }
    return false;
}

// --- the cases ---

static unsigned placed, missed, impossible;

static void one_case(uint64_t seed)
{
    struct plan_index *x = NULL;
    struct plan_refusals refusals = {0};
    int at[TASKS];
    random_nodes();
    random_job();
    ck_assert_int_eq(plan_index_new(nodes, NODES, &x), 0);
    ck_assert_int_eq(plan_try(x, &refusals, &job), 0);
    for (size_t i = 0; i < job.n_tasks; i++)
        at[i] = tasks[i].node;
    ck_assert_msg(!job.placed || kept(at), "SEED=%lu: a rule is broken", (unsigned long)seed);
    bool possible = job.placed || exists();
    placed += job.placed;
    missed += !job.placed && possible;
    impossible += !possible;
    if (job.placed)
        plan_untry(x, &job);
    for (int i = 0; i < NODES; i++) {
        ck_assert_int_eq(nodes[i].free.cpu_milli, before[i].free.cpu_milli);
        ck_assert_int_eq(nodes[i].tasks, before[i].tasks);
        ck_assert_int_eq(nodes[i].exclusive, before[i].exclusive);
        ck_assert_uint_eq(x->job_tasks[i], 0);
    }
    plan_index_free(x);
    struct plan_explanation e;
    job.placed = possible;
    ck_assert_int_eq(plan_explain(nodes, NODES, &job, &e), 0);
    ck_assert_msg(possible || strcmp(e.summary, "fits now") != 0, "SEED=%lu: %s",
                  (unsigned long)seed, e.summary);
    plan_explanation_free(&e);
}

START_TEST(rules_are_kept)
    {
        uint64_t cases = number_from_env("CASES", 20000), seed = number_from_env("SEED", 1);
        for (uint64_t i = 0; i < cases; i++) {
            state = seed + i;
            (void)pick(2);
            (void)pick(2);
            one_case(seed + i);
        }
        printf("placed %u, impossible %u, missed %u\n", placed, impossible, missed);
        ck_assert_uint_gt(impossible, placed / 20);
        ck_assert_msg(missed * 100 <= placed, "missed %u of %u", missed, placed + missed);
    }
END_TEST

RUN_SUITE("scope", 300, rules_are_kept)
