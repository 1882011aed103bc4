// SPDX-License-Identifier: Apache-2.0
// Why a job waits. Looks for the first task, in the order in which they are placed, that fits on no
// node even alone, and says what it lacks where. When there is none, the job is placed on a copy of
// the nodes as far as it goes, and the first task that finds no room left is the one to speak of.
#include "master/scheduler/explain_ruled.h"
#include "master/scheduler/explain_summary.h"
#include "master/scheduler/trial.h"
#include "master/scheduler/where.h"

#include "common/cleanup.h"

#include <stdlib.h>
#include <string.h>

static struct plan_need need_of(struct plan_index *x, const struct plan_demand *d)
{
    struct plan_need need;
    if (plan_need_on(x, d, &need) < 0)
        need.runtimes = 0; // out of memory: as if nothing could run it
    return need;
}

static bool same_need(const struct plan_need *a, const struct plan_need *b)
{
    return plan_need_within(a, b) && plan_need_within(b, a);
}

static bool fits_alone(struct plan_index *x, const struct plan_need *need)
{
    for (size_t i = 0; i < x->n; i++)
        if (plan_fits_on(x, i, need))
            return true;
    return false;
}

// The first task in order that fits nowhere; NULL = each would fit alone.
static const struct plan_demand *find_misfit(struct plan_index *x, const struct plan_job *job)
{
    struct plan_need last = {.cpu = -1};
    for (size_t k = 0; k < job->n_tasks; k++) {
        const struct plan_demand *d = &job->tasks[x->order[k].task].demand;
        struct plan_need need = need_of(x, d);
        if (same_need(&need, &last))
            continue;
        if (!fits_alone(x, &need))
            return d;
        last = need;
    }
    return NULL;
}

// Places what can be placed, going on after a task that cannot. The first of those is returned
// (NULL = all fit).
static const struct plan_demand *place_some(struct trial *t, size_t *ret_fitted)
{
    const struct plan_demand *stuck = NULL;
    struct plan_need refused = {.cpu = -1};
    struct plan_index *x = t->index;
    for (size_t k = 0; t->job.tasks && k < t->job.n_tasks; k++) {
        struct plan_task *task = &t->job.tasks[t->order[k].task];
        struct plan_need need = need_of(x, &task->demand);
        if (same_need(&need, &refused))
            continue;
        task->node = plan_index_pick(x, plan_mode_of(&t->job, &need), t->job.metric, &need,
                                     task->demand.avoid);
        if (task->node < 0) {
            stuck = stuck ? stuck : &task->demand;
            refused = need;
            continue;
        }
        plan_grant(&t->nodes[task->node], task, where_cards(need.where, (size_t)task->node));
        x->job_tasks[task->node]++;
        plan_index_touch(x, (size_t)task->node);
        (*ret_fitted)++;
    }
    return stuck;
}

static void add_blocker(struct plan_explanation *ret, enum lack l, int nodes, int64_t short_by)
{
    ret->blockers[ret->n_blockers++] =
        (struct plan_blocker){.what = lack_to_string(l), .nodes = nodes, .short_by = short_by};
}

// Those that block on most nodes first.
static void add_tally(struct plan_explanation *ret, struct tally *tally)
{
    for (;;) {
        int most = 0;
        for (int l = 1; l < LACK_MAX; l++)
            if (tally->nodes[l] > tally->nodes[most])
                most = l;
        if (tally->nodes[most] == 0)
            return;
        add_blocker(ret, (enum lack)most, tally->nodes[most], tally->short_by[most]);
        tally->nodes[most] = 0;
    }
}

// Written out for the first nodes, counted for all.
static void give_reasons(const struct plan_node *nodes, const struct plan_demand *d,
                         struct plan_explanation *ret)
{
    struct tally tally = {0};
    for (size_t i = 0; i < ret->n_nodes; i++) {
        struct text t = reason_text(ret, i);
        node_reason(&nodes[i], d, &tally, &t);
    }
    add_tally(ret, &tally);
}

static int explain_gang(struct trial *t, const struct plan_node *nodes,
                        struct plan_explanation *ret)
{
    size_t fitted = 0;
    int eligible = 0;
    struct plan_index before = *t->index; // for its sums alone
    int r = t->job.n_tasks < 64 ? 0 : plan_index_prepare(t->index, t->job.alloc, t->job.metric);
    if (r < 0)
        return r;
    const struct plan_demand *stuck = place_some(t, &fitted);
    if (!stuck) {
        struct text text = text_on(ret->summary, sizeof(ret->summary));
        text_add(&text, "fits now");
        return 0;
    }
    for (size_t i = 0; i < ret->n_nodes; i++)
        eligible += !nodes[i].ineligible;
    add_blocker(ret, LACK_GANG, eligible, (int64_t)(t->job.n_tasks - fitted));
    give_reasons(t->nodes, stuck, ret);
    summary_of_gang(&before, t->nodes, &t->job, stuck, fitted, ret->summary, sizeof(ret->summary));
    return 0;
}

static int explain_scope(struct trial *t, struct plan_explanation *ret)
{
    struct scope s;
    struct tally tally = {0};
    int r = plan_index_room(t->index, t->job.n_tasks);
    if (r < 0)
        return r;
    plan_order_tasks(t->index, &t->job, t->index->order);
    r = scope_begin(&s, t->index, &t->job);
    if (r == 0)
        r = scope_place(&s);
    if (r == 0 && s.stuck) {
        if (s.stuck_gang)
            add_blocker(ret, LACK_GANG, (int)ret->n_nodes, (int64_t)(s.wanted - s.most));
        explain_ruled(&s, ret, &tally);
        add_tally(ret, &tally);
    } else if (r == 0) {
        struct text text = text_on(ret->summary, sizeof(ret->summary));
        text_add(&text, "fits now");
    }
    scope_end(&s);
    return r;
}

// Each task alone would fit.
static int explain_together(const struct plan_node *nodes, size_t n, const struct plan_job *job,
                            struct plan_explanation *ret)
{
    struct trial t = {0};
    int r = trial_copy(&t, nodes, n, job);
    if (r == 0) {
        plan_order_tasks(t.index, &t.job, t.order);
        r = job->rules ? explain_scope(&t, ret) : explain_gang(&t, nodes, ret);
    }
    trial_free(&t);
    return r;
}

static int explain(struct plan_index *x, const struct plan_job *job, struct plan_explanation *ret)
{
    int r = plan_index_room(x, job->n_tasks);
    if (r < 0)
        return r;
    plan_order_tasks(x, job, x->order);
    const struct plan_demand *misfit = find_misfit(x, job);
    if (!misfit)
        return explain_together(x->nodes, x->n, job, ret);
    give_reasons(x->nodes, misfit, ret);
    summary_of_task(x->nodes, x->n, misfit, ret->summary, sizeof(ret->summary));
    return 0;
}

int plan_explain(const struct plan_node *nodes, size_t n_nodes, const struct plan_job *job,
                 struct plan_explanation *ret)
{
    struct plan_index *index = NULL;
    struct plan_explanation x = {
        .n_nodes = n_nodes, .n_reasons = n_nodes < PLAN_REASONS_MAX ? n_nodes : PLAN_REASONS_MAX};
    x.reasons = calloc(x.n_reasons + 1, sizeof(*x.reasons));
    // An index changes nodes only by placing, and nothing is placed on this one.
    int r =
        x.reasons ? plan_index_new((struct plan_node *)(uintptr_t)nodes, n_nodes, &index) : -ENOMEM;
    for (size_t i = 0; i < x.n_reasons && r == 0; i++)
        x.reasons[i].node = (int)i;
    if (r == 0)
        r = explain(index, job, &x);
    plan_index_free(index);
    if (r < 0)
        plan_explanation_free(&x);
    else
        *ret = x;
    return r;
}

void plan_explanation_free(struct plan_explanation *x)
{
    free(x->reasons);
    *x = (struct plan_explanation){0};
}
