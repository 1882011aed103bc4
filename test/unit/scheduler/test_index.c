// SPDX-License-Identifier: Apache-2.0
// The plan on thousands of random clusters and queues: what it answers by looking at every node,
// with its trees, and with an index that is kept, must each be what the plain reference answers, to
// the last port. SEED= and CASES= in the environment choose others.
#include "test/unit/scheduler/plan_reference.h"

#include "master/scheduler/plan_internal.h"
#include "test/unit/suite.h"

#include <check.h>
#include <stdio.h>

#define JOBS 8
#define GIB (INT64_C(1) << 30)

static uint64_t state;
static unsigned pick(unsigned n) // 0 .. n - 1
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)((state >> 33) % n);
}
static bool chance(unsigned percent)
{
    return pick(100) < percent;
}

static char names[REF_NODES][16];
static struct plan_images images;
static struct plan_holder *holders[REF_NODES];
static const char *const image_names[] = {"A", "B", "C"};
static char ids[JOBS][16];

struct queue {
    struct plan_job jobs[JOBS];
    struct plan_task tasks[JOBS][REF_TASKS];
    struct plan_job *list[JOBS];
    size_t n;
};

static void random_node(struct ref *r, size_t i, bool cards)
{
    static const char *const why[] = {"draining", "not ready: engine down"};
    struct plan_node *n = &r->nodes[i];
    uint16_t ports = (uint16_t)(1 + pick(REF_WORDS * 64));
    *n = (struct plan_node){
        .name = names[i],
        .ineligible = chance(10) ? why[pick(2)] : NULL,
        .runtime = (enum plan_runtime)(1 + pick(3)),
        .total = {1000 * (1 + pick(8)), GIB * (1 + pick(8)), cards ? pick(5) : 0},
        .ports = {(uint16_t)(1000 + pick(1000)), ports, (uint16_t)pick(ports + 3u), r->ports[i]},
        .tasks = (int)pick(4)};
    n->free = n->total;
    n->gpus_free = (UINT64_C(1) << n->total.gpu) - 1;
    if (chance(40)) {
        n->free.cpu_milli -= 500 * pick(12); // overbooked, too
        n->free.memory -= GIB / 2 * pick(12);
    }
    if (n->total.gpu && chance(30)) {
        n->gpus_free &= ~(UINT64_C(1) << pick((unsigned)n->total.gpu));
        n->free.gpu = __builtin_popcountll(n->gpus_free);
    }
    for (int w = 0; w < REF_WORDS; w++)
        r->ports[i][w] = chance(30)   ? (uint64_t)pick(1u << 31) << pick(33)
                         : chance(10) ? UINT64_MAX
                                      : 0;
}

static void random_images(struct plan_node *n, size_t i)
{
    const char *some[3];
    size_t k = 0;
    for (size_t a = 0; a < 3; a++)
        if (chance(30))
            some[k++] = image_names[a];
    ck_assert_int_eq(plan_images_set(&images, &holders[i], some, k), 0);
    holders[i]->slot = (uint32_t)i;
    n->holder = chance(90) ? holders[i] : NULL;
}

static void random_demand(struct plan_demand *d, const struct ref *r, bool cards)
{
    *d = (struct plan_demand){
        .resources = {500 * pick(7), GIB / 2 * pick(7), cards && chance(40) ? pick(4) : 0},
        .cpu_all = chance(3),
        .memory_all = chance(3),
        .gpu_all = cards && chance(3),
        .runtimes = chance(80) ? PLAN_RUNTIME_ANY : 1 + (int)pick(2),
        .ports = chance(70) ? (int)pick(3) : (int)pick(18),
        .avoid = chance(10) ? r->nodes[pick((unsigned)r->n)].name : NULL,
        .image = chance(40) ? plan_images_find(&images, image_names[pick(3)]) : NULL};
}

static void random_queue(struct queue *q, const struct ref *r, bool cards)
{
    enum alloc_mode mode = (enum alloc_mode)pick(ALLOC_MAX);
    bool mixed = chance(50);
    q->n = 1 + pick(JOBS);
    for (size_t i = 0; i < q->n; i++) {
        struct plan_job *j = &q->jobs[i];
        *j = (struct plan_job){.id = ids[i],
                               .priority = (int)pick(3),
                               .order = pick(4),
                               .alloc = mixed ? (enum alloc_mode)pick(ALLOC_MAX) : mode,
                               .metric = (enum alloc_metric)pick(METRIC_MAX),
                               .tasks = q->tasks[i],
                               .n_tasks = 1 + (chance(70) ? pick(4) : pick(REF_TASKS))};
        bool alike = chance(50), nothing = chance(10);
        for (size_t k = 0; k < j->n_tasks; k++) {
            q->tasks[i][k] = (struct plan_task){0};
            random_demand(&q->tasks[i][k].demand, r, cards);
            if (nothing)
                q->tasks[i][k].demand.resources = (struct resources){0};
            if (alike && k > 0)
                q->tasks[i][k].demand = q->tasks[i][0].demand;
        }
        q->list[i] = j;
    }
}

static void copy_world(struct ref *to, const struct ref *from)
{
    *to = *from;
    for (size_t i = 0; i < to->n; i++)
        to->nodes[i].ports.taken = to->ports[i];
}

static void copy_queue(struct queue *to, const struct queue *from)
{
    *to = *from;
    for (size_t i = 0; i < to->n; i++) {
        to->jobs[i].tasks = to->tasks[i];
        to->list[i] = &to->jobs[i];
    }
}

static void same_nodes(const struct ref *a, const struct ref *b)
{
    for (size_t i = 0; i < a->n; i++) {
        struct plan_node x = a->nodes[i], y = b->nodes[i];
        x.ports.taken = y.ports.taken = NULL;
        // An untouched cursor may be out of range; it is one number to both.
        ck_assert_mem_eq(&x.free, &y.free, sizeof(x.free));
        ck_assert_uint_eq(x.gpus_free, y.gpus_free);
        ck_assert_int_eq(x.tasks, y.tasks);
        ck_assert_uint_eq(x.ports.cursor, y.ports.cursor);
        ck_assert_mem_eq(a->ports[i], b->ports[i], sizeof(a->ports[i]));
    }
}

static void same_tasks(const struct queue *a, const struct queue *b)
{
    for (size_t i = 0; i < a->n; i++) {
        ck_assert_int_eq(a->jobs[i].placed, b->jobs[i].placed);
        for (size_t k = 0; a->jobs[i].placed && k < a->jobs[i].n_tasks; k++) {
            const struct plan_task *x = &a->tasks[i][k], *y = &b->tasks[i][k];
            ck_assert_int_eq(x->node, y->node);
            ck_assert_mem_eq(&x->granted, &y->granted, sizeof(x->granted));
            ck_assert_uint_eq(x->gpus, y->gpus);
            ck_assert_mem_eq(x->port, y->port, sizeof(x->port));
        }
    }
}

// What must hold whatever the rules of preference are.
static void sound(const struct ref *before, const struct ref *after, const struct queue *q)
{
    for (size_t i = 0; i < after->n; i++) {
        struct resources used = {0};
        uint64_t gpus = 0;
        int tasks = 0;
        for (size_t j = 0; j < q->n; j++)
            for (size_t k = 0; q->jobs[j].placed && k < q->jobs[j].n_tasks; k++) {
                const struct plan_task *t = &q->tasks[j][k];
                if (t->node != (int)i)
                    continue;
                ck_assert_ptr_null(before->nodes[i].ineligible);
                ck_assert_uint_eq(t->gpus & gpus, 0);
                ck_assert_int_eq(__builtin_popcountll(t->gpus), t->granted.gpu);
                gpus |= t->gpus;
                used.cpu_milli += t->granted.cpu_milli;
                used.memory += t->granted.memory;
                used.gpu += t->granted.gpu;
                tasks++;
            }
        ck_assert_uint_eq(gpus & ~before->nodes[i].gpus_free, 0);
        ck_assert_int_eq(before->nodes[i].free.cpu_milli - used.cpu_milli,
                         after->nodes[i].free.cpu_milli);
        ck_assert(used.cpu_milli == 0 || after->nodes[i].free.cpu_milli >= 0);
        ck_assert(used.memory == 0 || after->nodes[i].free.memory >= 0);
        ck_assert(used.gpu == 0 || after->nodes[i].free.gpu >= 0);
        ck_assert_int_eq(before->nodes[i].tasks + tasks, after->nodes[i].tasks);
    }
}

static struct ref world, expected, got, kept;
static struct queue queue, queue_expected, queue_got;

static void prepare_all(struct plan_index *x)
{
    for (int a = 0; a < ALLOC_MAX; a++)
        for (int m = 0; m < METRIC_MAX; m++)
            ck_assert_int_eq(plan_index_prepare(x, (enum alloc_mode)a, (enum alloc_metric)m), 0);
}

static void random_world(bool cards)
{
    memset(&world, 0, sizeof(world));
    world.n = 1 + pick(chance(50) ? 5 : REF_NODES);
    for (size_t i = 0; i < world.n; i++) {
        random_node(&world, i, cards);
        random_images(&world.nodes[i], i);
    }
}

static void one_case(void)
{
    bool cards = chance(60);
    struct plan_index *x;
    random_world(cards);
    random_queue(&queue, &world, cards);
    copy_world(&expected, &world);
    copy_queue(&queue_expected, &queue);
    ref_run(&expected, queue_expected.jobs, queue.n);

    copy_world(&got, &world);
    copy_queue(&queue_got, &queue);
    ck_assert_int_eq(plan_run(got.nodes, got.n, queue_got.list, queue.n), 0);
    same_tasks(&queue_got, &queue_expected);
    same_nodes(&got, &expected);
    sound(&world, &got, &queue_got);

    copy_world(&got, &world);
    copy_queue(&queue_got, &queue);
    ck_assert_int_eq(plan_index_new(got.nodes, got.n, &x), 0);
    prepare_all(x);
    ck_assert_int_eq(plan_index_run(x, queue_got.list, queue.n), 0);
    plan_index_free(x);
    same_tasks(&queue_got, &queue_expected);
    same_nodes(&got, &expected);
}

// An index that lives on while jobs come and nodes change.
static void one_life(void)
{
    bool cards = chance(60);
    struct plan_index *x;
    random_world(cards);
    copy_world(&kept, &world);
    copy_world(&expected, &world);
    ck_assert_int_eq(plan_index_new(kept.nodes, kept.n, &x), 0);
    for (int turn = 0; turn < 12; turn++) {
        random_queue(&queue, &world, cards);
        copy_queue(&queue_expected, &queue);
        copy_queue(&queue_got, &queue);
        ref_run(&expected, queue_expected.jobs, queue.n);
        ck_assert_int_eq(plan_index_run(x, queue_got.list, queue.n), 0);
        same_tasks(&queue_got, &queue_expected);
        same_nodes(&kept, &expected);
        for (size_t i = 0; i < world.n; i++) {
            if (chance(60))
                continue;
            kept.nodes[i].ineligible = expected.nodes[i].ineligible =
                chance(10) ? "draining" : NULL;
            kept.nodes[i].free = expected.nodes[i].free = world.nodes[i].free;
            kept.nodes[i].gpus_free = expected.nodes[i].gpus_free = world.nodes[i].gpus_free;
            memset(kept.ports[i], 0, sizeof(kept.ports[i]));
            memset(expected.ports[i], 0, sizeof(expected.ports[i]));
            plan_index_touch(x, i);
        }
    }
    plan_index_free(x);
}

// The order in which the nodes are given is nothing to the answer.
static void shuffled(void)
{
    bool cards = chance(60);
    random_world(cards);
    random_queue(&queue, &world, cards);
    copy_queue(&queue_expected, &queue);
    copy_queue(&queue_got, &queue);
    copy_world(&expected, &world);
    copy_world(&got, &world);
    for (size_t i = 0; i < got.n; i++) {
        got.nodes[i] = world.nodes[world.n - 1 - i];
        got.nodes[i].ports.taken = got.ports[world.n - 1 - i];
    }
    ck_assert_int_eq(plan_run(expected.nodes, world.n, queue_expected.list, queue.n), 0);
    for (size_t i = 0; i < world.n; i++)
        holders[i]->slot = (uint32_t)(world.n - 1 - i);
    ck_assert_int_eq(plan_run(got.nodes, world.n, queue_got.list, queue.n), 0);
    for (size_t i = 0; i < queue.n; i++)
        for (size_t k = 0; queue_got.jobs[i].placed && k < queue.jobs[i].n_tasks; k++)
            queue_got.tasks[i][k].node = (int)world.n - 1 - queue_got.tasks[i][k].node;
    same_tasks(&queue_got, &queue_expected);
}

static unsigned env(const char *name, unsigned fallback)
{
    const char *v = getenv(name);
    return v ? (unsigned)strtoul(v, NULL, 10) : fallback;
}

static void many(void (*fn)(void), unsigned cases)
{
    unsigned seed = env("SEED", 1);
    for (unsigned i = 0; i < env("CASES", cases); i++) {
        state = seed * UINT64_C(1000003) + i;
        for (int k = 0; k < 4; k++)
            (void)pick(2);
        fn();
    }
}

START_TEST(test_as_the_reference)
    {
        many(one_case, 4000);
    }
END_TEST

START_TEST(test_kept_index)
    {
        many(one_life, 400);
    }
END_TEST

START_TEST(test_order_of_nodes)
    {
        many(shuffled, 1000);
    }
END_TEST

int main(void)
{
    for (int i = 0; i < REF_NODES; i++)
        (void)snprintf(names[i], sizeof(names[i]), "n%d", (i * 7) % REF_NODES);
    for (int i = 0; i < JOBS; i++)
        (void)snprintf(ids[i], sizeof(ids[i]), "j%d", i);
    TCase *t = tcase_create("properties");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, test_as_the_reference);
    tcase_add_test(t, test_kept_index);
    tcase_add_test(t, test_order_of_nodes);
    int r = run_case("index", t);
    for (int i = 0; i < REF_NODES; i++)
        plan_images_drop(&holders[i]);
    return r;
}
