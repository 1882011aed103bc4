// SPDX-License-Identifier: Apache-2.0
// A treap: a search tree by (key, number), kept in balance by a fixed scrambled priority per node,
// so that the same input gives the same shape and the same answer everywhere. Each branch knows the
// most of every resource that one of its nodes has; a search skips branches where that is too
// little. Changes are only noted (node_tree_mark) until the tree is used, so that a tree that is
// not in use costs next to nothing.
#include "master/scheduler/node_tree.h"

#include "master/scheduler/where.h"

#include "common/cleanup.h"

#include <stdlib.h>

#define NONE (-1)

struct leaf {
    struct plan_key key;
    struct plan_view own;
    struct plan_view best; // of the node and all below it
    int32_t left, right;
    uint32_t priority; // higher is nearer to the root
};

struct node_tree {
    size_t n;
    int32_t root;
    struct leaf *leaves; // by node number
    uint32_t *marked;
    size_t n_marked;
    bool *is_marked;
};

static uint32_t scramble(uint32_t v)
{
    uint64_t z = (v + UINT64_C(1)) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    return (uint32_t)((z ^ (z >> 27)) >> 16);
}

struct node_tree *node_tree_new(size_t n)
{
    struct node_tree *t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    *t = (struct node_tree){.n = n, .root = NONE};
    t->leaves = calloc(n + 1, sizeof(*t->leaves));
    t->marked = calloc(n + 1, sizeof(*t->marked));
    t->is_marked = calloc(n + 1, sizeof(*t->is_marked));
    if (!t->leaves || !t->marked || !t->is_marked) {
        node_tree_free(t);
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        t->leaves[i].priority = scramble((uint32_t)i);
    return t;
}

void node_tree_free(struct node_tree *t)
{
    if (!t)
        return;
    free(t->leaves);
    free(t->marked);
    free(t->is_marked);
    free(t);
}

// --- the order ---

static bool before(const struct node_tree *t, int32_t a, int32_t b)
{
    int c = plan_key_compare(&t->leaves[a].key, &t->leaves[b].key);
    return c < 0 || (c == 0 && a < b);
}

static bool above(const struct node_tree *t, int32_t a, int32_t b)
{
    uint32_t x = t->leaves[a].priority, y = t->leaves[b].priority;
    return x > y || (x == y && a < b);
}

static void widen(struct plan_view *v, const struct plan_view *by)
{
    v->cpu = v->cpu > by->cpu ? v->cpu : by->cpu;
    v->memory = v->memory > by->memory ? v->memory : by->memory;
    v->gpus = v->gpus > by->gpus ? v->gpus : by->gpus;
    v->ports = v->ports > by->ports ? v->ports : by->ports;
    v->flags |= by->flags;
}

static void refresh(struct node_tree *t, int32_t i)
{
    struct leaf *x = &t->leaves[i];
    x->best = x->own;
    if (x->left != NONE)
        widen(&x->best, &t->leaves[x->left].best);
    if (x->right != NONE)
        widen(&x->best, &t->leaves[x->right].best);
}

// --- insert and remove ---

// Parts `from` into what comes before `at` and what comes after it.
static void split(struct node_tree *t, int32_t from, int32_t at, int32_t *ret_before,
                  int32_t *ret_after)
{
    if (from == NONE) {
        *ret_before = *ret_after = NONE;
        return;
    }
    struct leaf *x = &t->leaves[from];
    if (before(t, from, at)) {
        split(t, x->right, at, &x->right, ret_after);
        *ret_before = from;
    } else {
        split(t, x->left, at, ret_before, &x->left);
        *ret_after = from;
    }
    refresh(t, from);
}

static int32_t join(struct node_tree *t, int32_t a, int32_t b)
{
    if (a == NONE || b == NONE)
        return a == NONE ? b : a;
    int32_t top = above(t, a, b) ? a : b;
    if (top == a)
        t->leaves[a].right = join(t, t->leaves[a].right, b);
    else
        t->leaves[b].left = join(t, a, t->leaves[b].left);
    refresh(t, top);
    return top;
}

static int32_t insert(struct node_tree *t, int32_t top, int32_t i)
{
    if (top == NONE || above(t, i, top)) {
        split(t, top, i, &t->leaves[i].left, &t->leaves[i].right);
        refresh(t, i);
        return i;
    }
    struct leaf *x = &t->leaves[top];
    widen(&x->best, &t->leaves[i].own);
    if (before(t, i, top))
        x->left = insert(t, x->left, i);
    else
        x->right = insert(t, x->right, i);
    return top;
}

static bool same(const struct plan_view *a, const struct plan_view *b)
{
    return a->cpu == b->cpu && a->memory == b->memory && a->gpus == b->gpus &&
           a->ports == b->ports && a->flags == b->flags;
}

// *ret_changed: what the branch has at most may be another now. Most nodes are the best of nothing,
// so that this ends soon on the way up, and with it the looking at other branches.
static int32_t take_out(struct node_tree *t, int32_t top, int32_t i, bool *ret_changed)
{
    struct leaf *x = &t->leaves[top];
    if (top == i) {
        *ret_changed = true;
        return join(t, x->left, x->right);
    }
    if (before(t, i, top))
        x->left = take_out(t, x->left, i, ret_changed);
    else
        x->right = take_out(t, x->right, i, ret_changed);
    if (*ret_changed) {
        struct plan_view old = x->best;
        refresh(t, top);
        *ret_changed = !same(&old, &x->best);
    }
    return top;
}

void node_tree_set(struct node_tree *t, uint32_t node, struct plan_key key, struct plan_view view)
{
    int32_t i = (int32_t)node;
    bool changed = false;
    t->root = take_out(t, t->root, i, &changed);
    t->leaves[i].key = key;
    t->leaves[i].own = view;
    t->root = insert(t, t->root, i);
}

// --- all at once ---

static int compare_sorted(const void *a, const void *b, void *tree)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return x == y ? 0 : before(tree, x, y) ? -1 : 1;
}

// From nodes in order: each goes to the right end; the part of the right edge that it outranks
// becomes its left side. The stack holds the right edge.
static void grow(struct node_tree *t, const int32_t *sorted, int32_t *edge)
{
    size_t depth = 0;
    for (size_t k = 0; k < t->n; k++) {
        int32_t i = sorted[k], below = NONE;
        while (depth > 0 && above(t, i, edge[depth - 1])) {
            below = edge[--depth];
            refresh(t, below);
        }
        t->leaves[i].left = below;
        t->leaves[i].right = NONE;
        if (depth > 0)
            t->leaves[edge[depth - 1]].right = i;
        edge[depth++] = i;
    }
    t->root = depth > 0 ? edge[0] : NONE;
    while (depth > 0)
        refresh(t, edge[--depth]);
}

int node_tree_build(struct node_tree *t, const struct plan_key *keys, const struct plan_view *views)
{
    cleanup_free int32_t *sorted = calloc(t->n + 1, sizeof(*sorted));
    cleanup_free int32_t *edge = calloc(t->n + 1, sizeof(*edge));
    if (!sorted || !edge)
        return -ENOMEM;
    for (size_t i = 0; i < t->n; i++) {
        sorted[i] = (int32_t)i;
        t->leaves[i].key = keys[i];
        t->leaves[i].own = views[i];
    }
    qsort_r(sorted, t->n, sizeof(*sorted), compare_sorted, t);
    grow(t, sorted, edge);
    return 0;
}

// --- changes noted ---

void node_tree_mark(struct node_tree *t, uint32_t node)
{
    if (t->is_marked[node])
        return;
    t->is_marked[node] = true;
    t->marked[t->n_marked++] = node;
}

int64_t node_tree_next_dirty(struct node_tree *t)
{
    if (t->n_marked == 0)
        return -1;
    uint32_t node = t->marked[--t->n_marked];
    t->is_marked[node] = false;
    return node;
}

// --- search ---

static int32_t first(const struct node_tree *t, int32_t top, const struct plan_need *need,
                     const uint32_t *node_at, const struct plan_but *but)
{
    while (top != NONE && plan_fits(&t->leaves[top].best, need)) {
        const struct leaf *x = &t->leaves[top];
        int32_t found = first(t, x->left, need, node_at, but);
        if (found != NONE)
            return found;
        if (!plan_but_has(but, top) && plan_suits(&x->own, need) &&
            (!need->where || where_fits_now(need->where, node_at[top], need)))
            return top;
        top = x->right;
    }
    return NONE;
}

// Of those with this key the first that has the need's image. *left: nodes that may still be looked
// at.
static int32_t first_with(const struct node_tree *t, int32_t top, const struct plan_like *like,
                          int *left)
{
    while (top != NONE && *left > 0 && plan_fits(&t->leaves[top].best, like->need)) {
        const struct leaf *x = &t->leaves[top];
        int c = plan_key_compare(&x->key, like->key);
        if (c != 0) {
            top = c > 0 ? x->left : x->right;
            continue;
        }
        int32_t found = first_with(t, x->left, like, left);
        if (found != NONE || (*left)-- <= 0)
            return found;
        if (!plan_but_has(like->but, top) && plan_suits(&x->own, like->need) &&
            plan_has_image(like->x, like->x->node_at[top], like->need) &&
            (!like->need->where ||
             where_fits_now(like->need->where, like->x->node_at[top], like->need)))
            return top;
        top = x->right;
    }
    return NONE;
}

int64_t node_tree_first_with(const struct node_tree *t, const struct plan_like *like, int most)
{
    return first_with(t, t->root, like, &most);
}

int64_t node_tree_first(const struct node_tree *t, const struct plan_need *need,
                        const uint32_t *node_at, const struct plan_but *but)
{
    return first(t, t->root, need, node_at, but);
}
