// SPDX-License-Identifier: Apache-2.0
// What one task lacks on one node, by the same rules as fit.c but with amounts and words.
#include "master/scheduler/explain_lack.h"

#include "master/scheduler/where.h"
#include "proto/constraint.h"

#include <limits.h>
#include <stdio.h>

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

int64_t node_free(const struct plan_node *n, enum lack l)
{
    return l == LACK_CPU      ? n->free.cpu_milli
           : l == LACK_MEMORY ? n->free.memory
           : l == LACK_GPU    ? plan_gpus_free(n)
                              : plan_ports_free(&n->ports, INT_MAX);
}

int64_t node_total(const struct plan_node *n, enum lack l)
{
    return l == LACK_CPU      ? n->total.cpu_milli
           : l == LACK_MEMORY ? n->total.memory
           : l == LACK_GPU    ? n->total.gpu
                              : n->ports.count;
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
    int64_t free = node_free(n, l), total = node_total(n, l);
    int64_t need = demand_is_all(d, l) ? total : demand_amount(d, l);
    bool none_to_have = demand_is_all(d, l) && total <= 0;
    bool too_many = l == LACK_PORTS && need > PLAN_MAX_PORTS;
    *ret_short = need > free ? need - free : 0;
    return none_to_have || too_many || (need > 0 && need > free);
}

static void amount_reason(struct text *t, const struct plan_node *n, const struct plan_demand *d,
                          enum lack l, int64_t short_by)
{
    char need[AMOUNT_BYTES], free[AMOUNT_BYTES], rest[AMOUNT_BYTES];
    bool all = demand_is_all(d, l);
    int64_t amount = all ? node_total(n, l) : demand_amount(d, l);
    if (all && amount <= 0) {
        text_add(t, "%s: needs all, the node has none", lack_to_string(l));
        return;
    }
    amount_text(l, amount, true, need);
    amount_text(l, node_free(n, l), false, free);
    amount_text(l, short_by, true, rest);
    if (l == LACK_PORTS && amount > PLAN_MAX_PORTS)
        text_add(t, "ports: needs %s, a task can have %d", need, PLAN_MAX_PORTS);
    else
        text_add(t, "%s: needs %s%s, free %s (short by %s)", lack_to_string(l), all ? "all " : "",
                 need, free, rest);
}

const char *runtime_to_string(unsigned runtimes)
{
    runtimes &= PLAN_RUNTIME_ANY;
    return runtimes == PLAN_RUNTIME_PROCESS  ? "process"
           : runtimes == PLAN_RUNTIME_DOCKER ? "docker"
           : runtimes == PLAN_RUNTIME_ANY    ? "process or docker"
                                             : "other";
}

static void tally_add(struct tally *t, enum lack l, int64_t short_by)
{
    t->nodes[l]++;
    if (short_by > 0 && (t->short_by[l] == 0 || short_by < t->short_by[l]))
        t->short_by[l] = short_by;
}

void node_reason(const struct plan_node *n, const struct plan_demand *d, struct tally *tally,
                 char *out, size_t size)
{
    char label[CONSTRAINT_LABEL_BYTES], condition[CONSTRAINT_TEXT_BYTES];
    struct text t = text_on(out, size);
    if (n->ineligible) {
        tally_add(tally, LACK_NODE, 0);
        text_add(&t, "%s", n->ineligible);
        return;
    }
    if (!node_runs(n, d)) {
        tally_add(tally, LACK_RUNTIME, 0);
        text_add(&t, "runtime: needs a %s node, this is a %s node",
                 runtime_to_string((unsigned)d->runtimes), runtime_to_string(n->runtime));
    }
    if (where_unmet(n, d->where, label, condition)) {
        const char *has = where_label(n, label);
        tally_add(tally, LACK_LABELS, 0);
        text_add(&t, "%slabels: needs %.60s %.60s, has %s%.30s", out[0] ? "; " : "", label,
                 condition, has ? "" : "none", has ? has : "");
    }
    for (int i = 0; i < LACK_AMOUNTS; i++) {
        enum lack l = (enum lack)i;
        int64_t short_by;
        if (!node_lacks(n, d, l, &short_by))
            continue;
        tally_add(tally, l, short_by);
        text_add(&t, "%s", out[0] ? "; " : "");
        amount_reason(&t, n, d, l, short_by);
    }
}
