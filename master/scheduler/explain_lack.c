// SPDX-License-Identifier: Apache-2.0
// What one task lacks on one node, by the same rules as fit.c but with amounts and words.
#include "master/scheduler/explain_lack.h"

#include "master/scheduler/where.h"
#include "proto/constraint.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t demand_amount(const struct plan_demand *d, enum lack l)
{
    int64_t v = l == LACK_CPU      ? d->resources.cpu_milli
                : l == LACK_MEMORY ? d->resources.memory
                : l == LACK_GPU    ? d->resources.gpu
                                   : d->ports;
    return demand_is_all(d, l) || v < 0 ? 0 : v;
}

bool demand_is_all(const struct plan_demand *d, enum lack l)
{
    return l == LACK_CPU      ? d->cpu_all
           : l == LACK_MEMORY ? d->memory_all
                              : l == LACK_GPU && d->gpu_all;
}

// Cards among `bits` that suit, and no more than there are by number.
static int64_t cards(const struct plan_node *n, const struct plan_demand *d, uint64_t bits,
                     int64_t most)
{
    int64_t suit = __builtin_popcountll(bits & where_find_cards(n, d->where));
    return most <= 0 ? 0 : suit < most ? suit : most;
}

int64_t node_free(const struct plan_node *n, const struct plan_demand *d, enum lack l)
{
    return l == LACK_CPU      ? n->free.cpu_milli
           : l == LACK_MEMORY ? n->free.memory
           : l == LACK_GPU    ? cards(n, d, n->gpus_free, n->free.gpu)
                              : plan_ports_free(&n->ports, INT_MAX);
}

int64_t node_total(const struct plan_node *n, const struct plan_demand *d, enum lack l)
{
    return l == LACK_CPU      ? n->total.cpu_milli
           : l == LACK_MEMORY ? n->total.memory
           : l == LACK_GPU    ? cards(n, d, UINT64_MAX, n->total.gpu)
                              : n->ports.count;
}

void demand_cards(const struct plan_demand *d, struct text *t)
{
    char label[CONSTRAINT_LABEL_BYTES], condition[CONSTRAINT_TEXT_BYTES], amount[AMOUNT_BYTES];
    const char *at = d->where ? d->where : "";
    while (constraint_next(&at, label, condition)) {
        if (strcmp(label, CONSTRAINT_CARD_MODEL) == 0)
            text_add(t, " of model %.60s", condition);
        if (strcmp(label, CONSTRAINT_CARD_MEMORY) != 0)
            continue;
        amount_text(LACK_MEMORY, strtoll(condition + 3, NULL, 10), true, amount);
        text_add(t, " with at least %.30s", amount);
    }
}

bool node_runs(const struct plan_node *n, const struct plan_demand *d)
{
    return ((unsigned)n->runtime & (unsigned)d->runtimes & PLAN_RUNTIME_ANY) != 0;
}

bool node_meets(const struct plan_node *n, const struct plan_demand *d)
{
    char label[CONSTRAINT_LABEL_BYTES], condition[CONSTRAINT_TEXT_BYTES];
    return !where_unmet(n, d->where, label, condition);
}

bool node_lacks(const struct plan_node *n, const struct plan_demand *d, enum lack l,
                int64_t *ret_short)
{
    int64_t free = node_free(n, d, l), total = node_total(n, d, l);
    bool other_cards = l == LACK_GPU && demand_is_all(d, l) && total < n->total.gpu;
    int64_t need = demand_is_all(d, l) ? total : demand_amount(d, l);
    bool none_to_have = demand_is_all(d, l) && (total <= 0 || other_cards);
    bool too_many = l == LACK_PORTS && need > PLAN_MAX_PORTS;
    *ret_short = need > free ? need - free : 0;
    return none_to_have || too_many || (need > 0 && need > free);
}

static void amount_reason(struct text *t, const struct plan_node *n, const struct plan_demand *d,
                          enum lack l, int64_t short_by)
{
    char need[AMOUNT_BYTES], free[AMOUNT_BYTES], rest[AMOUNT_BYTES];
    bool all = demand_is_all(d, l);
    int64_t amount = all ? node_total(n, d, l) : demand_amount(d, l);
    if (all && (amount <= 0 || (l == LACK_GPU && amount < n->total.gpu))) {
        text_add(t, "%s: needs all", lack_to_string(l));
        if (l == LACK_GPU)
            demand_cards(d, t);
        text_add(t, ", the node has %s", amount <= 0 ? "none" : "others");
        return;
    }
    amount_text(l, amount, true, need);
    amount_text(l, node_free(n, d, l), false, free);
    amount_text(l, short_by, true, rest);
    if (l == LACK_PORTS && amount > PLAN_MAX_PORTS)
        text_add(t, "ports: needs %s, a task can have %d", need, PLAN_MAX_PORTS);
    else {
        text_add(t, "%s: needs %s%s", lack_to_string(l), all ? "all " : "", need);
        if (l == LACK_GPU)
            demand_cards(d, t);
        text_add(t, ", free %s (short by %s)", free, rest);
    }
}

const char *runtime_to_string(unsigned runtimes)
{
    runtimes &= PLAN_RUNTIME_ANY;
    return runtimes == PLAN_RUNTIME_PROCESS  ? "process"
           : runtimes == PLAN_RUNTIME_DOCKER ? "docker"
           : runtimes == PLAN_RUNTIME_ANY    ? "process or docker"
                                             : "other";
}

void tally_add(struct tally *t, enum lack l, int64_t short_by)
{
    t->nodes[l]++;
    if (short_by > 0 && (t->short_by[l] == 0 || short_by < t->short_by[l]))
        t->short_by[l] = short_by;
}

struct text reason_text(struct plan_explanation *x, size_t node)
{
    return node < x->n_reasons ? text_on(x->reasons[node].text, sizeof(x->reasons[node].text))
                               : (struct text){0};
}

void node_reason(const struct plan_node *n, const struct plan_demand *d, struct tally *tally,
                 struct text *t)
{
    char label[CONSTRAINT_LABEL_BYTES], condition[CONSTRAINT_TEXT_BYTES];
    if (n->ineligible) {
        tally_add(tally, LACK_NODE, 0);
        text_next(t);
        text_add(t, "%s", n->ineligible);
        return;
    }
    if (!node_runs(n, d)) {
        tally_add(tally, LACK_RUNTIME, 0);
        text_next(t);
        text_add(t, "runtime: needs a %s node, this is a %s node",
                 runtime_to_string((unsigned)d->runtimes), runtime_to_string(n->runtime));
    }
    if (node_full(n)) {
        tally_add(tally, LACK_TASKS, 0);
        text_next(t);
        text_add(t, "tasks: it has %d, the most that it may have", n->tasks);
    }
    if (node_kept(n, d)) {
        tally_add(tally, LACK_EXCLUSIVE, 0);
        text_next(t);
        text_add(t, "exclusive: another job has the node alone");
    }
    if (where_unmet(n, d->where, label, condition)) {
        const char *has = where_label(n, label);
        tally_add(tally, LACK_LABELS, 0);
        text_next(t);
        text_add(t, "labels: needs %.60s %.60s, has %s%.30s", label, condition, has ? "" : "none",
                 has ? has : "");
    }
    for (int i = 0; i < LACK_AMOUNTS; i++) {
        enum lack l = (enum lack)i;
        int64_t short_by;
        if (!node_lacks(n, d, l, &short_by))
            continue;
        tally_add(tally, l, short_by);
        text_next(t);
        if (t->left)
            amount_reason(t, n, d, l, short_by);
    }
}
