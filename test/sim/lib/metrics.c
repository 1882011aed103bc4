// SPDX-License-Identifier: Apache-2.0
// The arithmetic of what is measured.
#include "test/sim/lib/metrics.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double metric_percentile(double *values, size_t n, double p)
{
    if (n == 0)
        return 0;
    qsort(values, n, sizeof(*values), compare);
    size_t rank = (size_t)ceil(p * (double)n);
    return values[rank > 0 ? rank - 1 : 0];
}

double metric_slowdown(double wait_s, double run_s)
{
    double slow = (wait_s + run_s) / (run_s > 10 ? run_s : 10);
    return slow > 1 ? slow : 1;
}

double metric_jain(const double *values, size_t n)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        sum += values[i];
        squares += values[i] * values[i];
    }
    return squares > 0 ? sum * sum / ((double)n * squares) : 1;
}

double metric_rho(double there_s, double runs_s, double contention)
{
    return there_s / (runs_s * contention);
}

double metric_fragments(const struct resources *free, unsigned model,
                        const struct metric_kind *kinds, size_t n)
{
    double lost = 0;
    for (size_t i = 0; free->gpu > 0 && i < n; i++) {
        const struct resources *need = &kinds[i].need;
        if (need->gpu == 0 || need->gpu > free->gpu || need->cpu_milli > free->cpu_milli ||
            need->memory > free->memory || !(kinds[i].models >> model & 1))
            lost += kinds[i].part * (double)free->gpu;
    }
    return lost;
}

void metric_advance(struct metric_use *u, int64_t to_ms)
{
    int64_t to = to_ms < u->until_ms ? to_ms : u->until_ms;
    for (int i = 0; to > u->at_ms && i < USE_MAX; i++)
        u->sum[i] += u->now[i] * (double)(to - u->at_ms);
    u->at_ms = to_ms;
}
