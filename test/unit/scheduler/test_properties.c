// SPDX-License-Identifier: Apache-2.0
// What holds whatever happens, on random small clusters and random sequences of jobs that come, end
// and are withdrawn: nothing is given twice, a job gets all of its places or none, nobody exceeds a
// quota, among equals the older starts first, the same calls give the same answers, nobody is
// overtaken more often than is promised (queue.h), what is stopped for a job makes room for it and
// no part of it would, a job waits for a quota only while that has no room for it, and one that
// waits for room starts when it is given what plan_explain says it lacks (of every single reason:
// test_explain_holds.c). SEED= and CASES= choose others.
#include "test/unit/scheduler/property_world.h"

// --- the invariants ---

static void check_nodes(void)
{
    for (int i = 0; i < NODES; i++) {
        struct resources used = {0};
        uint64_t gpus = 0, taken = 0;
        for (size_t k = 0; k < n_wants; k++)
            for (size_t t = 0; wants[k].is == RUNS && t < wants[k].shape.n_demands; t++) {
                const struct plan_task *g = &wants[k].got[t];
                if (g->node != i)
                    continue;
                used.cpu_milli += g->granted.cpu_milli;
                used.memory += g->granted.memory;
                used.gpu += g->granted.gpu;
                CHECK(!(gpus & g->gpus), "a card of n%d is given twice", AT, i);
                CHECK(__builtin_popcountll(g->gpus) == g->granted.gpu, "cards of n%d", AT, i);
                gpus |= g->gpus;
                for (int p = 0; p < g->demand.ports; p++) {
                    uint64_t bit = UINT64_C(1) << (g->port[p] - 1000);
                    CHECK(!(taken & bit), "a port of n%d is given twice", AT, i);
                    taken |= bit;
                }
            }
        const struct plan_node *n = &nodes[i];
        CHECK(used.cpu_milli <= n->total.cpu_milli && used.memory <= n->total.memory &&
                  used.gpu <= n->total.gpu,
              "n%d is over-committed", AT, i);
        CHECK(n->free.cpu_milli == n->total.cpu_milli - used.cpu_milli &&
                  n->free.gpu == n->total.gpu - used.gpu && !(n->gpus_free & gpus),
              "what n%d has free is wrong", AT, i);
    }
}

static bool within(size_t u, const struct resources *more, int64_t jobs)
{
    struct resources sum = *more;
    const struct plan_quota *q = &accounts[u].quota;
    for (size_t k = 0; k < n_wants; k++)
        for (size_t t = 0;
             wants[k].is == RUNS && user_at(&wants[k]) == u && t < wants[k].shape.n_demands; t++) {
            sum.cpu_milli += wants[k].got[t].granted.cpu_milli;
            sum.gpu += wants[k].got[t].granted.gpu;
            jobs += t == 0;
        }
    return (q->cpu < 0 || sum.cpu_milli <= q->cpu) && (q->gpu < 0 || sum.gpu <= q->gpu) &&
           (q->jobs < 0 || jobs <= q->jobs);
}

static bool same_shape(const struct want *a, const struct want *b)
{
    return a->shape.n_demands == b->shape.n_demands && a->shape.alloc == b->shape.alloc &&
           a->shape.bound_ms == b->shape.bound_ms && strcmp(a->shape.user, b->shape.user) == 0 &&
           memcmp(a->demands, b->demands, sizeof(a->demands)) == 0;
}

static void check_order(void)
{
    for (size_t k = 0; k < n_wants; k++)
        for (size_t j = 0; wants[k].is == RUNS && wants[k].started_in == runs && j < n_wants; j++) {
            const struct want *a = &wants[j], *b = &wants[k];
            if (a->is != WAITS || a->again || !same_shape(a, b))
                continue;
            CHECK(a->shape.priority < b->shape.priority ||
                      (a->shape.priority == b->shape.priority && a > b),
                  "%s started, and %s, which comes first, waits", AT, b->id, a->id);
        }
}

// What is said to keep a job back does.
static void check_waits(void)
{
    struct plan_head head = plan_queue_head(queue);
    for (size_t k = 0; k < n_wants; k++) {
        const struct want *w = &wants[k];
        struct resources sum = {0};
        if (w->is != WAITS)
            continue;
        for (size_t t = 0; t < w->shape.n_demands; t++) {
            sum.cpu_milli += w->demands[t].resources.cpu_milli;
            sum.gpu += w->demands[t].resources.gpu;
        }
        enum plan_wait why = plan_queue_wait(&w->entry);
        CHECK(why != PLAN_WAIT_NEW, "%s was not looked at", AT, w->id);
        CHECK(why != PLAN_WAIT_QUOTA || !within(user_at(w), &sum, 1),
              "%s waits for a quota that has room for it", AT, w->id);
        CHECK(why != PLAN_WAIT_RESERVED || head.id, "%s waits for no head", AT, w->id);
    }
}

// --- overtaking: of jobs of one task, whose places are easy to judge ---

static bool serves(const struct plan_node *n, const struct want *w)
{
    const struct plan_demand *d = &w->demands[0];
    return d->resources.cpu_milli <= n->total.cpu_milli && d->resources.memory <= n->total.memory &&
           d->resources.gpu <= n->total.gpu;
}

static const struct want *oldest(void)
{
    const struct want *found = NULL;
    for (size_t k = 0; k < n_wants; k++) {
        const struct want *w = &wants[k];
        struct resources sum = {0};
        for (size_t t = 0; t < w->shape.n_demands; t++) {
            sum.cpu_milli += w->demands[t].resources.cpu_milli;
            sum.gpu += w->demands[t].resources.gpu;
        }
        if (w->is == WAITS && (!found || w->shape.priority > found->shape.priority) &&
            within(user_at(w), &sum, 1))
            found = w;
    }
    return found && found->shape.n_demands == 1 ? found : NULL;
}

static void watch(void)
{
    const struct want *w = oldest();
    if (w != watched)
        overtaken = 0;
    watched = w;
}

static void count_overtaking(const struct want *w)
{
    struct plan_head head = plan_queue_head(queue);
    bool at_cost = false;
    if (watched && oldest() != watched) // it started, or its quota is used up for the time being
        watched = NULL;
    if (!watched || w <= watched || w->shape.priority > watched->shape.priority ||
        (head.id == watched->id && head.start_ms != PLAN_NEVER))
        return;
    for (size_t t = 0; t < w->shape.n_demands; t++)
        at_cost |= serves(&nodes[w->got[t].node], watched);
    overtaken += at_cost;
    seen_overtakes += at_cost;
    CHECK(!policy.backfill || !policy.overtakes ||
              overtaken <= 2 * policy.overtakes + 2 * most_in_run,
          "%s was overtaken %u times, allowed: 2 x %u and runs of %u", AT, watched->id, overtaken,
          policy.overtakes, most_in_run);
}

// --- the queue's side ---

static bool more(void *userdata)
{
    (void)userdata;
    return pick(8) > 0;
}

static void hold(struct want *w, int sign)
{
    for (size_t i = 0; i < w->shape.n_demands; i++)
        CHECK(plan_queue_hold(queue, w->shape.user, &w->got[i].granted, sign, i ? 0 : sign, now) ==
                  0,
              "out of memory", AT);
}

static void placed(struct plan_entry *e, const struct plan_task *tasks, size_t n, void *userdata)
{
    struct want *w = (struct want *)(void *)((char *)e - offsetof(struct want, entry));
    (void)userdata;
    CHECK(n == w->shape.n_demands, "%s got %zu places", AT, w->id, n);
    memcpy(w->got, tasks, n * sizeof(*tasks));
    w->is = RUNS;
    w->started_in = runs;
    seen_starts++;
    in_run++;
    most_in_run = in_run > most_in_run ? in_run : most_in_run;
    hold(w, 1);
    CHECK(within(user_at(w), &(struct resources){0}, 0), "%s exceeds a quota", AT, w->id);
    count_overtaking(w);
    for (size_t i = 0; i < n; i++) {
        CHECK(tasks[i].node >= 0 && !nodes[tasks[i].node].ineligible, "%s has no place", AT, w->id);
        digest =
            (digest ^ (uint64_t)(w - wants) ^ (uint64_t)tasks[i].node << 8 ^ tasks[i].gpus << 16) *
            UINT64_C(1099511628211);
    }
}

static void run(void)
{
    int r;
    runs++;
    in_run = 0;
    stopped_for = NULL;
    watch();
    do {
        r = plan_queue_run(queue, index_of,
                           &(struct plan_queue_run){.more = more,
                                                    .running = running,
                                                    .victims = policy_preempts ? victims : NULL,
                                                    .preempt = preempt,
                                                    .placed = placed,
                                                    .now_ms = now});
    } while (r == 1);
    CHECK(r == 0, "out of memory", AT);
    check_nodes();
    check_order();
    check_waits();
    check_stopped();
}

// --- what is said is so ---

static void give(struct plan_node *n, const char *what, int64_t amount)
{
    if (strcmp(what, "cpu") == 0)
        n->free.cpu_milli += amount;
    else if (strcmp(what, "memory") == 0)
        n->free.memory += amount;
    else
        for (; amount > 0; amount--) {
            n->free.gpu++;
            n->gpus_free |= ~n->gpus_free & -~n->gpus_free; // its lowest card that is taken
        }
}

// A node that lacks one thing only is given what the blocker says is the least that lacks anywhere:
// then the task fits somewhere.
static void check_explained(const struct want *w)
{
    struct plan_node copy[2 * NODES + TASKS];
    struct plan_task tasks[TASKS];
    struct plan_explanation x;
    struct plan_job job = {.id = w->id, .tasks = tasks, .n_tasks = w->shape.n_demands},
                    *list = &job;
    bool room = false, with_ports = w->demands[0].ports > 0;
    for (size_t i = 0; i < job.n_tasks; i++) {
        tasks[i] = (struct plan_task){.demand = w->demands[i]};
        tasks[i].demand.ports = 0;
    }
    CHECK(plan_explain(nodes, NODES, &job, &x) == 0, "out of memory", AT);
    CHECK(x.n_blockers || plan_queue_wait(&w->entry) != PLAN_WAIT_CAPACITY || with_ports,
          "%s waits for room, and fits", AT, w->id);
    memcpy(copy, nodes, sizeof(nodes));
    size_t n = NODES;
    bool gang = x.n_blockers && strcmp(x.blockers[0].what, "gang") == 0;
    // Room for as many more of its largest task as did not fit.
    for (int64_t k = gang ? x.blockers[0].short_by : 0; k > 0; k--, n++) {
        copy[n] = nodes[0];
        copy[n].name = "new";
        copy[n].ineligible = NULL;
        copy[n].total = copy[n].free = tasks[0].demand.resources;
        copy[n].gpus_free = (UINT64_C(1) << copy[n].free.gpu) - 1;
    }
    for (size_t i = 0; !gang && i < NODES && x.n_blockers; i++) {
        if (strchr(x.reasons[i].text, ';') || nodes[i].ineligible || !x.reasons[i].text[0])
            continue;
        for (size_t b = 0; b < x.n_blockers; b++)
            if (strncmp(x.reasons[i].text, x.blockers[b].what, strlen(x.blockers[b].what)) == 0)
                give(&copy[i], x.blockers[b].what, x.blockers[b].short_by);
        room = true;
    }
    bool alone = x.n_blockers == 1; // so that the least of all nodes is this one's
    if (gang || (room && alone && job.n_tasks == 1)) {
        CHECK(plan_run(copy, n, &list, 1) == 0, "out of memory", AT);
        CHECK(job.placed, "%s does not start with what it is said to lack: %s", AT, w->id,
              x.summary);
        seen_gangs += gang;
        seen_explained += !gang;
    }
    plan_explanation_free(&x);
}

// --- the cases ---

static void random_want(size_t i)
{
    struct want *w = &wants[i];
    *w = (struct want){.is = WAITS};
    (void)snprintf(w->id, sizeof(w->id), "j%zu", i);
    w->shape = (struct plan_shape){.user = users[pick(USERS)],
                                   .priority = pick(4) ? 1 : (int)pick(3),
                                   .alloc = (enum alloc_mode)pick(ALLOC_MAX),
                                   .demands = w->demands,
                                   .n_demands = pick(3) ? 1 : 1 + pick(TASKS)};
    w->preemptible = pick(3) == 0;
    w->demands[0] = (struct plan_demand){.resources = {1000 * pick(4), GIB * pick(3), pick(3)},
                                         .runtimes = PLAN_RUNTIME_ANY,
                                         .ports = (int)pick(3)};
    for (size_t k = 1; k < w->shape.n_demands; k++)
        w->demands[k] = w->demands[0];
    w->entry = (struct plan_entry){.id = w->id, .order = (int64_t)i};
    CHECK(plan_queue_add(queue, &w->entry, &w->shape) == 0, "out of memory", AT);
}

static void end(struct want *w)
{
    for (size_t i = 0; i < w->shape.n_demands; i++) {
        const struct plan_task *t = &w->got[i];
        take_back(&nodes[t->node], t);
        nodes[t->node].tasks--;
        (void)plan_index_touch(index_of, (size_t)t->node);
    }
    hold(w, -1);
    w->is = OVER;
    plan_queue_grew(queue);
    if (!w->stopping)
        return;
    w->stopping = w->stuck = false;
    w->is = WAITS;
    w->again = true;
    CHECK(plan_queue_add(queue, &w->entry, &w->shape) == 0, "out of memory", AT);
}

static void begin(void)
{
    policy =
        (struct plan_policy){pick(2) ? 60000 : 0, pick(4) > 0, 1000 * (1 + pick(100)), pick(3), 0};
    policy_preempts = pick(2);
    now = 1000000;
    n_wants = 0;
    runs = most_in_run = overtaken = 0;
    watched = NULL;
    digest = 0;
    for (int i = 0; i < NODES; i++) {
        ports[i] = 0;
        nodes[i] = (struct plan_node){.name = node_names[i],
                                      .runtime = PLAN_RUNTIME_ANY,
                                      .total = {3000 + 1000 * pick(3), 4 * GIB, 2 + pick(3)},
                                      .ports = {1000, 20, 0, &ports[i]}};
        nodes[i].free = nodes[i].total;
        nodes[i].gpus_free = (UINT64_C(1) << nodes[i].total.gpu) - 1;
    }
    CHECK(plan_index_new(nodes, NODES, &index_of) == 0, "out of memory", AT);
    queue = plan_queue_new();
    ck_assert_ptr_nonnull(queue);
    plan_queue_set_policy(queue, &policy);
    for (int u = 0; u < USERS; u++) {
        accounts[u] = (struct plan_account){NULL, 1 + pick(2), PLAN_NO_QUOTA};
        if (pick(3) == 0)
            accounts[u].quota =
                (struct plan_quota){1000 * (3 + pick(5)), -1, 2 + pick(4), 1 + pick(4), -1};
        CHECK(plan_queue_set_user(queue, users[u], &accounts[u]) == 0, "out of memory", AT);
    }
}

static void one_case(void)
{
    begin();
    for (unsigned step = 0; step < STEPS; step++) {
        for (unsigned k = pick(3); k > 0 && n_wants < JOBS; k--)
            random_want(n_wants++);
        size_t at = n_wants ? pick((unsigned)n_wants) : 0;
        if (n_wants && wants[at].stopping && !wants[at].stuck && pick(4) == 0) {
            wants[at].stuck = true;
            plan_queue_shaken(queue, true);
        } else if (n_wants && wants[at].is == RUNS)
            end(&wants[at]);
        else if (n_wants && wants[at].is == WAITS && pick(12) == 0) {
            plan_queue_remove(queue, &wants[at].entry);
            wants[at].is = OVER;
        }
        now += pick(2000);
        run();
        at = n_wants ? pick((unsigned)n_wants) : 0;
        if (n_wants && wants[at].is == WAITS && pick(4) == 0)
            check_explained(&wants[at]);
    }
    plan_queue_free(queue);
    plan_index_free(index_of);
}

START_TEST(what_always_holds)
    {
        uint64_t cases = number_from_env("CASES", 100000), first = number_from_env("SEED", 1);
        for (uint64_t i = 0; i < cases; i++) {
            uint64_t before = 0;
            for (int again = 0; again < (i % 8 ? 1 : 2); again++) {
                state = seed_now = first + i;
                (void)pick(2);
                one_case();
                CHECK(!again || digest == before, "another answer the second time", AT);
                before = digest;
            }
        }
        printf("%lu cases: %lu starts, %lu of them past an older job; %lu explanations tried, %lu "
               "of gangs; %lu stopped for others\n",
               (unsigned long)cases, seen_starts, seen_overtakes, seen_explained, seen_gangs,
               seen_stops);
        ck_assert_uint_gt(seen_stops * 100, cases);
        ck_assert_uint_gt(seen_overtakes * 100, cases);
        ck_assert_uint_gt(seen_explained * 100, cases);
        ck_assert_uint_gt(seen_gangs * 100, cases);
    }
END_TEST

RUN_SUITE("properties", 1200, what_always_holds)
