// SPDX-License-Identifier: Apache-2.0
// Plays a public trace of jobs through the real scheduler library, in simulated time.
//   replay JOBS [NODES [LIMIT]]   a file as trace.h knows them, on NODES nodes of 8 cards (64), the
//                                 first LIMIT jobs to arrive (5000)
// Users are the virtual clusters or models; time limits are the true durations. Prints, for each
// policy: the share of cards in use until the last arrival; of the free cards those on nodes that
// are partly used (fragmented); waits; slowdown (bounded at 10 s); how even the users' mean
// slowdowns are (Jain, Chiu and Hawe, 1984: 1 = all alike); how many jobs started after a younger
// one; and the time per decision. "first in, first out": nothing passes the first that waits.
#include "master/scheduler/queue.h"
#include "test/sim/trace.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CARDS 8
#define JOBS_MAX 200000
#define GIB (INT64_C(1) << 30)

struct sim_job {
    struct plan_entry entry;
    char id[16], user[32];
    int cards;
    int64_t arrives_ms, lasts_ms, started_ms;
    struct plan_task *tasks;
    size_t n_tasks;
};

struct sim {
    struct plan_node *nodes;
    char (*names)[16];
    size_t n_nodes;
    struct sim_job *jobs;
    size_t n_jobs;
    struct sim_job **running; // binary heap by end
    size_t n_running;
    struct plan_index *index;
    struct plan_queue *queue;
    struct plan_running *list;
    int64_t now_ms, busy, used_ms; // cards in use; card-milliseconds
    double split_ms, free_ms;      // of free cards: on nodes partly used, and all
    size_t passed, newest, decisions;
};

static int64_t end_of(const struct sim_job *j)
{
    return j->started_ms + j->lasts_ms;
}

static void heap_add(struct sim *s, struct sim_job *j)
{
    size_t at = s->n_running++;
    for (; at > 0 && end_of(j) < end_of(s->running[(at - 1) / 2]); at = (at - 1) / 2)
        s->running[at] = s->running[(at - 1) / 2];
    s->running[at] = j;
}

static struct sim_job *heap_take(struct sim *s)
{
    struct sim_job *first = s->running[0], *last = s->running[--s->n_running];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < s->n_running; at = child) {
        if (child + 1 < s->n_running && end_of(s->running[child + 1]) < end_of(s->running[child]))
            child++;
        if (end_of(last) <= end_of(s->running[child]))
            break;
        s->running[at] = s->running[child];
    }
    s->running[at] = last;
    return first;
}

static bool more(void *userdata)
{
    ((struct sim *)userdata)->decisions++;
    return true;
}

static int running(const struct plan_running **ret, size_t *ret_n, void *userdata)
{
    struct sim *s = userdata;
    size_t n = 0;
    for (size_t i = 0; i < s->n_running; i++)
        for (size_t k = 0; k < s->running[i]->n_tasks; k++) {
            const struct plan_task *t = &s->running[i]->tasks[k];
            s->list[n++] = (struct plan_running){.node = (size_t)t->node,
                                                 .granted = t->granted,
                                                 .gpus = t->gpus,
                                                 .end_ms = end_of(s->running[i])};
        }
    *ret = s->list;
    *ret_n = n;
    return 0;
}

static void hold(struct sim *s, const struct sim_job *j, int sign)
{
    for (size_t i = 0; i < j->n_tasks; i++)
        if (plan_queue_hold(s->queue, j->user, &j->tasks[i].granted, sign, i ? 0 : sign,
                            s->now_ms) < 0)
            abort();
    s->busy += sign * j->cards;
}

static void placed(struct plan_entry *e, const struct plan_task *tasks, size_t n, void *userdata)
{
    struct sim *s = userdata;
    struct sim_job *j = (struct sim_job *)((char *)e - offsetof(struct sim_job, entry));
    memcpy(j->tasks, tasks, n * sizeof(*tasks));
    j->started_ms = s->now_ms;
    s->passed += (size_t)e->order < s->newest; // an older one starts after a newer one
    s->newest = (size_t)e->order > s->newest ? (size_t)e->order : s->newest;
    hold(s, j, 1);
    heap_add(s, j);
}

static void end_job(struct sim *s, struct sim_job *j)
{
    hold(s, j, -1);
    for (size_t i = 0; i < j->n_tasks; i++) {
        const struct plan_task *t = &j->tasks[i];
        struct plan_node *n = &s->nodes[t->node];
        n->free.gpu += t->granted.gpu;
        n->free.cpu_milli += t->granted.cpu_milli;
        n->gpus_free |= t->gpus;
        n->tasks--;
        (void)plan_index_touch(s->index, (size_t)t->node);
    }
    plan_queue_grew(s->queue);
}

// Eights as tasks of a whole node, the rest as one more.
static void submit(struct sim *s, struct sim_job *j, enum alloc_mode mode)
{
    struct plan_demand demands[256];
    struct plan_shape shape = {.user = j->user,
                               .priority = 50,
                               .alloc = mode,
                               .metric = METRIC_GPU,
                               .bound_ms = j->lasts_ms,
                               .demands = demands};
    for (int left = j->cards; left > 0 && shape.n_demands < 256; left -= CARDS) {
        int cards = left < CARDS ? left : CARDS;
        demands[shape.n_demands++] = (struct plan_demand){.resources = {1000 * cards, 0, cards},
                                                          .runtimes = PLAN_RUNTIME_ANY};
    }
    j->n_tasks = shape.n_demands;
    if (plan_queue_add(s->queue, &j->entry, &shape) < 0)
        abort();
}

static void begin(struct sim *s, const struct plan_policy *p)
{
    for (size_t i = 0; i < s->n_nodes; i++)
        s->nodes[i] = (struct plan_node){.name = s->names[i],
                                         .runtime = PLAN_RUNTIME_ANY,
                                         .total = {64000, 512 * GIB, CARDS},
                                         .free = {64000, 512 * GIB, CARDS},
                                         .gpus_free = (1u << CARDS) - 1};
    s->queue = plan_queue_new();
    if (!s->queue || plan_index_new(s->nodes, s->n_nodes, &s->index) < 0)
        abort();
    plan_queue_set_policy(s->queue, p);
    s->n_running = s->passed = s->newest = s->decisions = 0;
    s->busy = s->used_ms = 0;
    s->split_ms = s->free_ms = 0;
    s->now_ms = s->jobs[0].arrives_ms;
    for (size_t i = 0; i < s->n_jobs; i++)
        s->jobs[i].entry = (struct plan_entry){.id = s->jobs[i].id, .order = (int64_t)i + 1};
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double slowdown(const struct sim_job *j)
{
    double all = (double)(j->started_ms - j->arrives_ms + j->lasts_ms) / 1e3;
    double lasts = (double)j->lasts_ms / 1e3;
    return all / (lasts > 10 ? lasts : 10); // bounded
}

// Jain's index over the users' mean slowdowns.
static double evenness(const struct sim *s)
{
    static struct {
        const char *user;
        double sum, n;
    } users[256];
    size_t n = 0;
    double sum = 0, squares = 0;
    for (size_t i = 0; i < s->n_jobs; i++) {
        size_t u = 0;
        while (u < n && strcmp(users[u].user, s->jobs[i].user) != 0)
            u++;
        if (u == n && n < 256) {
            users[u].user = s->jobs[i].user;
            users[u].sum = users[u].n = 0;
            n++;
        }
        users[u < 256 ? u : 255].sum += slowdown(&s->jobs[i]);
        users[u < 256 ? u : 255].n += 1;
    }
    for (size_t u = 0; u < n; u++) {
        double mean = users[u].sum / users[u].n;
        sum += mean;
        squares += mean * mean;
    }
    return sum * sum / ((double)n * squares);
}

static void report(const struct sim *s, const char *name, double seconds)
{
    double *waits = calloc(s->n_jobs, sizeof(*waits)), *slow = calloc(s->n_jobs, sizeof(*slow));
    int64_t span = s->jobs[s->n_jobs - 1].arrives_ms - s->jobs[0].arrives_ms;
    size_t n = s->n_jobs;
    if (!waits || !slow)
        abort();
    for (size_t i = 0; i < n; i++) {
        waits[i] = (double)(s->jobs[i].started_ms - s->jobs[i].arrives_ms) / 1e3;
        slow[i] = slowdown(&s->jobs[i]);
    }
    qsort(waits, n, sizeof(*waits), compare);
    qsort(slow, n, sizeof(*slow), compare);
    printf("%-22s cards_used %.3f fragmented %.3f wait_s p50 %.0f p90 %.0f p99 %.0f max %.0f "
           "slowdown p50 %.2f p90 %.1f p99 %.1f evenness %.3f out_of_order %.3f us_per_decision "
           "%.1f\n",
           name, (double)s->used_ms / ((double)span * (double)s->n_nodes * CARDS),
           s->free_ms > 0 ? s->split_ms / s->free_ms : 0, waits[n / 2], waits[n * 9 / 10],
           waits[n * 99 / 100], waits[n - 1], slow[n / 2], slow[n * 9 / 10], slow[n * 99 / 100],
           evenness(s), (double)s->passed / (double)n,
           seconds * 1e6 / (double)(s->decisions ? s->decisions : 1));
    (void)fflush(stdout);
    free(waits);
    free(slow);
}

static void advance(struct sim *s, int64_t to_ms)
{
    int64_t last = s->jobs[s->n_jobs - 1].arrives_ms;
    int64_t until = to_ms < last ? to_ms : last;
    double ms = (double)(until - s->now_ms);
    for (size_t i = 0; ms > 0 && i < s->n_nodes; i++) {
        double free = (double)s->nodes[i].free.gpu * ms;
        s->free_ms += free;
        s->split_ms += s->nodes[i].free.gpu < CARDS ? free : 0;
    }
    if (until > s->now_ms)
        s->used_ms += s->busy * (until - s->now_ms);
    s->now_ms = to_ms;
}

static void play(struct sim *s, const char *name, enum alloc_mode mode, const struct plan_policy *p)
{
    struct timespec a, b;
    double seconds = 0;
    begin(s, p);
    for (size_t next = 0; next < s->n_jobs || s->n_running;) {
        int64_t arrival = next < s->n_jobs ? s->jobs[next].arrives_ms : INT64_MAX;
        int64_t ends = s->n_running ? end_of(s->running[0]) : INT64_MAX;
        advance(s, arrival < ends ? arrival : ends);
        while (s->n_running && end_of(s->running[0]) <= s->now_ms)
            end_job(s, heap_take(s));
        while (next < s->n_jobs && s->jobs[next].arrives_ms <= s->now_ms)
            submit(s, &s->jobs[next++], mode);
        (void)clock_gettime(CLOCK_MONOTONIC, &a);
        if (plan_queue_run(s->queue, s->index,
                           &(struct plan_queue_run){.more = more,
                                                    .running = running,
                                                    .placed = placed,
                                                    .userdata = s,
                                                    .now_ms = s->now_ms}) < 0)
            abort();
        (void)clock_gettime(CLOCK_MONOTONIC, &b);
        seconds += (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
    }
    report(s, name, seconds);
    plan_queue_free(s->queue);
    plan_index_free(s->index);
}

static int by_arrival(const void *a, const void *b)
{
    const struct sim_job *x = a, *y = b;
    return x->arrives_ms < y->arrives_ms ? -1 : x->arrives_ms > y->arrives_ms;
}

static void add(struct sim *s, const struct trace_job *t)
{
    struct sim_job *j = &s->jobs[s->n_jobs];
    if ((size_t)t->cards > s->n_nodes * CARDS || t->cards > 256 * CARDS)
        return;
    *j = (struct sim_job){.cards = t->cards, .arrives_ms = t->arrives_ms, .lasts_ms = t->lasts_ms};
    memcpy(j->user, t->user, sizeof(j->user));
    s->n_jobs++;
}

static int load(struct sim *s, const char *path, size_t limit)
{
    char line[4096];
    struct trace_job job;
    enum trace_form form = TRACE_PHILLY;
    FILE *f = fopen(path, "re");
    if (!f) {
        (void)fprintf(stderr, "replay: %s can't be read\n", path);
        return -1;
    }
    for (bool first = true; s->n_jobs < JOBS_MAX && fgets(line, sizeof(line), f); first = false) {
        if (first)
            form = trace_form_of(line);
        if (first && form == TRACE_GAVEL)
            trace_load_rates(path);
        if (trace_read(form, line, &job))
            add(s, &job);
    }
    (void)fclose(f);
    qsort(s->jobs, s->n_jobs, sizeof(*s->jobs), by_arrival);
    s->n_jobs = s->n_jobs < limit ? s->n_jobs : limit;
    for (size_t i = 0; i < s->n_jobs; i++) {
        struct sim_job *j = &s->jobs[i];
        (void)snprintf(j->id, sizeof(j->id), "j%08zu", i);
        j->tasks = calloc((size_t)j->cards / CARDS + 1, sizeof(*j->tasks));
        if (!j->tasks)
            abort();
    }
    if (s->n_jobs < 2)
        (void)fprintf(stderr, "replay: %s has no jobs of the expected form\n", path);
    return s->n_jobs < 2 ? -1 : 0;
}

int main(int argc, char **argv)
{
    static const struct plan_policy fifo = {0, true, 0, 0, 0}, first_fit = {0, false, 0, 0, 0},
                                    easy = {0, true, 3600000, 0, 0},
                                    fair = {INT64_C(604800000), true, 3600000, 0, 0};
    size_t limit = argc > 3 ? strtoul(argv[3], NULL, 10) : 5000;
    struct sim s = {.n_nodes = argc > 2 ? strtoul(argv[2], NULL, 10) : 64};
    if (argc < 2) {
        (void)printf("usage: replay JOBS [NODES [LIMIT]] (no trace given: nothing to do)\n");
        return 0;
    }
    s.nodes = calloc(s.n_nodes + 1, sizeof(*s.nodes));
    s.names = calloc(s.n_nodes + 1, sizeof(*s.names));
    s.jobs = calloc(JOBS_MAX, sizeof(*s.jobs));
    s.running = calloc(limit + 1, sizeof(struct sim_job *));
    s.list = calloc(s.n_nodes * CARDS + 1, sizeof(*s.list));
    if (!s.nodes || !s.names || !s.jobs || !s.running || !s.list)
        return 1;
    for (size_t i = 0; i < s.n_nodes; i++)
        (void)snprintf(s.names[i], sizeof(s.names[i]), "n%05zu", i);
    if (load(&s, argv[1], limit) < 0)
        return 1;
    printf("%zu jobs, %zu nodes of %d cards\n", s.n_jobs, s.n_nodes, CARDS);
    play(&s, "first in, first out", ALLOC_BEST_FIT, &fifo);
    play(&s, "by age, balanced", ALLOC_BALANCED, &first_fit);
    play(&s, "by age, compacted", ALLOC_COMPACTED, &first_fit);
    play(&s, "by age, best-fit", ALLOC_BEST_FIT, &first_fit);
    play(&s, "backfill, best-fit", ALLOC_BEST_FIT, &easy);
    play(&s, "fair share, backfill", ALLOC_BEST_FIT, &fair);
    for (size_t i = 0; i < s.n_jobs; i++)
        free(s.jobs[i].tasks);
    free(s.nodes);
    free(s.names);
    free(s.jobs);
    free(s.running);
    free(s.list);
    return 0;
}
