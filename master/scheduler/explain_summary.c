// SPDX-License-Identifier: Apache-2.0
// The one sentence of an explanation.
#include "master/scheduler/explain_summary.h"

#include "proto/constraint.h"

#include <string.h>

static bool is_candidate(const struct plan_node *n, const struct plan_demand *d)
{
    return !n->ineligible && node_runs(n, d) && node_meets(n, d) && !node_kept(n, d) &&
           !node_full(n);
}

// The most that any candidate has free, and the most that any node has at all.
static int64_t most_free(const struct plan_node *nodes, size_t n, const struct plan_demand *d,
                         enum lack l)
{
    int64_t most = INT64_MIN;
    for (size_t i = 0; i < n; i++)
        if (is_candidate(&nodes[i], d) && node_free(&nodes[i], d, l) > most)
            most = node_free(&nodes[i], d, l);
    return most;
}

static int64_t most_total(const struct plan_node *nodes, size_t n, const struct plan_demand *d,
                          enum lack l)
{
    int64_t most = 0;
    for (size_t i = 0; i < n; i++)
        if (node_total(&nodes[i], d, l) > most)
            most = node_total(&nodes[i], d, l);
    return most;
}

// Whether no candidate has enough of this one resource.
static bool lacks_everywhere(const struct plan_node *nodes, size_t n, const struct plan_demand *d,
                             enum lack l)
{
    int64_t short_by;
    for (size_t i = 0; i < n; i++)
        if (is_candidate(&nodes[i], d) && !node_lacks(&nodes[i], d, l, &short_by))
            return false;
    return true;
}

static void add_need(struct text *t, const struct plan_demand *d, enum lack l)
{
    char amount[AMOUNT_BYTES];
    amount_named(l, demand_amount(d, l), true, amount);
    if (demand_is_all(d, l))
        text_add(t, "all of the %s", lack_to_string(l));
    else
        text_add(t, "%s", amount);
    if (l == LACK_GPU)
        demand_cards(d, t);
}

// "a", "a and b", "a, b and c"
static const char *joint(int i, int n)
{
    return i == 0 ? "" : i == n - 1 ? " and " : ", ";
}

static void one_resource(struct text *t, const struct plan_node *nodes, size_t n,
                         const struct plan_demand *d, enum lack l)
{
    char free[AMOUNT_BYTES], total[AMOUNT_BYTES];
    text_add(t, "needs ");
    add_need(t, d, l);
    if (demand_is_all(d, l)) {
        text_add(t, " of one node; no ready node has it wholly free");
        return;
    }
    if (l == LACK_PORTS && d->ports > PLAN_MAX_PORTS) {
        text_add(t, "; a task can have %d", PLAN_MAX_PORTS);
        return;
    }
    amount_text(l, most_free(nodes, n, d, l), false, free);
    text_add(t, " on one node; the most any ready node has free is %s", free);
    if (most_total(nodes, n, d, l) < demand_amount(d, l)) {
        amount_text(l, most_total(nodes, n, d, l), false, total);
        text_add(t, ", and the largest node has %s in all", total);
    }
}

static void several(struct text *t, const struct plan_node *nodes, size_t n,
                    const struct plan_demand *d, const enum lack *lacks, int n_lacks)
{
    char free[AMOUNT_BYTES];
    text_add(t, "needs ");
    for (int i = 0; i < n_lacks; i++) {
        text_add(t, "%s", joint(i, n_lacks));
        add_need(t, d, lacks[i]);
    }
    text_add(t, " on one node; the most any ready node has free is ");
    for (int i = 0; i < n_lacks; i++) {
        amount_named(lacks[i], most_free(nodes, n, d, lacks[i]), false, free);
        text_add(t, "%s%s", joint(i, n_lacks), free);
    }
}

static void not_together(struct text *t, const struct plan_demand *d)
{
    enum lack wanted[LACK_AMOUNTS];
    int n = 0;
    for (int l = 0; l < LACK_AMOUNTS; l++)
        if (demand_is_all(d, (enum lack)l) || demand_amount(d, (enum lack)l) > 0)
            wanted[n++] = (enum lack)l;
    text_add(t, "no ready node has ");
    for (int i = 0; i < n; i++) {
        text_add(t, "%s", joint(i, n));
        add_need(t, d, wanted[i]);
    }
    text_add(t, " free at once");
}

// "needs a node with zone a and disk != hdd; no ready node has these labels"
static void labels_needed(struct text *t, const struct plan_demand *d)
{
    char label[CONSTRAINT_LABEL_BYTES], condition[CONSTRAINT_TEXT_BYTES];
    const char *at = d->where;
    text_add(t, "needs a node with ");
    for (int i = 0; constraint_next(&at, label, condition); i++)
        if (label[0] != '$')
            text_add(t, "%s%.40s %.40s", i ? " and " : "", label, condition);
    text_add(t, "; no ready node has such labels");
}

static bool no_node(struct text *t, const struct plan_node *nodes, size_t n,
                    const struct plan_demand *d)
{
    size_t eligible = 0, candidates = 0, runs = 0, meets = 0, full = 0;
    bool same = true;
    for (size_t i = 0; i < n; i++) {
        eligible += !nodes[i].ineligible;
        runs += !nodes[i].ineligible && node_runs(&nodes[i], d);
        meets += !nodes[i].ineligible && node_runs(&nodes[i], d) && node_meets(&nodes[i], d);
        full += !nodes[i].ineligible && node_full(&nodes[i]);
        candidates += is_candidate(&nodes[i], d);
        same = same && nodes[i].ineligible && strcmp(nodes[i].ineligible, nodes[0].ineligible) == 0;
    }
    if (n == 0)
        text_add(t, "the cluster has no nodes");
    else if (eligible == 0)
        text_add(t, same ? "no node is ready (%.100s)" : "no node is ready", nodes[0].ineligible);
    else if (meets > 0 && candidates == 0 && full > 0)
        text_add(t, "every node that could run it has as many tasks as it may have%s",
                 full < meets ? ", or is kept for another job alone" : "");
    else if (meets > 0 && candidates == 0)
        text_add(t, "every node that could run it is kept for another job alone");
    else if (runs > 0 && candidates == 0)
        labels_needed(t, d);
    else if (candidates == 0)
        text_add(t, "needs a %s node; none is ready", runtime_to_string((unsigned)d->runtimes));
    return candidates == 0;
}

void summary_of_task(const struct plan_node *nodes, size_t n, const struct plan_demand *d,
                     char *out, size_t size)
{
    struct text t = text_on(out, size);
    enum lack lacks[LACK_AMOUNTS];
    int n_lacks = 0;
    if (no_node(&t, nodes, n, d))
        return;
    for (int l = 0; l < LACK_AMOUNTS; l++)
        if (lacks_everywhere(nodes, n, d, (enum lack)l))
            lacks[n_lacks++] = (enum lack)l;
    if (n_lacks == 1)
        one_resource(&t, nodes, n, d, lacks[0]);
    else if (n_lacks > 1)
        several(&t, nodes, n, d, lacks, n_lacks);
    else
        not_together(&t, d);
}

void summary_of_gang(const struct plan_index *before, const struct plan_node *after,
                     const struct plan_job *job, const struct plan_demand *next, size_t fitted,
                     char *out, size_t size)
{
    char why[256];
    struct text t = text_on(out, size), none = text_on(why, sizeof(why));
    __int128 short_by[LACK_PORTS] = {-before->sum_cpu, -before->sum_memory, -before->sum_gpus};
    char amount[AMOUNT_BYTES];
    int found = 0;
    for (size_t i = 0; i < job->n_tasks; i++)
        for (int l = 0; l < LACK_PORTS; l++)
            short_by[l] += demand_amount(&job->tasks[i].demand, (enum lack)l);
    text_add(&t, "%zu of %zu tasks fit together now", fitted, job->n_tasks);
    if (no_node(&none, after, before->n, next)) {
        text_add(&t, "; for the next, %s", why);
        return;
    }
    for (int l = 0; l < LACK_PORTS; l++) {
        if (short_by[l] <= 0)
            continue;
        amount_text((enum lack)l, short_by[l] > INT64_MAX ? INT64_MAX : (int64_t)short_by[l], true,
                    amount);
        text_add(&t, "%s%s is short by %s", found++ ? ", " : "; ", lack_to_string((enum lack)l),
                 amount);
    }
    if (found) {
        text_add(&t, " in all");
    } else {
        text_add(&t, "; for the next, ");
        not_together(&t, next);
    }
}
