// SPDX-License-Identifier: Apache-2.0
// How fast the plan is: placements a second on a big cluster, and what one more job costs when the
// cluster is full. Prints one figure a line, "name: number". Time is this process's CPU time (the
// plan does nothing but compute), so that other work on the machine does not count.
#include "master/scheduler/images.h"
#include "master/scheduler/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GIB (INT64_C(1) << 30)
#define PORT_WORDS 16
#define TASKS_PER_JOB 20

struct cluster {
    struct plan_node *nodes;
    size_t n;
    char (*names)[16];
    uint64_t (*ports)[PORT_WORDS];
    struct plan_holder **holders;
};

#define IMAGES 100

static struct plan_images images;
static char image_names[IMAGES][8];

struct load {
    struct plan_job *jobs, **list;
    struct plan_task *tasks;
    char (*ids)[16];
    size_t n;
};

static uint64_t state = 7;
static unsigned pick(unsigned n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)((state >> 33) % n);
}

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

static struct cluster cluster_make(size_t n)
{
    struct cluster c = {must(calloc(n, sizeof(*c.nodes))), n, must(calloc(n, sizeof(*c.names))),
                        must(calloc(n, sizeof(*c.ports))),
                        must(calloc(n, sizeof(struct plan_holder *)))};
    for (size_t i = 0; i < n; i++) {
        int64_t gpus = i % 4 == 0 ? 8 : 0;
        int64_t cpu = 32000 + 16000 * (int64_t)pick(4);
        (void)snprintf(c.names[i], sizeof(c.names[i]), "node-%zu", i);
        c.nodes[i] = (struct plan_node){.name = c.names[i],
                                        .runtime = PLAN_RUNTIME_ANY,
                                        .total = {cpu, cpu / 250 * GIB, gpus},
                                        .free = {cpu, cpu / 250 * GIB, gpus},
                                        .gpus_free = (UINT64_C(1) << gpus) - 1,
                                        .ports = {20000, PORT_WORDS * 64, 0, c.ports[i]}};
    }
    return c;
}

static void cluster_free(struct cluster *c)
{
    for (size_t i = 0; i < c->n; i++)
        plan_images_drop(&c->holders[i]);
    free(c->holders);
    free(c->nodes);
    free(c->names);
    free(c->ports);
}

static struct load load_make(size_t n_tasks, enum alloc_mode mode, bool mixed)
{
    size_t n = n_tasks / TASKS_PER_JOB;
    struct load l = {must(calloc(n, sizeof(*l.jobs))), must(calloc(n, sizeof(struct plan_job *))),
                     must(calloc(n_tasks, sizeof(*l.tasks))), must(calloc(n, sizeof(*l.ids))), n};
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(l.ids[i], sizeof(l.ids[i]), "j%zu", i);
        struct plan_task *tasks = &l.tasks[i * TASKS_PER_JOB];
        l.jobs[i] = (struct plan_job){.id = l.ids[i],
                                      .priority = 50,
                                      .order = (int64_t)i,
                                      .alloc = mixed ? (enum alloc_mode)pick(ALLOC_MAX) : mode,
                                      .tasks = tasks,
                                      .n_tasks = TASKS_PER_JOB};
        l.list[i] = &l.jobs[i];
        for (size_t k = 0; k < TASKS_PER_JOB; k++) {
            tasks[k].demand =
                (struct plan_demand){.resources = {500 * (1 + pick(8)), GIB * (1 + pick(8)), 0},
                                     .runtimes = PLAN_RUNTIME_ANY,
                                     .ports = k == 0 ? 2 : 0};
            if (i % 8 == 0 && k < 4)
                tasks[k].demand.resources.gpu = 1;
        }
    }
    return l;
}

static void load_free(struct load *l)
{
    free(l->jobs);
    free(l->list);
    free(l->tasks);
    free(l->ids);
}

// Every node has about a third of the images, every task wants one of them.
static void use_images(struct cluster *c, struct load *l)
{
    const struct plan_image *wanted[IMAGES];
    for (int i = 0; i < IMAGES; i++)
        (void)snprintf(image_names[i], sizeof(image_names[i]), "i:%d", i);
    for (size_t i = 0; i < c->n; i++) {
        const char *names[IMAGES];
        size_t n = 0;
        for (int k = 0; k < IMAGES; k++)
            if (pick(3) == 0)
                names[n++] = image_names[k];
        if (plan_images_set(&images, &c->holders[i], names, n) < 0)
            abort();
        c->holders[i]->slot = (uint32_t)i;
        c->nodes[i].holder = c->holders[i];
    }
    for (int i = 0; i < IMAGES; i++)
        wanted[i] = plan_images_find(&images, image_names[i]);
    for (size_t i = 0; i < l->n; i++)
        for (size_t k = 0, image = pick(IMAGES); k < TASKS_PER_JOB; k++)
            l->jobs[i].tasks[k].demand.image = wanted[image];
}

static void run(struct cluster *c, struct load *l)
{
    if (plan_run(c->nodes, c->n, l->list, l->n) < 0)
        abort();
}

static double placements(const char *what, enum alloc_mode mode, bool mixed, bool with_images)
{
    size_t placed = 0;
    struct cluster c = cluster_make(10000);
    struct load l = load_make(100000, mode, mixed);
    if (with_images)
        use_images(&c, &l);
    double from = now_s();
    run(&c, &l);
    double took = now_s() - from;
    for (size_t i = 0; i < l.n; i++)
        placed += l.jobs[i].placed ? l.jobs[i].n_tasks : 0;
    printf("placements_per_s_%s%s: %.0f (%zu of 100000 tasks on 10000 nodes in %.3f s)\n", what,
           with_images ? "_images" : "", (double)placed / took, placed, took);
    cluster_free(&c);
    load_free(&l);
    return (double)placed / took;
}

// Everything taken but for crumbs that never go together: cpu here, memory there.
static void fill(struct cluster *c)
{
    for (size_t i = 0; i < c->n; i++) {
        c->nodes[i].free = (struct resources){i % 2 ? 16000 : 250, i % 2 ? GIB / 4 : 64 * GIB, 0};
        c->nodes[i].gpus_free = 0;
        memset(c->ports[i], 0xFF, PORT_WORDS * sizeof(uint64_t) - 8);
    }
}

static double one_more(size_t n, bool kept, int times)
{
    struct cluster c = cluster_make(n);
    struct load l = load_make(TASKS_PER_JOB, ALLOC_BEST_FIT, false);
    struct plan_index *x = NULL;
    fill(&c);
    if (plan_index_new(c.nodes, n, &x) < 0)
        abort();
    double from = now_s();
    for (int i = 0; i < times; i++) {
        if (!kept)
            run(&c, &l);
        else if (plan_index_run(x, l.list, l.n) < 0)
            abort();
    }
    double took = (now_s() - from) / times;
    if (l.jobs[0].placed)
        abort();
    plan_index_free(x);
    cluster_free(&c);
    load_free(&l);
    return took * 1e3;
}

// One that waits on a full cluster, of one task and of many.
static double explained(size_t n, size_t tasks, int times)
{
    struct cluster c = cluster_make(n);
    struct load l = load_make(TASKS_PER_JOB, ALLOC_BEST_FIT, false);
    fill(&c);
    if (tasks > 1)
        c.nodes[0].free = c.nodes[0].total; // each would fit alone
    l.jobs[0].n_tasks = tasks;
    double from = now_s();
    for (int i = 0; i < times; i++) {
        struct plan_explanation x;
        if (plan_explain(c.nodes, n, &l.jobs[0], &x) < 0 || x.n_blockers == 0)
            abort();
        plan_explanation_free(&x);
    }
    double took = (now_s() - from) / times;
    cluster_free(&c);
    load_free(&l);
    return took * 1e3;
}

int main(void)
{
    static const char *const names[ALLOC_MAX] = {"best_fit", "spread", "balanced", "compacted"};
    double worst = placements("mixed", ALLOC_BEST_FIT, true, false);
    for (int k = 0; k < 2 * ALLOC_MAX; k++) {
        enum alloc_mode m = (enum alloc_mode)(k / 2);
        double v = placements(names[m], m, false, k % 2);
        worst = v < worst ? v : worst;
    }
    printf("placements_per_s: %.0f (the slowest of these)\n", worst);
    for (size_t n = 1000; n <= 50000; n = n == 10000 ? 50000 : n * 10)
        printf("one_more_job_ms_%zu_nodes: %.4f (index kept: %.4f)\n", n, one_more(n, false, 20),
               one_more(n, true, 200));
    printf("explain_ms_10000_nodes: %.2f (of %d tasks: %.2f)\n", explained(10000, 1, 20),
           TASKS_PER_JOB, explained(10000, TASKS_PER_JOB, 20));
    return 0;
}
