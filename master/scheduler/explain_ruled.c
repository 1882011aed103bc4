// SPDX-License-Identifier: Apache-2.0
// Why a job with rules waits, when it is not for what one of its tasks needs alone: the first task
// that finds no place beside what was placed before it.
#include "master/scheduler/explain_ruled.h"

static const char *name_of(const struct scope *s, uint16_t group)
{
    return s->rules->names[group];
}

// Writes which rule keeps the task off the node, behind what is there.
static void rule_reason(const struct scope *s, size_t node, const struct plan_demand *d,
                        struct tally *tally, struct text *t)
{
    uint16_t with = 0;
    const struct plan_node *n = &s->x->nodes[node];
    enum rule rule = n->ineligible ? RULE_NONE : scope_rule(s, node, d, &with);
    if (rule == RULE_NONE)
        return;
    bool alone = rule == RULE_KEPT || rule == RULE_OTHERS;
    tally_add(tally, alone ? LACK_EXCLUSIVE : LACK_AFFINITY, 0);
    if (rule == RULE_KEPT)
        text_add(t, "exclusive: another job has the node alone");
    else if (rule == RULE_OTHERS)
        text_add(t, "exclusive: %d tasks of others are there", n->tasks - (int)s->own[node]);
    else if (rule == RULE_APART)
        text_add(t, "anti_affinity: %s is there", name_of(s, with));
    else
        text_add(t, "affinity: %s is not there", name_of(s, with));
}

static void node_reasons(const struct scope *s, struct plan_explanation *ret, struct tally *tally)
{
    for (size_t i = 0; i < ret->n_nodes; i++) {
        struct text t = reason_text(ret, i);
        rule_reason(s, i, s->stuck, tally, &t);
        node_reason(&s->x->nodes[i], s->stuck, tally, &t);
    }
}

static void say_gang(const struct scope *s, struct text *t)
{
    bool one = s->stuck_gang == GANG_SAME_NODE;
    text_add(t, "%s: %zu tasks of %s are to be on %s", gang_mode_to_string(s->stuck_gang),
             s->wanted, s->rules->gang ? "the job" : name_of(s, s->stuck->group),
             one ? "one node" : "as few nodes as possible");
    if (one)
        text_add(t, "; the most that have room on one is %zu", s->most);
    else
        text_add(t, "; no node has room for one more");
}

static void say_ties(const struct scope *s, struct text *t)
{
    bool some = false;
    for (size_t i = 0; i < s->rules->n_ties; i++) {
        const struct plan_tie *tie = &s->rules->ties[i];
        bool reverse = tie->apart && tie->with == s->stuck->group;
        if (tie->group != s->stuck->group && !reverse)
            continue;
        text_add(t, "%s%s %s", some ? " and " : " ", tie->apart ? "without" : "with",
                 name_of(s, tie->group == s->stuck->group ? tie->with : tie->group));
        some = true;
    }
    if (s->stuck->exclusive)
        text_add(t, "%s for the job alone", some ? "," : "");
}

void explain_ruled(const struct scope *s, struct plan_explanation *ret, struct tally *tally)
{
    struct text t = text_on(ret->summary, sizeof(ret->summary));
    node_reasons(s, ret, tally);
    if (s->stuck_gang) {
        say_gang(s, &t);
        return;
    }
    if (s->job->n_tasks > 1)
        text_add(&t, "%zu of %zu tasks have a place; the next, of %s, needs a node", s->placed,
                 s->job->n_tasks, name_of(s, s->stuck->group));
    else
        text_add(&t, "needs a node");
    say_ties(s, &t);
    text_add(&t, " that has room for it; there is none now");
}
