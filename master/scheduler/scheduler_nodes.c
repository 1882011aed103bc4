// SPDX-License-Identifier: Apache-2.0
// The kept nodes: slot by slot brought up to date, or made anew when one came, went, or became
// larger than the index knows.
#include "master/scheduler/scheduler_nodes.h"

#include "common/json.h"
#include "master/cluster/cluster.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>

static void labels_free(struct kept_labels *l)
{
    json_decref(l->record);
    json_decref(l->info);
    json_decref(l->all);
    free(l->list);
    free(l->cards);
    *l = (struct kept_labels){0};
}

static void clear(struct kept *k)
{
    plan_index_free(k->index);
    for (size_t i = 0; i < k->n; i++)
        labels_free(&k->labels[i]);
    free(k->labels);
    free(k->nodes);
    free(k->node_of);
    free(k->why);
    free(k->stale);
    *k = (struct kept){.moved = true, .max_tasks = k->max_tasks};
}

void kept_free(struct kept *k)
{
    clear(k);
}

// NULL = it may get work.
static const char *ineligible(const struct node *n, char *text)
{
    if (!n->approved)
        return "not approved";
    if (n->state != NODE_READY && !node_aside_probe(n)) {
        (void)snprintf(text, REASON_BYTES, "%s%s%.200s", node_state_to_string(n->state),
                       n->reason[0] ? ": " : "", n->reason);
        return text;
    }
    if (!n->draining)
        return NULL;
    node_drain_text(n, text, REASON_BYTES);
    return text;
}

static uint64_t gpus_free(const struct node *n)
{
    uint64_t all = n->n_gpus >= 64 ? UINT64_MAX : (UINT64_C(1) << n->n_gpus) - 1;
    return all & ~n->gpus_taken;
}

// What the node says of its first card, as labels.
static void add_card(json_t *all, const json_t *info)
{
    char text[32];
    const json_t *card = json_array_get(json_object_get(info, "gpus"), 0);
    int64_t memory = json_opt_i64(card, "memory", 0);
    if (!card)
        return;
    json_put_str(all, "gpu.model", json_opt_str(card, "name", NULL));
    (void)snprintf(text, sizeof(text), "%" PRId64, memory >> 20);
    json_put_str(all, "gpu.memory", text);
}

// Built in, then as its configuration says, then as the cluster's record says: the last one wins.
static json_t *merge_labels(const struct node *n)
{
    json_t *all = json_object();
    json_t *own = json_object_get(n->info, "labels");
    if (!all)
        return NULL;
    add_card(all, n->info);
    if (own)
        (void)json_object_update(all, own);
    (void)json_object_update(all, n->labels);
    return all;
}

static bool same_cards(const struct kept_labels *a, const struct kept_labels *b)
{
    return json_equal(json_object_get(a->info, "gpus"), json_object_get(b->info, "gpus"));
}

static int take_cards(struct kept_labels *l)
{
    const json_t *list = json_object_get(l->info, "gpus");
    l->cards = calloc(json_array_size(list) + 1, sizeof(*l->cards));
    for (size_t i = 0; l->cards && i < json_array_size(list); i++) {
        const json_t *card = json_array_get(list, i);
        l->cards[l->n_cards++] =
            (struct plan_card){json_opt_str(card, "name", ""), json_opt_i64(card, "memory", 0)};
    }
    return l->cards ? 0 : -ENOMEM;
}

// *ret_changed: they are others than before. -ENOMEM.
static int take_labels(struct kept_labels *l, const struct node *n, bool *ret_changed)
{
    const char *name;
    json_t *value;
    *ret_changed = false;
    if (l->all && l->info == n->info && json_equal(l->record, n->labels))
        return 0;
    struct kept_labels now = {
        .record = json_deep_copy(n->labels), .info = json_incref(n->info), .all = merge_labels(n)};
    now.list = calloc(json_object_size(now.all) + 1, sizeof(*now.list));
    if (!now.record || !now.all || !now.list || take_cards(&now) < 0) {
        labels_free(&now);
        return -ENOMEM;
    }
    json_object_foreach (now.all, name, value)
        if (json_is_string(value))
            now.list[now.n++] = (struct plan_label){name, json_string_value(value)};
    *ret_changed = !json_equal(l->all, now.all) || !same_cards(l, &now);
    labels_free(l);
    *l = now;
    return 0;
}

// The node's own word, as the label `max_tasks`, over the cluster's.
static int max_tasks(const struct kept *k, size_t i)
{
    char *end = NULL;
    const char *text = json_string_value(json_object_get(k->labels[i].all, "max_tasks"));
    long n = text ? strtol(text, &end, 10) : 0;
    return end && end != text && !*end && n > 0 && n <= INT_MAX ? (int)n : k->max_tasks;
}

// All that is there, whose ever it is.
static int tasks_of(const struct node *n)
{
    return n->tasks + n->orphans;
}

static void fill(struct kept *k, size_t i)
{
    const struct node *x = k->node_of[i];
    if (x->holder)
        x->holder->slot = (uint32_t)i;
    k->nodes[i] = (struct plan_node){
        .name = x->name,
        .ineligible = ineligible(x, k->why[i]),
        .runtime = x->docker ? PLAN_RUNTIME_DOCKER : PLAN_RUNTIME_PROCESS,
        .total = x->total,
        .free = {x->total.cpu_milli - x->reserved.cpu_milli, x->total.memory - x->reserved.memory,
                 x->total.gpu - x->reserved.gpu},
        .gpus_free = gpus_free(x),
        .ports = {x->port_first, x->port_count, x->port_cursor, x->ports_taken},
        .labels = k->labels[i].list,
        .n_labels = k->labels[i].n,
        .cards = k->labels[i].cards,
        .n_cards = k->labels[i].n_cards,
        .tasks = tasks_of(x),
        .max_tasks = max_tasks(k, i),
        .exclusive = x->exclusive,
        .holder = x->holder,
    };
}

void kept_stale(struct kept *k, struct node *n)
{
    if (k->moved || n->plan_stale || n->plan_slot >= k->n || k->node_of[n->plan_slot] != n)
        return;
    n->plan_stale = true;
    k->stale[k->n_stale++] = n->plan_slot;
}

void kept_close(struct kept *k, const struct node *n)
{
    k->nodes[n->plan_slot].ineligible = ineligible(n, k->why[n->plan_slot]);
    (void)plan_index_touch(k->index, n->plan_slot);
}

static int build(struct kept *k, struct node *nodes)
{
    size_t n = HASH_CNT(hh, nodes);
    clear(k);
    k->nodes = calloc(n + 1, sizeof(*k->nodes));
    k->node_of = calloc(n + 1, sizeof(*k->node_of));
    k->why = calloc(n + 1, sizeof(*k->why));
    k->stale = calloc(n + 1, sizeof(*k->stale));
    k->labels = calloc(n + 1, sizeof(*k->labels));
    if (!k->labels || !k->nodes || !k->node_of || !k->why || !k->stale)
        return -ENOMEM;
    for (struct node *x = nodes; x; x = x->hh.next) {
        k->node_of[k->n] = x;
        x->plan_slot = (uint32_t)k->n;
        x->plan_stale = false;
        bool changed;
        int r = take_labels(&k->labels[k->n], x, &changed);
        fill(k, k->n++);
        if (r < 0)
            return r;
    }
    int r = plan_index_new(k->nodes, n, &k->index);
    k->moved = r < 0;
    return r;
}

// The index measures sizes by the largest node there was when it was made.
static bool resized(const struct kept *k)
{
    for (size_t i = 0; i < k->n_stale; i++) {
        const struct resources *old = &k->nodes[k->stale[i]].total;
        const struct resources *now = &k->node_of[k->stale[i]]->total;
        if (old->cpu_milli != now->cpu_milli || old->memory != now->memory)
            return true;
    }
    return false;
}

int kept_refresh(struct kept *k, struct node *nodes, struct kept_change *ret)
{
    *ret = (struct kept_change){0};
    if (k->moved || k->n != HASH_CNT(hh, nodes) || resized(k)) {
        ret->grew = true;
        return build(k, nodes);
    }
    for (size_t i = 0; i < k->n_stale; i++) {
        size_t slot = k->stale[i];
        bool changed;
        int r = take_labels(&k->labels[slot], k->node_of[slot], &changed);
        if (r < 0)
            return r;
        // Who wants nobody else there, or keeps off somebody, waits for tasks that hold nothing,
        // too.
        ret->grew |= tasks_of(k->node_of[slot]) < k->nodes[slot].tasks;
        bool barred = k->nodes[slot].ineligible;
        fill(k, slot);
        ret->shaken |= barred != (k->nodes[slot].ineligible != NULL);
        k->node_of[slot]->plan_stale = false;
        ret->grew |=
            changed ? plan_index_relabel(k->index, slot) : plan_index_touch(k->index, slot);
    }
    k->n_stale = 0;
    return 0;
}
