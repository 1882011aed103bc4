// SPDX-License-Identifier: Apache-2.0
// Lines of public traces of jobs. Which form a file has is told by its first line:
//   philly.csv of the Pollux artifact: timestamp, duration (s), cards, card-seconds, virtual
//   cluster
//   *_job.csv of Tiresias: job_id, num_gpu, submit_time (s), iterations, model_name, duration (s)
//   *.trace of Gavel, by tabs: job_type, command, num_steps_arg, needs_data, total_steps, arrival
//   (s),
//     cards; how long it runs follows from the steps per second that were measured (its own file:
//     isolated_throughputs.csv, beside it; of V100 cards, of one worker where more are not there)
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TRACE_FIELDS 10

struct trace_job {
    char user[32]; // virtual cluster, model
    int cards;
    int64_t arrives_ms, lasts_ms;
};

enum trace_form { TRACE_PHILLY, TRACE_TIRESIAS, TRACE_GAVEL };

struct trace_rate {
    char type[64];
    int workers;
    double steps_per_s;
};
static struct trace_rate trace_rates[512];
static size_t n_trace_rates;

// Fields of a line; "" where there is none.
static void trace_split(char *line, char by, const char *field[TRACE_FIELDS])
{
    const char stop[2] = {by, '\0'};
    line[strcspn(line, "\r\n")] = '\0';
    for (int i = 0; i < TRACE_FIELDS; i++) {
        field[i] = line;
        line += strcspn(line, stop);
        if (*line)
            *line++ = '\0';
    }
}

static enum trace_form trace_form_of(const char *first_line)
{
    if (strchr(first_line, '\t'))
        return TRACE_GAVEL;
    return strncmp(first_line, "job_id,", 7) == 0 ? TRACE_TIRESIAS : TRACE_PHILLY;
}

static void trace_load_rates(const char *trace_path)
{
    char path[1024], line[512];
    const char *f[TRACE_FIELDS], *slash = strrchr(trace_path, '/');
    int folder = slash ? (int)(slash - trace_path) + 1 : 0;
    (void)snprintf(path, sizeof(path), "%.*sisolated_throughputs.csv", folder, trace_path);
    FILE *file = fopen(path, "re");
    while (file && n_trace_rates < 512 && fgets(line, sizeof(line), file)) {
        trace_split(line, ',', f);
        if (strcmp(f[0], "v100") != 0)
            continue;
        struct trace_rate *r = &trace_rates[n_trace_rates++];
        (void)snprintf(r->type, sizeof(r->type), "%.63s", f[1]);
        r->workers = atoi(f[2]);
        r->steps_per_s = strtod(f[3], NULL);
    }
    if (file)
        (void)fclose(file);
}

// 0 = not known.
static double trace_rate_of(const char *type, int workers)
{
    double found = 0;
    for (size_t i = 0; i < n_trace_rates; i++) {
        const struct trace_rate *r = &trace_rates[i];
        bool better = r->workers == workers || (found == 0 && r->workers == 1);
        if (better && strcmp(r->type, type) == 0)
            found = r->steps_per_s;
    }
    return found;
}

// false = no such line, or nothing that could run.
static bool trace_read(enum trace_form form, char *line, struct trace_job *j)
{
    const char *f[TRACE_FIELDS];
    struct tm t = {0};
    double rate;
    trace_split(line, form == TRACE_GAVEL ? '\t' : ',', f);
    switch (form) {
    case TRACE_PHILLY:
        if (!strptime(f[0], "%Y-%m-%d %H:%M:%S", &t))
            return false;
        j->arrives_ms = (int64_t)timegm(&t) * 1000;
        j->lasts_ms = (int64_t)(strtod(f[1], NULL) * 1000);
        j->cards = atoi(f[2]);
        (void)snprintf(j->user, sizeof(j->user), "%.30s", f[4]);
        break;
    case TRACE_TIRESIAS:
        j->cards = atoi(f[1]);
        j->arrives_ms = (int64_t)(strtod(f[2], NULL) * 1000) + 1000;
        j->lasts_ms = (int64_t)(strtod(f[5], NULL) * 1000);
        (void)snprintf(j->user, sizeof(j->user), "%.30s", f[4]);
        break;
    default:
        j->cards = atoi(f[6]);
        j->arrives_ms = (int64_t)(strtod(f[5], NULL) * 1000) + 1000;
        rate = trace_rate_of(f[0], j->cards);
        j->lasts_ms = rate > 0 ? (int64_t)(strtod(f[4], NULL) / rate * 1000) : 0;
        (void)snprintf(j->user, sizeof(j->user), "%.*s", (int)strcspn(f[0], " "), f[0]);
    }
    return j->cards > 0 && j->lasts_ms > 0 && *j->user;
}
