// SPDX-License-Identifier: Apache-2.0
// What a run comes to.
#include "test/sim/lib/engine_internal.h"

#include "common/cleanup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define USERS_MAX 1024

struct user {
    const char *name;
    double sum, n;
};

static double wait_of(const struct engine_job *j)
{
    return (double)(j->started_ms - j->t->arrives_ms) / 1e3;
}

static double slowdown_of(const struct engine_job *j)
{
    return metric_slowdown(wait_of(j), (double)j->t->lasts_ms / 1e3);
}

// ret: mean, of 50 %, 90 %, 99 %.
static void describe(double *values, size_t n, double ret[4])
{
    static const double part[] = {0, 0.5, 0.9, 0.99};
    ret[0] = 0;
    for (size_t i = 0; i < n; i++)
        ret[0] += values[i] / (double)n;
    for (int i = 1; i < 4; i++)
        ret[i] = metric_percentile(values, n, part[i]);
}

// Of users' mean slowdowns. Those beyond USERS_MAX are as one. -ENOMEM.
static int evenness(const struct engine *e, double *ret)
{
    cleanup_free struct user *users = calloc(USERS_MAX, sizeof(*users));
    cleanup_free double *means = calloc(USERS_MAX, sizeof(*means));
    size_t n = 0;
    if (!users || !means)
        return -ENOMEM;
    for (size_t i = 0; i < e->n_jobs; i++) {
        const struct engine_job *j = &e->jobs[i];
        size_t u = 0;
        if (j->started_ms < 0)
            continue;
        while (u < n && strcmp(users[u].name, j->t->user) != 0)
            u++;
        if (u == n && n < USERS_MAX)
            users[n++].name = j->t->user;
        u = u < USERS_MAX ? u : USERS_MAX - 1;
        users[u].sum += slowdown_of(j);
        users[u].n++;
    }
    for (size_t u = 0; u < n; u++)
        means[u] = users[u].sum / users[u].n;
    *ret = metric_jain(means, n);
    return 0;
}

static void use(const struct engine *e, struct engine_result *ret)
{
    const struct metric_use *u = &e->use;
    double ms = (double)(u->until_ms - e->jobs_from[0].arrives_ms);
    const double total[3] = {(double)e->total.cpu_milli, (double)e->total.memory,
                             (double)e->total.gpu};
    for (int i = 0; i < 3; i++)
        ret->used[i] = total[i] * ms > 0 ? u->sum[i] / (total[i] * ms) : 0;
    ret->fragmented =
        u->sum[USE_FREE_CARDS] > 0 ? u->sum[USE_FRAGMENTS] / u->sum[USE_FREE_CARDS] : 0;
}

int engine_report(struct engine *e, struct engine_result *ret)
{
    cleanup_free double *values = calloc(3 * e->n_jobs + 1, sizeof(*values));
    double *waits = values, *slow = values + e->n_jobs, *rho = values + 2 * e->n_jobs;
    size_t n = 0, n_large = 0, unfair = 0;
    double all = 0, large = 0;
    *ret = (struct engine_result){.starts = e->starts};
    if (!values || evenness(e, &ret->jain) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < e->n_jobs; i++) {
        const struct engine_job *j = &e->jobs[i];
        if (j->started_ms < 0)
            continue;
        waits[n] = wait_of(j);
        if (e->most_cards && j->t->need.gpu >= e->most_cards) {
            large += waits[n];
            n_large++;
        }
        slow[n] = slowdown_of(j);
        rho[n++] = j->rho;
        unfair += j->rho > 1 + 1e-9;
    }
    use(e, ret);
    describe(waits, n, ret->wait_s);
    describe(slow, n, ret->slow);
    ret->large_s = n_large ? large / (double)n_large : 0;
    ret->rho_p99 = metric_percentile(rho, n, 0.99);
    ret->unfair = n ? (double)unfair / (double)n : 0;
    ret->backfilled = n ? (double)e->backfilled / (double)n : 0;
    ret->span_h = (double)(e->now_ms - e->jobs_from[0].arrives_ms) / 3.6e6;
    for (size_t i = 0; i < e->n_turns; i++)
        all += e->turns_s[i];
    ret->us_per_start = n ? all * 1e6 / (double)n : 0;
    ret->turn_p99_ms = metric_percentile(e->turns_s, e->n_turns, 0.99) * 1e3;
    return 0;
}

void engine_load(const struct engine *e, double *ret_cards, double *ret_cpu)
{
    int64_t first = e->jobs_from[0].arrives_ms, last = e->jobs_from[e->n_jobs - 1].arrives_ms;
    double cards = 0, cpu = 0, ms = (double)(last - first);
    for (size_t i = 0; i < e->n_jobs; i++) {
        const struct trace_job *t = e->jobs[i].t;
        int64_t left = last - t->arrives_ms;
        double lasts = (double)(t->lasts_ms < left ? t->lasts_ms : left);
        cards += (double)t->need.gpu * lasts;
        cpu += (double)t->need.cpu_milli * lasts;
    }
    *ret_cards = e->total.gpu && ms > 0 ? cards / ((double)e->total.gpu * ms) : 0;
    *ret_cpu = e->total.cpu_milli && ms > 0 ? cpu / ((double)e->total.cpu_milli * ms) : 0;
}
