// SPDX-License-Identifier: Apache-2.0
// Nodes and jobs from one line of text, so that a case of the plan's tests reads as a table row.
//   nodes: "n1=8,16,2 n2=4:uc2"     name = cpu, memory (GiB, 16), gpu (0), ports (40); then
//   options:
//          x not eligible, P process node, D docker node, uc2 um4 ug1 = used, t3 = holds 3 tasks
//   jobs:  "50 a=1 b=3 | 60 c=all"  priority, tasks like nodes (memory 0, ports 0; "all" in any
//   place);
//          options: P needs a process node, ~n1 avoids it (~n1,n2 both)
#pragma once

#include "master/scheduler/plan.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORLD_MAX 64
#define WORLD_PORTS 40
#define GIB (INT64_C(1) << 30)

struct world {
    struct plan_node nodes[WORLD_MAX];
    size_t n_nodes;
    struct plan_job jobs[WORLD_MAX], *list[WORLD_MAX];
    size_t n_jobs;
    struct plan_task tasks[WORLD_MAX];
    const char *names[WORLD_MAX]; // of the tasks
    size_t n_tasks;
    uint64_t ports[WORLD_MAX][2];
    char text[2][1024];
    char ids[WORLD_MAX][8];
};

struct amounts {
    double value[4];
    bool all[4];
    const char *options;
};

// "4,16,all:x" over the given defaults.
static struct amounts world_amounts(char *text, double memory, double ports)
{
    struct amounts a = {.value = {0, memory, 0, ports}, .options = ""};
    char *colon = strchr(text, ':');
    if (colon) {
        *colon = '\0';
        a.options = colon + 1;
    }
    int i = 0;
    for (char *part = text; part && i < 4; i++) {
        char *comma = strchr(part, ',');
        if (comma)
            *comma++ = '\0';
        a.all[i] = strcmp(part, "all") == 0;
        a.value[i] = strtod(part, NULL);
        part = comma;
    }
    return a;
}

static struct resources world_resources(const struct amounts *a)
{
    return (struct resources){(int64_t)(a->value[0] * 1000), (int64_t)(a->value[1] * (double)GIB),
                              (int64_t)a->value[2]};
}

static void world_node_options(struct plan_node *n, const char *o)
{
    while (*o) {
        char kind = *o++;
        if (kind == 'x')
            n->ineligible = "draining";
        else if (kind == 'P' || kind == 'D')
            n->runtime = kind == 'P' ? PLAN_RUNTIME_PROCESS : PLAN_RUNTIME_DOCKER;
        else {
            char what = kind == 'u' ? *o++ : 't';
            char *end;
            double v = strtod(o, &end);
            o = end;
            if (what == 'c')
                n->free.cpu_milli -= (int64_t)(v * 1000);
            else if (what == 'm')
                n->free.memory -= (int64_t)(v * (double)GIB);
            else if (what == 'g')
                n->free.gpu -= (int64_t)v;
            else
                n->tasks = (int)v;
        }
    }
    n->gpus_free &= ~((UINT64_C(1) << (n->total.gpu - n->free.gpu)) - 1);
}

static void world_add_node(struct world *w, char *word)
{
    char *eq = strchr(word, '=');
    *eq = '\0';
    struct amounts a = world_amounts(eq + 1, 16, WORLD_PORTS);
    size_t i = w->n_nodes++;
    struct resources r = world_resources(&a);
    w->nodes[i] = (struct plan_node){.name = word,
                                     .runtime = PLAN_RUNTIME_ANY,
                                     .total = r,
                                     .free = r,
                                     .gpus_free = (UINT64_C(1) << r.gpu) - 1,
                                     .ports = {20000, (uint16_t)a.value[3], 0, w->ports[i]}};
    world_node_options(&w->nodes[i], a.options);
}

static void world_add_task(struct world *w, char *word)
{
    char *eq = strchr(word, '=');
    *eq = '\0';
    struct amounts a = world_amounts(eq + 1, 0, 0);
    struct plan_job *j = &w->jobs[w->n_jobs - 1];
    struct plan_demand *d = &w->tasks[w->n_tasks].demand;
    w->names[w->n_tasks++] = word;
    j->n_tasks++;
    *d = (struct plan_demand){.resources = world_resources(&a),
                              .cpu_all = a.all[0],
                              .memory_all = a.all[1],
                              .gpu_all = a.all[2],
                              .runtimes =
                                  *a.options == 'P' ? PLAN_RUNTIME_PROCESS : PLAN_RUNTIME_ANY,
                              .ports = (int)a.value[3]};
    const char *avoid = strchr(a.options, '~');
    for (char *p = (char *)(uintptr_t)avoid; p && *p; p++)
        *p = *p == ',' ? '\n' : *p;
    d->avoid = avoid ? avoid + 1 : NULL;
}

static void world_add_job(struct world *w, int priority, enum alloc_mode mode,
                          enum alloc_metric metric)
{
    size_t i = w->n_jobs++;
    (void)snprintf(w->ids[i], sizeof(w->ids[i]), "j%zu", i);
    w->jobs[i] = (struct plan_job){.id = w->ids[i],
                                   .priority = priority,
                                   .order = (int64_t)i,
                                   .alloc = mode,
                                   .metric = metric,
                                   .tasks = &w->tasks[w->n_tasks]};
    w->list[i] = &w->jobs[i];
}

static void world_read(struct world *w, const char *nodes, const char *jobs, enum alloc_mode mode,
                       enum alloc_metric metric)
{
    char *save;
    memset(w, 0, sizeof(*w));
    (void)snprintf(w->text[0], sizeof(w->text[0]), "%s", nodes);
    (void)snprintf(w->text[1], sizeof(w->text[1]), "%s", jobs);
    for (char *word = strtok_r(w->text[0], " ", &save); word; word = strtok_r(NULL, " ", &save))
        world_add_node(w, word);
    for (char *word = strtok_r(w->text[1], " |", &save); word; word = strtok_r(NULL, " |", &save))
        if (strchr(word, '='))
            world_add_task(w, word);
        else
            world_add_job(w, atoi(word), mode, metric);
}

// "a>n1 b>n2 | c>-": where each task went.
static inline void world_result(const struct world *w, char *out, size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    for (size_t j = 0; j < w->n_jobs; j++) {
        len += (size_t)snprintf(out + len, size - len, j ? " |" : "");
        for (size_t i = 0; i < w->jobs[j].n_tasks; i++) {
            const struct plan_task *t = &w->jobs[j].tasks[i];
            len += (size_t)snprintf(out + len, size - len, "%s%s>%s", len ? " " : "",
                                    w->names[t - w->tasks],
                                    w->jobs[j].placed ? w->nodes[t->node].name : "-");
        }
    }
}
