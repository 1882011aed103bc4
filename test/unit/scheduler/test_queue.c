// SPDX-License-Identifier: Apache-2.0
// The kept queue against one that looks at everything at every step: on random sequences of jobs
// that come, go, start and end, both must place the same tasks on the same nodes in the same order,
// however small the steps in which the kept one goes on. (The tasks of a job are alike here: a gang
// of different ones may, by luck of the order, fit after less room is left, and the kept queue
// looks at it only when there is more.) SEED= and CASES= choose others.
#include "master/scheduler/queue.h"

#include "test/unit/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES 6
#define JOBS 40
#define TASKS 4
#define GIB (INT64_C(1) << 30)

static uint64_t state;
static unsigned pick(unsigned n) // 0 .. n - 1
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)((state >> 33) % n);
}

struct want { // one job, the same for both sides
    char id[8];
    struct plan_demand demands[TASKS];
    struct plan_shape shape;
};

struct side {
    struct plan_node nodes[NODES];
    uint64_t ports[NODES];
    struct plan_index *index;
    struct plan_queue *queue;
    struct plan_entry entries[JOBS];
    struct plan_task got[JOBS][TASKS];
    bool runs[JOBS];
    int64_t started[JOBS];
    size_t log[JOBS], n_log; // what was placed, in order, in this step
    bool full;               // looks at everything at every step
    int steps;               // jobs to look at before it is told to stop
};

static struct want wants[JOBS];
static int64_t now;
static uint64_t seed_now;
static char names[NODES][8];
static const char *const users[] = {"ann", "bob", "cy"};

// As ck_assert, which tells the test's parent each time that it was passed.
#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what))                                                                               \
            ck_abort_msg("SEED=%lu: not so: %s", (unsigned long)seed_now, #what);                  \
    } while (0)

static bool more(void *userdata)
{
    struct side *s = userdata;
    return s->full || s->steps-- > 0;
}

static void hold(struct side *s, size_t job, int sign)
{
    const struct plan_shape *shape = &wants[job].shape;
    for (size_t i = 0; i < shape->n_demands; i++)
        CHECK(plan_queue_hold(s->queue, shape->user, &s->got[job][i].granted, sign, i ? 0 : sign,
                              now) == 0);
    s->runs[job] = sign > 0;
    s->started[job] = now;
}

static void placed(struct plan_entry *e, const struct plan_task *tasks, size_t n, void *userdata)
{
    struct side *s = userdata;
    size_t job = (size_t)(e - s->entries);
    CHECK(n == wants[job].shape.n_demands);
    memcpy(s->got[job], tasks, n * sizeof(*tasks));
    s->log[s->n_log++] = job;
    hold(s, job, 1);
}

static int running(const struct plan_running **ret, size_t *ret_n, void *userdata)
{
    static struct plan_running list[JOBS * TASKS];
    const struct side *s = userdata;
    size_t n = 0;
    for (size_t job = 0; job < JOBS; job++)
        for (size_t i = 0; s->runs[job] && i < wants[job].shape.n_demands; i++) {
            const struct plan_task *t = &s->got[job][i];
            int64_t bound = wants[job].shape.bound_ms, end = s->started[job] + bound;
            list[n++] = (struct plan_running){(size_t)t->node,
                                              t->granted,
                                              t->gpus,
                                              t->port,
                                              t->demand.ports,
                                              bound && end > now ? end : PLAN_NEVER,
                                              t->demand.exclusive};
        }
    *ret = list;
    *ret_n = n;
    return 0;
}

static void run(struct side *s)
{
    int r;
    s->n_log = 0;
    if (s->full)
        plan_queue_grew(s->queue);
    do {
        s->steps = 1 + (int)pick(3);
        r = plan_queue_run(
            s->queue, s->index,
            &(struct plan_queue_run){
                .more = more, .running = running, .placed = placed, .userdata = s, .now_ms = now});
    } while (r == 1);
    CHECK(r == 0);
    CHECK(!plan_queue_due(s->queue));
}

static void side_make(struct side *s, bool full, unsigned cards, const struct plan_policy *p)
{
    memset(s, 0, sizeof(*s));
    s->full = full;
    for (size_t i = 0; i < NODES; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "n%zu", i);
        s->nodes[i] = (struct plan_node){.name = names[i],
                                         .runtime = PLAN_RUNTIME_ANY,
                                         .total = {4000 + 1000 * (int64_t)(i % 3), 8 * GIB, cards},
                                         .ports = {1000, 20, 0, &s->ports[i]}};
        s->nodes[i].free = s->nodes[i].total;
        s->nodes[i].gpus_free = (UINT64_C(1) << cards) - 1;
    }
    CHECK(plan_index_new(s->nodes, NODES, &s->index) == 0);
    s->queue = plan_queue_new();
    ck_assert_ptr_nonnull(s->queue);
    plan_queue_set_policy(s->queue, p);
}

static void side_free(struct side *s)
{
    plan_index_free(s->index);
    plan_queue_free(s->queue);
}

static void random_want(size_t i)
{
    struct want *w = &wants[i];
    (void)snprintf(w->id, sizeof(w->id), "j%zu", i);
    w->shape = (struct plan_shape){.user = users[pick(3)],
                                   .priority = (int)pick(3),
                                   .alloc = (enum alloc_mode)pick(ALLOC_MAX),
                                   .metric = (enum alloc_metric)pick(METRIC_MAX),
                                   .bound_ms = pick(2) ? 0 : 1000 * (1 + pick(20)),
                                   .demands = w->demands,
                                   .n_demands = 1 + pick(TASKS)};
    for (size_t k = 0; k < w->shape.n_demands; k++)
        w->demands[k] =
            k ? w->demands[0]
              : (struct plan_demand){.resources = {1000 * pick(4), GIB * pick(3), pick(3)},
                                     .cpu_all = pick(20) == 0,
                                     .runtimes = PLAN_RUNTIME_ANY,
                                     .ports = (int)pick(3)};
}

static void submit(struct side *s, size_t job)
{
    s->entries[job] = (struct plan_entry){.id = wants[job].id, .order = (int64_t)job};
    CHECK(plan_queue_add(s->queue, &s->entries[job], &wants[job].shape) == 0);
}

static void give(struct plan_node *n, const struct plan_task *t)
{
    n->free.cpu_milli += t->granted.cpu_milli;
    n->free.memory += t->granted.memory;
    n->free.gpu += t->granted.gpu;
    n->gpus_free |= t->gpus;
    n->tasks--;
    for (int p = 0; p < t->demand.ports; p++)
        n->ports.taken[0] &= ~(UINT64_C(1) << (t->port[p] - n->ports.first));
}

static void end(struct side *s, size_t job)
{
    bool grew = false;
    for (size_t i = 0; i < wants[job].shape.n_demands; i++) {
        const struct plan_task *t = &s->got[job][i];
        give(&s->nodes[t->node], t);
        grew |= plan_index_touch(s->index, (size_t)t->node);
    }
    hold(s, job, -1);
    (void)grew;
    plan_queue_grew(s->queue);
}

static void set_eligible(struct side *s, size_t node, bool eligible)
{
    s->nodes[node].ineligible = eligible ? NULL : "draining";
    if (plan_index_touch(s->index, node))
        plan_queue_grew(s->queue);
}

static void set_account(struct side *s, const char *user, const struct plan_account *a)
{
    CHECK(plan_queue_set_user(s->queue, user, a) == 0);
}

static void same(const struct side *a, const struct side *b, unsigned step)
{
    ck_assert_msg(a->n_log == b->n_log, "SEED=%lu step %u: %zu and %zu placed",
                  (unsigned long)seed_now, step, a->n_log, b->n_log);
    for (size_t i = 0; i < a->n_log; i++) {
        size_t job = a->log[i];
        ck_assert_msg(job == b->log[i], "SEED=%lu step %u: j%zu and j%zu", (unsigned long)seed_now,
                      step, job, b->log[i]);
        for (size_t k = 0; k < wants[job].shape.n_demands; k++) {
            const struct plan_task *x = &a->got[job][k], *y = &b->got[job][k];
            CHECK(x->node == y->node);
            CHECK(x->gpus == y->gpus);
            CHECK(memcmp(x->port, y->port, sizeof(x->port)) == 0);
        }
    }
    for (size_t i = 0; i < NODES; i++) {
        CHECK(a->nodes[i].free.cpu_milli >= 0);
        CHECK(a->nodes[i].free.memory >= 0);
        CHECK(a->nodes[i].free.gpu >= 0);
        CHECK(a->nodes[i].free.cpu_milli == b->nodes[i].free.cpu_milli);
        CHECK(a->nodes[i].gpus_free == b->nodes[i].gpus_free);
    }
}

// What is told to be ahead of a job is what comes before it, all or as much as was asked for.
static void check_ahead(struct side *s, size_t n_jobs)
{
    const struct plan_entry *got[JOBS];
    for (size_t i = 0; i < n_jobs; i++) {
        const struct plan_entry *of = &s->entries[i];
        size_t want = 0, few = plan_queue_ahead(s->queue, of, got, 3);
        for (size_t k = 0; k < n_jobs; k++)
            want += k != i && plan_queue_before(s->queue, &s->entries[k], of);
        CHECK(few == (want < 3 ? want : 3));
        CHECK(plan_queue_ahead(s->queue, of, got, JOBS) == want);
        for (size_t k = 0; k < want; k++) {
            CHECK(plan_queue_before(s->queue, got[k], of));
            CHECK(k == 0 || plan_queue_before(s->queue, got[k - 1], got[k]));
        }
    }
}

// One change, applied to both sides.
static void change(struct side *s[2], size_t *n_jobs)
{
    unsigned what = pick(10);
    size_t job = *n_jobs ? pick((unsigned)*n_jobs) : 0, node = pick(NODES);
    bool eligible = pick(4) > 0;
    struct plan_account account = {pick(2) ? "team" : NULL,
                                   1 + pick(3),
                                   {pick(2) ? -1 : 1000 * (int64_t)pick(20), -1,
                                    pick(2) ? -1 : (int)pick(6), pick(2) ? -1 : (int)pick(4),
                                    pick(2) ? -1 : (int)pick(9)}};
    const char *user = users[pick(3)];
    if (what < 5 && *n_jobs < JOBS) {
        random_want(*n_jobs);
        job = (*n_jobs)++;
        submit(s[0], job);
        submit(s[1], job);
        return;
    }
    for (int i = 0; i < 2; i++)
        if (what == 8)
            set_eligible(s[i], node, eligible);
        else if (what == 9)
            set_account(s[i], user, &account);
        else if (*n_jobs && s[i]->runs[job])
            end(s[i], job);
        else if (*n_jobs && what == 7)
            plan_queue_remove(s[i]->queue, &s[i]->entries[job]);
}

static void one_case(void)
{
    static struct side kept, full;
    struct side *both[2] = {&kept, &full};
    unsigned cards = pick(5);
    size_t n_jobs = 0;
    struct plan_policy policy = {pick(3) ? 60000 : 0, pick(3) > 0, 2000 + 1000 * pick(20),
                                 pick(2) * pick(6), pick(3) ? 0 : 1 + pick(6)};
    now = 1000000;
    side_make(&kept, false, cards, &policy);
    side_make(&full, true, cards, &policy);
    for (unsigned step = 0; step < 80; step++) {
        for (unsigned changes = 1 + pick(4); changes > 0; changes--)
            change(both, &n_jobs);
        now += pick(4) ? pick(3000) : 0;
        uint64_t before = state; // the full side draws no numbers that matter
        run(&kept);
        state = before;
        run(&full);
        same(&kept, &full, step);
        if (step % 8 == 0)
            check_ahead(&kept, n_jobs);
    }
    side_free(&kept);
    side_free(&full);
}

START_TEST(kept_equals_full)
    {
        uint64_t cases = number_from_env("CASES", 4000), seed = number_from_env("SEED", 1);
        for (uint64_t i = 0; i < cases; i++) {
            state = seed_now = seed + i;
            (void)pick(2);
            one_case();
        }
    }
END_TEST

RUN_SUITE("queue", 300, kept_equals_full)
