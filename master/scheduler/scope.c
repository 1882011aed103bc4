// SPDX-License-Identifier: Apache-2.0
// Placing a job with rules. A task that needs others beside it takes them along to one node, so
// that none of them sits where its companion finds no room.
#include "master/scheduler/scope.h"

#include <stdlib.h>
#include <string.h>

#define GROUPS_TOGETHER 32 // that one task takes along

// --- who is where ---

bool scope_has(const struct scope *s, size_t node, uint16_t group)
{
    return s->present[group * s->words + node / 64] >> (node % 64) & 1;
}

static void note(struct scope *s, size_t node, uint16_t group)
{
    s->present[group * s->words + node / 64] |= UINT64_C(1) << (node % 64);
    s->own[node] += group < s->rules->n_own;
}

bool scope_apart(const struct scope *s, uint16_t a, uint16_t b)
{
    for (size_t i = 0; i < s->rules->n_ties; i++) {
        const struct plan_tie *t = &s->rules->ties[i];
        if (t->apart && ((t->group == a && t->with == b) || (t->group == b && t->with == a)))
            return true;
    }
    return false;
}

// All but the ties to what must be there.
static enum rule forbidden(const struct scope *s, size_t node, const struct plan_demand *d,
                           uint16_t *ret_with)
{
    const struct plan_node *n = &s->x->nodes[node];
    if (n->exclusive > 0 && s->own[node] == 0)
        return RULE_KEPT;
    if (d->exclusive && n->tasks > (int)s->own[node])
        return RULE_OTHERS;
    for (size_t i = 0; i < s->rules->n_ties; i++) {
        const struct plan_tie *t = &s->rules->ties[i];
        if (!t->apart || (t->group != d->group && t->with != d->group))
            continue;
        *ret_with = t->group == d->group ? t->with : t->group;
        if (scope_has(s, node, *ret_with))
            return RULE_APART;
    }
    return RULE_NONE;
}

enum rule scope_rule(const struct scope *s, size_t node, const struct plan_demand *d,
                     uint16_t *ret_with)
{
    enum rule rule = forbidden(s, node, d, ret_with);
    for (size_t i = 0; rule == RULE_NONE && i < s->rules->n_ties; i++) {
        const struct plan_tie *t = &s->rules->ties[i];
        if (t->apart || t->group != d->group)
            continue;
        *ret_with = t->with;
        rule = scope_has(s, node, t->with) ? RULE_NONE : RULE_NEAR;
    }
    return rule;
}

static bool has_near(const struct scope *s, uint16_t group)
{
    for (size_t i = 0; i < s->rules->n_ties; i++)
        if (!s->rules->ties[i].apart && s->rules->ties[i].group == group)
            return true;
    return false;
}

enum gang_mode scope_gang(const struct scope *s, const struct plan_demand *d)
{
    return s->rules->gang ? s->rules->gang : d->gang;
}

// --- needs, and where they may be met ---

int scope_need(struct scope *s, const struct plan_demand *d, struct plan_need *ret)
{
    int r = plan_need_on(s->x, d, ret);
    ret->whole |= s->job->open_only ? NODE_OPEN : 0u;
    plan_need_limit(ret, &s->most_all);
    return r;
}

static void judge(struct scope *s, struct quarter *q, size_t node)
{
    uint16_t with;
    uint64_t *word = &q->nodes.bits[node / 64], bit = UINT64_C(1) << (node % 64);
    bool may = where_has(q->base, node) && scope_rule(s, node, q->demand, &with) == RULE_NONE;
    *word = may ? *word | bit : *word & ~bit;
}

// The nodes that tasks like this one may use now. NULL = out of memory.
static const struct plan_where *quarter_of(struct scope *s, const struct plan_demand *d,
                                           const struct plan_where *base)
{
    struct quarter *q = &s->quarters[d->group];
    if (q->nodes.bits)
        return &q->nodes;
    q->demand = d;
    q->base = base;
    q->nodes.bits = calloc(s->words, sizeof(*q->nodes.bits));
    q->nodes.cards = base ? base->cards : NULL; // borrowed
    q->nodes.nodes = s->x->nodes;
    for (size_t i = 0; q->nodes.bits && i < s->x->n; i++)
        judge(s, q, i);
    return q->nodes.bits ? &q->nodes : NULL;
}

struct room room_of(const struct scope *s, size_t node)
{
    const struct plan_node *n = &s->x->nodes[node];
    struct room r = {s->x->views[node], n->gpus_free};
    r.view.ports = (uint16_t)plan_ports_free(&n->ports, UINT16_MAX);
    return r;
}

bool room_take(struct room *r, size_t node, const struct plan_need *need)
{
    if (!plan_fits(&r->view, need) || !plan_within_most(&r->view, need) ||
        !where_fits(need->where, node, need, r->cards))
        return false;
    unsigned whole = need->whole & (WHOLE_CPU | WHOLE_MEMORY | WHOLE_GPU);
    uint64_t cards = r->cards & where_cards(need->where, node);
    r->view.cpu = whole & WHOLE_CPU ? 0 : r->view.cpu - need->cpu;
    r->view.memory = whole & WHOLE_MEMORY ? 0 : r->view.memory - need->memory;
    r->view.ports = (uint16_t)(r->view.ports - need->ports);
    for (int i = whole & WHOLE_GPU ? r->view.gpus : need->gpus; i > 0; i--) {
        r->cards &= ~(cards & -cards); // the lowest, as plan_grant
        cards &= cards - 1;
        r->view.gpus--;
    }
    whole |= (need->cpu ? WHOLE_CPU : 0u) | (need->memory ? WHOLE_MEMORY : 0u) |
             (need->gpus ? WHOLE_GPU : 0u);
    r->view.flags &= ~whole;
    return true;
}

void best_offer(struct best *b, const struct scope *s, size_t node, const struct plan_need *need,
                const struct plan_but *avoided)
{
    struct plan_key key = place_key(s->x, plan_mode_of(s->job, need), s->job->metric, node);
    bool off = plan_but_has(avoided, (int64_t)node);
    bool wins =
        b->node < 0 || b->avoided > off ||
        (b->avoided == off && plan_prefers(s->x, need, &key, node, &b->key, (size_t)b->node));
    if (wins)
        *b = (struct best){(int64_t)node, key, off};
}

// --- taking ---

void scope_take(struct scope *s, uint32_t task, size_t node, const struct plan_where *where)
{
    struct plan_index *x = s->x;
    struct plan_task *t = &s->job->tasks[task];
    x->order[s->placed].task = task;
    x->cursors[s->placed++] = x->nodes[node].ports.cursor;
    s->done[task] = true;
    t->node = (int)node;
    plan_grant(&x->nodes[node], t, where_cards(where, node));
    plan_most_take(&s->most_all, t);
    if (s->job->alloc == ALLOC_SPREAD)
        x->job_tasks[node]++;
    plan_index_touch(x, node);
    note(s, node, t->demand.group);
    for (size_t g = 0; g < s->rules->n_own; g++)
        if (s->quarters[g].nodes.bits)
            judge(s, &s->quarters[g], node);
}

static int place_alone(struct scope *s, uint32_t task)
{
    const struct plan_demand *d = &s->job->tasks[task].demand;
    struct plan_need need;
    if (scope_need(s, d, &need) < 0)
        return -ENOMEM;
    need.where = quarter_of(s, d, need.where);
    if (!need.where)
        return -ENOMEM;
    int node = plan_index_pick(s->x, plan_mode_of(s->job, &need), s->job->metric, &need, d->avoid);
    if (node < 0)
        return 0;
    scope_take(s, task, (size_t)node, need.where);
    return 1;
}

// --- a task and those that it must have beside it ---

struct bundle {
    uint32_t tasks[GROUPS_TOGETHER];
    struct plan_need needs[GROUPS_TOGETHER];
    size_t n;
};

static bool bundle_has(const struct scope *s, const struct bundle *b, uint16_t group)
{
    for (size_t i = 0; i < b->n; i++)
        if (s->job->tasks[b->tasks[i]].demand.group == group)
            return true;
    return false;
}

// Adds to the bundle what the tasks in it lack on the node. 1, 0 = that is not to be had, -ENOMEM.
static int gather(struct scope *s, size_t node, struct bundle *b)
{
    for (size_t k = 0; k < b->n; k++)
        for (size_t i = 0; i < s->rules->n_ties; i++) {
            const struct plan_tie *t = &s->rules->ties[i];
            if (t->apart || t->group != s->job->tasks[b->tasks[k]].demand.group ||
                scope_has(s, node, t->with) || bundle_has(s, b, t->with))
                continue;
            if (t->with >= s->rules->n_own || s->first[t->with] == UINT32_MAX ||
                b->n == GROUPS_TOGETHER)
                return 0;
            uint32_t task = s->first[t->with];
            if (scope_need(s, &s->job->tasks[task].demand, &b->needs[b->n]) < 0)
                return -ENOMEM;
            b->tasks[b->n++] = task;
        }
    return 1;
}

static bool bundle_fits(const struct scope *s, size_t node, const struct bundle *b)
{
    struct room room = room_of(s, node);
    uint16_t with;
    for (size_t i = 0; i < b->n; i++) {
        const struct plan_demand *d = &s->job->tasks[b->tasks[i]].demand;
        for (size_t k = 0; k < i; k++)
            if (scope_apart(s, d->group, s->job->tasks[b->tasks[k]].demand.group))
                return false;
        if (forbidden(s, node, d, &with) || !room_take(&room, node, &b->needs[i]))
            return false;
    }
    return true;
}

static void find_first(struct scope *s)
{
    for (size_t g = 0; g < s->rules->n_own; g++)
        s->first[g] = UINT32_MAX;
    for (size_t i = s->job->n_tasks; i-- > 0;)
        if (!s->done[s->todo[i]])
            s->first[s->job->tasks[s->todo[i]].demand.group] = s->todo[i];
}

static int place_bundle(struct scope *s, uint32_t task)
{
    const struct plan_demand *d = &s->job->tasks[task].demand;
    struct plan_but avoided = plan_avoided(s->x, d->avoid);
    struct bundle b = {.tasks = {task}, .n = 1};
    struct best best = {.node = -1};
    if (scope_need(s, d, &b.needs[0]) < 0)
        return -ENOMEM;
    find_first(s);
    for (size_t i = 0; i < s->x->n; i++) {
        b.n = 1;
        int r = plan_fits_on(s->x, i, &b.needs[0]) ? gather(s, i, &b) : 0;
        if (r < 0)
            return r;
        if (r && bundle_fits(s, i, &b))
            best_offer(&best, s, i, &b.needs[0], &avoided);
    }
    if (best.node < 0)
        return 0;
    b.n = 1;
    if (gather(s, (size_t)best.node, &b) < 0)
        return -ENOMEM;
    for (size_t k = 0; k < b.n; k++)
        scope_take(s, b.tasks[k], (size_t)best.node, b.needs[k].where);
    return 1;
}

// --- all of them ---

// How many groups a task of this one needs beside it, directly or not.
static unsigned reach(const struct plan_rules *r, uint16_t group)
{
    uint16_t list[GROUPS_TOGETHER] = {group};
    unsigned n = 1;
    for (unsigned k = 0; k < n; k++)
        for (size_t i = 0; i < r->n_ties; i++) {
            bool known = r->ties[i].apart || r->ties[i].group != list[k];
            for (unsigned j = 0; j < n && !known; j++)
                known = list[j] == r->ties[i].with;
            if (!known && n < GROUPS_TOGETHER)
                list[n++] = r->ties[i].with;
        }
    return n;
}

// Who needs most beside it first; else in the job's order.
static void sort_todo(struct scope *s)
{
    size_t at = 0;
    for (unsigned want = GROUPS_TOGETHER; want > 0; want--) {
        bool some = want == 1;
        for (size_t g = 0; g < s->rules->n_own && !some; g++)
            some = reach(s->rules, (uint16_t)g) == want;
        for (size_t k = 0; some && k < s->job->n_tasks; k++) {
            uint32_t task = s->x->order[k].task;
            if (reach(s->rules, s->job->tasks[task].demand.group) == want)
                s->todo[at++] = task;
        }
    }
}

int scope_begin(struct scope *s, struct plan_index *x, const struct plan_job *job)
{
    const struct plan_rules *r = job->rules;
    *s = (struct scope){.x = x, .job = job, .rules = r, .words = x->n / 64 + 1};
    s->most_all = plan_most(job);
    s->present = calloc(r->n_groups * s->words, sizeof(*s->present));
    s->own = calloc(x->n + 1, sizeof(*s->own));
    s->quarters = calloc(r->n_own, sizeof(*s->quarters));
    s->todo = calloc(job->n_tasks + 1, sizeof(*s->todo));
    s->unit = calloc(job->n_tasks + 1, sizeof(*s->unit));
    s->chosen = calloc(job->n_tasks + 1, sizeof(*s->chosen));
    s->first = calloc(r->n_own, sizeof(*s->first));
    s->done = calloc(job->n_tasks + 1, sizeof(*s->done));
    if (!s->present || !s->own || !s->quarters || !s->todo || !s->unit || !s->chosen || !s->first ||
        !s->done)
        return -ENOMEM;
    sort_todo(s);
    for (size_t i = 0; i < job->n_peers; i++) // none is where nothing is any more
        if (job->peers[i].node < x->n && x->nodes[job->peers[i].node].tasks > 0)
            note(s, job->peers[i].node, job->peers[i].group);
    return 0;
}

int scope_place(struct scope *s)
{
    for (size_t i = 0; i < s->job->n_tasks; i++) {
        uint32_t task = s->todo[i];
        const struct plan_demand *d = &s->job->tasks[task].demand;
        if (s->done[task])
            continue;
        int r = scope_gang(s, d)        ? scope_place_gang(s, task)
                : has_near(s, d->group) ? place_bundle(s, task)
                                        : place_alone(s, task);
        if (r < 0)
            return r;
        s->stuck = r ? NULL : s->stuck ? s->stuck : d;
        if (s->stuck)
            return 0;
    }
    return 0;
}

int plan_place_ruled(struct plan_index *x, const struct plan_job *job, size_t *ret_placed)
{
    struct scope s;
    int r = scope_begin(&s, x, job);
    if (r == 0)
        r = scope_place(&s);
    *ret_placed = s.placed;
    scope_end(&s);
    return r;
}

void scope_end(struct scope *s)
{
    for (size_t g = 0; s->quarters && g < s->rules->n_own; g++)
        free(s->quarters[g].nodes.bits);
    free(s->present);
    free(s->own);
    free(s->quarters);
    free(s->todo);
    free(s->unit);
    free(s->chosen);
    free(s->first);
    free(s->done);
}
