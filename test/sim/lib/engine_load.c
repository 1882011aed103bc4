// SPDX-License-Identifier: Apache-2.0
// A trace made ready to be played: nodes, tasks of jobs, and kinds of tasks.
#include "test/sim/lib/engine_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned model_of(struct engine *e, const char *name)
{
    unsigned i = 0;
    while (i < e->n_models && strcmp(e->models[i], name) != 0)
        i++;
    if (i == e->n_models && i < ENGINE_MODELS - 1)
        e->models[e->n_models++] = name;
    return i;
}

static void fill_nodes(struct engine *e)
{
    for (size_t i = 0; i < e->n_nodes; i++) {
        const struct trace_node *t = &e->from[i];
        e->model[i] = model_of(e, t->model);
        for (int k = 0; k < ENGINE_CARDS; k++)
            e->cards[i][k].model = t->model;
        e->total.cpu_milli += t->total.cpu_milli;
        e->total.memory += t->total.memory;
        e->total.gpu += t->total.gpu;
        e->most_cards = t->total.gpu > e->most_cards ? t->total.gpu : e->most_cards;
    }
}

static bool names(const char *list, const char *model)
{
    size_t len = strlen(model);
    for (const char *at = list; *at; at += at[strcspn(at, "|")] ? strcspn(at, "|") + 1 : strlen(at))
        if (len && strncmp(at, model, len) == 0 && (at[len] == '|' || !at[len]))
            return true;
    return false;
}

static void set_models(const struct engine *e, struct engine_kind *k, const char *models)
{
    k->m.models = UINT64_MAX;
    if (!*models || k->m.need.gpu == 0)
        return;
    k->m.models = 0;
    for (unsigned i = 0; i < e->n_models; i++)
        k->m.models |= (uint64_t)names(models, e->models[i]) << i;
    trace_where(models, k->where, sizeof(k->where));
}

// -ENOMEM
static int kind_of(struct engine *e, const struct resources *need, const char *models,
                   uint32_t *ret)
{
    struct engine_kind new = {.m.need = *need};
    set_models(e, &new, models);
    for (size_t i = 0; i < e->n_kinds; i++) {
        const struct engine_kind *k = &e->kinds[i];
        if (k->m.need.cpu_milli == need->cpu_milli && k->m.need.memory == need->memory &&
            k->m.need.gpu == need->gpu && strcmp(k->where, new.where) == 0) {
            *ret = (uint32_t)i;
            return 0;
        }
    }
    if ((e->n_kinds & (e->n_kinds - 1)) == 0) {
        size_t room = e->n_kinds ? 2 * e->n_kinds : 1;
        struct engine_kind *more = realloc(e->kinds, room * sizeof(*more));
        if (!more)
            return -ENOMEM;
        e->kinds = more;
    }
    e->kinds[e->n_kinds] = new;
    *ret = (uint32_t)e->n_kinds++;
    return 0;
}

// On how many empty nodes a task of the kind fits.
static size_t nodes_for(const struct engine *e, const struct metric_kind *k)
{
    size_t n = 0;
    for (size_t i = 0; i < e->n_nodes; i++) {
        const struct resources *total = &e->from[i].total;
        n += k->need.cpu_milli <= total->cpu_milli && k->need.memory <= total->memory &&
             k->need.gpu <= total->gpu && (k->models >> e->model[i] & 1);
    }
    return n;
}

// Tasks of as many cards as the largest node has, and one with the rest.
static int fill_job(struct engine *e, struct engine_job *j)
{
    struct resources whole = j->t->need, last = j->t->need;
    j->n_tasks = 1;
    if (e->most_cards && whole.gpu > e->most_cards) {
        j->n_tasks = (uint32_t)((whole.gpu + e->most_cards - 1) / e->most_cards);
        whole = (struct resources){whole.cpu_milli / j->n_tasks, whole.memory / j->n_tasks,
                                   e->most_cards};
        last = whole;
        last.gpu = j->t->need.gpu - whole.gpu * (j->n_tasks - 1);
    }
    return kind_of(e, &whole, j->t->models, &j->kind) < 0 ||
                   kind_of(e, &last, j->t->models, &j->last_kind) < 0
               ? -ENOMEM
               : 0;
}

static int fill_jobs(struct engine *e)
{
    size_t n_tasks = 0;
    for (size_t i = 0; i < e->n_jobs; i++) {
        struct engine_job *j = &e->jobs[i];
        j->t = &e->jobs_from[i];
        (void)snprintf(j->id, sizeof(j->id), "j%08zu", i);
        if (fill_job(e, j) < 0)
            return -ENOMEM;
        e->kinds[j->kind].m.part += (double)(j->n_tasks - 1);
        e->kinds[j->last_kind].m.part += 1;
        n_tasks += j->n_tasks;
    }
    e->tasks = calloc(n_tasks + 1, sizeof(*e->tasks));
    e->mix = calloc(e->n_kinds + 1, sizeof(*e->mix));
    size_t *room = calloc(e->n_kinds + 1, sizeof(*room));
    for (size_t i = 0; e->tasks && e->mix && room && i < e->n_kinds; i++) {
        e->mix[i] = e->kinds[i].m;
        e->mix[i].part /= (double)n_tasks;
        room[i] = nodes_for(e, &e->mix[i]);
    }
    size_t at = 0;
    for (size_t i = 0; e->tasks && e->mix && room && i < e->n_jobs; i++) {
        struct engine_job *j = &e->jobs[i];
        j->tasks = &e->tasks[at];
        at += j->n_tasks;
        j->possible = room[j->kind] >= j->n_tasks && room[j->last_kind] > 0;
    }
    free(room);
    return e->tasks && e->mix && room ? 0 : -ENOMEM;
}

int engine_fill(struct engine *e)
{
    fill_nodes(e);
    return fill_jobs(e);
}
