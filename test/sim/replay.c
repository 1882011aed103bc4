// SPDX-License-Identifier: Apache-2.0
// Plays a public trace of jobs through the scheduler library, in simulated time, under several
// policies on the same arrivals, and prints a table (docs/replay.md tells what its columns are).
//   replay JOBS NODES [FASTER [SKIP]]   JOBS: a file as lib/trace.h knows them; NODES: how many
//                     nodes of 8 cards, "NxC" of C cards, or a file of nodes ("FILE%N": every Nth
//                     of them); FASTER: jobs arrive so many times as fast (1); SKIP: without so
//                     many that come first (0)
#include "test/sim/lib/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// As master.yml has them when nothing is set: shares with a half life of 7 d, hold_after 6 h.
#define WEEK_MS INT64_C(604800000)
#define HOLD_MS INT64_C(21600000)
#define FAIR(hold_ms)                                                                              \
    {                                                                                              \
        WEEK_MS, true, hold_ms, PLAN_OVERTAKES, 0                                                  \
    }
static const struct engine_policy policies[] = {
    {.name = "first in, first out", .mode = ALLOC_BEST_FIT, .strict = true},
    {.name = "MARO balanced", .mode = ALLOC_BALANCED},
    {.name = "MARO compacted", .mode = ALLOC_COMPACTED},
    {.name = "meadow, by age",
     .mode = ALLOC_BEST_FIT,
     .queue = {0, true, HOLD_MS, PLAN_OVERTAKES, 0},
     .limits = true},
    {.name = "meadow", .mode = ALLOC_BEST_FIT, .queue = FAIR(HOLD_MS), .limits = true},
    {.name = "meadow, no time limits", .mode = ALLOC_BEST_FIT, .queue = FAIR(HOLD_MS)},
    {.name = "meadow, hold_after 10m",
     .mode = ALLOC_BEST_FIT,
     .queue = FAIR(600000),
     .limits = true},
};

// Every 10 s, on stderr.
static void progress(size_t over, size_t all)
{
    static time_t last;
    time_t now = time(NULL);
    if (last && now < last + 10)
        return;
    if (last)
        (void)fprintf(stderr, "  ... %zu of %zu jobs are over\n", over, all);
    last = now;
}

// N nodes of `cards` cards, and nothing else that counts.
static int uniform(size_t n, int64_t cards, struct trace_node **ret)
{
    struct trace_node *nodes = calloc(n, sizeof(*nodes));
    for (size_t i = 0; nodes && i < n; i++) {
        (void)snprintf(nodes[i].name, sizeof(nodes[i].name), "n%05zu", i);
        nodes[i].total.gpu = cards;
    }
    *ret = nodes;
    return nodes ? 0 : -1;
}

// A file, or "FILE%N": every Nth node of it.
static int read_file(const char *text, struct trace_node **ret, size_t *ret_n)
{
    char path[1024];
    const char *every = strrchr(text, '%');
    size_t step = every ? strtoul(every + 1, NULL, 10) : 1, kept = 0;
    (void)snprintf(path, sizeof(path), "%.*s", every ? (int)(every - text) : 1000, text);
    int r = step > 0 ? trace_nodes(path, ret, ret_n) : -1;
    for (size_t i = 0; r == 0 && i < *ret_n; i += step)
        (*ret)[kept++] = (*ret)[i];
    *ret_n = kept;
    return r;
}

static int read_nodes(const char *text, struct trace_node **ret, size_t *ret_n)
{
    char *end;
    long cards = 8;
    *ret_n = strtoul(text, &end, 10);
    if (*ret_n > 0 && *end == 'x')
        cards = strtol(end + 1, &end, 10);
    if (*ret_n > 0 && !*end && cards > 0 && cards <= 8)
        return uniform(*ret_n, cards, ret);
    return read_file(text, ret, ret_n);
}

// Only jobs that last; how many there are.
static size_t prepare(struct trace_job *jobs, size_t n, double faster, size_t skip)
{
    size_t kept = 0;
    for (size_t i = skip; i < n; i++)
        if (jobs[i].lasts_ms > 0) {
            jobs[kept] = jobs[i];
            jobs[kept++].arrives_ms = (int64_t)((double)jobs[i].arrives_ms / faster);
        }
    return kept;
}

static void print_header(bool all)
{
    printf("%-17s %-21s %5s |%8s %7s %7s %7s %8s |%7s %5s %6s %7s |%6s %6s %6s |%6s %8s %6s %7s\n",
           "", all ? "used: cpu   mem   gpu" : "used:         gpu", "frag", "wait: m", "50%", "90%",
           "99%", "large m", "slow: m", "50%", "90%", "99%", "jain", "unfair", "rho99", "backf",
           "span, h", "us/job", "turn ms");
}

static void print_row(const char *name, bool all, const struct engine_result *r)
{
    char cpu[16] = "", memory[16] = "";
    if (all) {
        (void)snprintf(cpu, sizeof(cpu), "%.3f", r->used[0]);
        (void)snprintf(memory, sizeof(memory), "%.3f", r->used[1]);
    }
    printf("%-22s %5s %5s %5.3f %5.3f |%8.0f %7.0f %7.0f %7.0f %8.0f |%7.1f %5.1f %6.1f %7.1f |"
           "%6.3f %6.3f %6.1f |%6.3f %8.1f %6.1f %7.3f\n",
           name, cpu, memory, r->used[2], r->fragmented, r->wait_s[0], r->wait_s[1], r->wait_s[2],
           r->wait_s[3], r->large_s, r->slow[0], r->slow[1], r->slow[2], r->slow[3], r->jain,
           r->unfair, r->rho_p99, r->backfilled, r->span_h, r->us_per_start, r->turn_p99_ms);
    (void)fflush(stdout);
}

static int play_all(const struct trace_node *nodes, size_t n_nodes, const struct trace_job *jobs,
                    size_t n_jobs)
{
    struct engine *e = engine_new(nodes, n_nodes, jobs, n_jobs);
    struct engine_result result;
    double cards, cpu;
    bool all = nodes[0].total.cpu_milli > 0;
    if (!e)
        return 1;
    engine_load(e, &cards, &cpu);
    printf("%zu jobs, %zu nodes; while jobs arrive they ask for %.2f of the cards", n_jobs, n_nodes,
           cards);
    printf(all ? ", %.2f of the cpu\n" : "\n", cpu);
    print_header(all);
    for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
        if (engine_play(e, &policies[i], progress, &result) < 0)
            return 1;
        print_row(policies[i].name, all, &result);
    }
    if (result.starts < n_jobs)
        printf("%zu jobs would fit on no empty node and are left out\n", n_jobs - result.starts);
    engine_free(e);
    return 0;
}

int main(int argc, char **argv)
{
    struct trace_node *nodes = NULL;
    struct trace_job *jobs = NULL;
    size_t n_nodes = 0, n_jobs = 0;
    double faster = argc > 3 ? strtod(argv[3], NULL) : 1;
    if (argc < 3 || faster <= 0) {
        (void)printf("usage: replay JOBS NODES [FASTER [SKIP]] (no trace given: nothing to do)\n");
        return 0;
    }
    if (read_nodes(argv[2], &nodes, &n_nodes) < 0 || trace_jobs(argv[1], &jobs, &n_jobs) < 0) {
        (void)fprintf(stderr,
                      "replay: %s or %s can't be read, or has nothing of the expected form\n",
                      argv[1], argv[2]);
        return 1;
    }
    n_jobs = prepare(jobs, n_jobs, faster, argc > 4 ? strtoul(argv[4], NULL, 10) : 0);
    int r = n_jobs > 1 ? play_all(nodes, n_nodes, jobs, n_jobs) : 1;
    if (n_jobs <= 1)
        (void)fprintf(stderr, "replay: %s does not tell how long its jobs last\n", argv[1]);
    free(nodes);
    free(jobs);
    return r;
}
