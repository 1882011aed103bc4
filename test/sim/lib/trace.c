// SPDX-License-Identifier: Apache-2.0
// Lines of public traces.
#include "test/sim/lib/trace.h"

#include "common/cleanup.h"
#include "proto/constraint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FIELDS 11
#define MIB (INT64_C(1) << 20)

enum form { FORM_OPENB, FORM_PHILLY, FORM_TIRESIAS, FORM_GAVEL };

struct rate { // Gavel: what was measured
    char type[64];
    int workers;
    double steps_per_s;
};
struct rates {
    struct rate list[512];
    size_t n;
};

// Fields of a line; "" where there is none.
static size_t split(char *line, char by, const char *field[FIELDS])
{
    const char stop[2] = {by, '\0'};
    size_t n = 0;
    line[strcspn(line, "\r\n")] = '\0';
    for (size_t i = 0; i < FIELDS; i++) {
        field[i] = line;
        n += *line != '\0';
        line += strcspn(line, stop);
        if (*line)
            *line++ = '\0';
    }
    return n;
}

static int64_t ms(const char *seconds)
{
    return (int64_t)(strtod(seconds, NULL) * 1000);
}

static enum form form_of(const char *first_line)
{
    if (strchr(first_line, '\t'))
        return FORM_GAVEL;
    if (strncmp(first_line, "job_id,", 7) == 0)
        return FORM_TIRESIAS;
    return strstr(first_line, ",cpu_milli,") ? FORM_OPENB : FORM_PHILLY;
}

static void load_rates(const char *trace_path, struct rates *r)
{
    char path[1024], line[512];
    const char *f[FIELDS], *slash = strrchr(trace_path, '/');
    int folder = slash ? (int)(slash - trace_path) + 1 : 0;
    (void)snprintf(path, sizeof(path), "%.*sisolated_throughputs.csv", folder, trace_path);
    FILE *file = fopen(path, "re");
    while (file && r->n < 512 && fgets(line, sizeof(line), file)) {
        (void)split(line, ',', f);
        if (strcmp(f[0], "v100") != 0)
            continue;
        struct rate *one = &r->list[r->n++];
        (void)snprintf(one->type, sizeof(one->type), "%.63s", f[1]);
        one->workers = atoi(f[2]);
        one->steps_per_s = strtod(f[3], NULL);
    }
    if (file)
        (void)fclose(file);
}

// 0 = not known.
static double rate_of(const struct rates *r, const char *type, int workers)
{
    double found = 0;
    for (size_t i = 0; i < r->n; i++) {
        const struct rate *one = &r->list[i];
        bool better = one->workers == workers || (found == 0 && one->workers == 1);
        if (better && strcmp(one->type, type) == 0)
            found = one->steps_per_s;
    }
    return found;
}

static void read_openb(const char *const f[FIELDS], struct trace_job *j)
{
    j->need = (struct resources){atoll(f[1]), atoll(f[2]) * MIB, atoll(f[3])};
    j->milli = j->need.gpu == 1 && atoi(f[4]) > 0 ? atoi(f[4]) : 1000;
    (void)snprintf(j->models, sizeof(j->models), "%.63s", f[5]);
    (void)snprintf(j->user, sizeof(j->user), "%.31s", f[6]);
    j->arrives_ms = ms(f[8]);
    j->lasts_ms = ms(f[9]) - ms(*f[10] ? f[10] : f[8]);
}

static void read_gavel(const char *const f[FIELDS], size_t n, const struct rates *rates,
                       struct trace_job *j)
{
    bool long_form = n >= 10;
    j->need.gpu = atoi(f[6]);
    j->arrives_ms = ms(f[long_form ? 9 : 5]);
    double rate = rate_of(rates, f[0], (int)j->need.gpu);
    double steps = strtod(f[long_form ? 5 : 4], NULL);
    j->lasts_ms = rate > 0 ? (int64_t)(steps / rate * 1000) : 0;
    (void)snprintf(j->user, sizeof(j->user), "%.*s", (int)strcspn(f[0], " "), f[0]);
}

// false = no such line, or nothing that could run.
static bool read_job(enum form form, char *line, const struct rates *rates, struct trace_job *j)
{
    const char *f[FIELDS];
    struct tm t = {0};
    size_t n = split(line, form == FORM_GAVEL ? '\t' : ',', f);
    *j = (struct trace_job){.milli = 1000};
    switch (form) {
    case FORM_OPENB:
        read_openb(f, j);
        return j->need.cpu_milli > 0 && j->lasts_ms >= 0;
    case FORM_PHILLY:
        if (!strptime(f[0], "%Y-%m-%d %H:%M:%S", &t))
            return false;
        j->arrives_ms = (int64_t)timegm(&t) * 1000;
        j->lasts_ms = ms(f[1]);
        j->need.gpu = atoi(f[2]);
        (void)snprintf(j->user, sizeof(j->user), "%.31s", f[4]);
        break;
    case FORM_TIRESIAS:
        j->need.gpu = atoi(f[1]);
        j->arrives_ms = ms(f[2]);
        j->lasts_ms = ms(f[5]);
        (void)snprintf(j->user, sizeof(j->user), "%.31s", f[4]);
        break;
    default:
        read_gavel(f, n, rates, j);
    }
    return j->need.gpu > 0 && j->lasts_ms > 0;
}

void trace_where(const char *models, char *text, size_t size)
{
    size_t len = 0;
    text[0] = '\0';
    if (*models)
        len = (size_t)snprintf(text, size, "%s\n%s", CONSTRAINT_CARD_MODEL, "in ");
    for (const char *m = models; *m && len + 4 < size; m++)
        len += (size_t)snprintf(text + len, size - len, *m == '|' ? ", " : "%c", *m);
    if (len)
        (void)snprintf(text + len, size - len, "\n");
}

static int by_arrival(const void *a, const void *b)
{
    const struct trace_job *x = a, *y = b;
    if (x->arrives_ms != y->arrives_ms)
        return x->arrives_ms < y->arrives_ms ? -1 : 1;
    return x->line < y->line ? -1 : x->line > y->line;
}

// Room for one more of `size` bytes in a list of n.
static int grow(void **list, size_t n, size_t size)
{
    if (n & (n - 1))
        return 0;
    void *more = realloc(*list, (n ? 2 * n : 1) * size);
    if (more)
        *list = more;
    return more ? 0 : -ENOMEM;
}

int trace_jobs(const char *path, struct trace_job **ret, size_t *ret_n)
{
    char line[4096];
    enum form form = FORM_PHILLY;
    cleanup_free struct rates *rates = calloc(1, sizeof(*rates));
    struct trace_job *list = NULL, job;
    size_t n = 0;
    FILE *f = fopen(path, "re");
    int r = f && rates ? 0 : rates ? -ENOENT : -ENOMEM;
    for (bool first = true; r == 0 && fgets(line, sizeof(line), f); first = false) {
        if (first && (form = form_of(line)) == FORM_GAVEL)
            load_rates(path, rates);
        if (!read_job(form, line, rates, &job) || (r = grow((void **)&list, n, sizeof(*list))) < 0)
            continue;
        job.line = n;
        list[n++] = job;
    }
    if (f)
        (void)fclose(f);
    if (r == 0 && n == 0)
        r = -ENOENT;
    if (r < 0) {
        free(list);
        return r;
    }
    qsort(list, n, sizeof(*list), by_arrival);
    *ret = list;
    *ret_n = n;
    return 0;
}

int trace_nodes(const char *path, struct trace_node **ret, size_t *ret_n)
{
    char line[512];
    const char *f[FIELDS];
    struct trace_node *list = NULL;
    size_t n = 0;
    int r = 0;
    FILE *file = fopen(path, "re");
    while (file && r == 0 && fgets(line, sizeof(line), file)) {
        (void)split(line, ',', f);
        if (atoll(f[1]) <= 0 || (r = grow((void **)&list, n, sizeof(*list))) < 0)
            continue;
        struct trace_node *one = &list[n++];
        *one = (struct trace_node){.total = {atoll(f[1]), atoll(f[2]) * MIB, atoll(f[3])}};
        (void)snprintf(one->name, sizeof(one->name), "%.31s", f[0]);
        (void)snprintf(one->model, sizeof(one->model), "%.15s", f[4]);
    }
    if (file)
        (void)fclose(file);
    if (r == 0 && n == 0)
        r = -ENOENT;
    if (r < 0) {
        free(list);
        return r;
    }
    *ret = list;
    *ret_n = n;
    return 0;
}
