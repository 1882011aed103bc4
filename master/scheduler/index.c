// SPDX-License-Identifier: Apache-2.0
// All nodes as the plan looks at them: a compact view of each, what is free in all, and an ordered
// tree for each way of placing that is used enough to pay for it. Both ways to pick a node, by tree
// and by looking at every one, give the same answer.
#include "master/scheduler/images.h"
#include "master/scheduler/kind.h"
#include "master/scheduler/node_tree.h"
#include "master/scheduler/where.h"

#include "common/cleanup.h"

#include <stdlib.h>
#include <string.h>

static void count(struct plan_index *x, size_t node, int sign)
{
    const struct plan_view *v = &x->views[node];
    kind_count(x, node, sign);
    x->sum_cpu += sign * (v->cpu > 0 ? v->cpu : 0);
    x->sum_memory += sign * (v->memory > 0 ? v->memory : 0);
    x->sum_gpus += sign * v->gpus;
}

static struct plan_view view_of(const struct plan_index *x, size_t node)
{
    struct plan_view v = plan_view_of(&x->nodes[node]);
    if (!x->closed[node])
        v.flags |= NODE_OPEN;
    v.flags |= kind_bit(x, node);
    return v;
}

int plan_index_new(struct plan_node *nodes, size_t n, struct plan_index **ret)
{
    struct plan_index *x = calloc(1, sizeof(*x));
    if (!x)
        return -ENOMEM;
    *x = (struct plan_index){.nodes = nodes, .n = n, .most_cpu = 1, .most_memory = 1};
    x->views = calloc(n + 1, sizeof(*x->views));
    x->job_tasks = calloc(n + 1, sizeof(*x->job_tasks));
    x->closed = calloc(n + 1, sizeof(*x->closed));
    if (!x->views || !x->job_tasks || !x->closed || kind_init(x) < 0) {
        plan_index_free(x);
        return -ENOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        const struct resources *total = &nodes[i].total;
        x->views[i] = view_of(x, i);
        x->total.cpu_milli += total->cpu_milli;
        x->total.memory += total->memory;
        x->total.gpu += total->gpu;
        count(x, i, 1);
        x->most_cpu = total->cpu_milli > x->most_cpu ? total->cpu_milli : x->most_cpu;
        x->most_memory = total->memory > x->most_memory ? total->memory : x->most_memory;
    }
    *ret = x;
    return 0;
}

void plan_index_free(struct plan_index *x)
{
    if (!x)
        return;
    for (size_t i = 0; i < x->n_live; i++)
        node_tree_free(x->live[i]);
    free(x->views);
    where_free_all(x);
    free(x->job_tasks);
    free(x->closed);
    free(x->kind_of);
    free(x->rank_of);
    free(x->node_at);
    free(x->order);
    free(x->cursors);
    free(x);
}

static bool has_more(const struct plan_view *now, const struct plan_view *before)
{
    return now->cpu > before->cpu || now->memory > before->memory || now->gpus > before->gpus ||
           now->ports > before->ports || (now->flags & ~before->flags);
}

bool plan_index_touch(struct plan_index *x, size_t node)
{
    struct plan_view before = x->views[node];
    count(x, node, -1);
    x->views[node] = view_of(x, node);
    count(x, node, 1);
    for (size_t i = 0; i < x->n_live; i++)
        node_tree_mark(x->live[i], x->rank_of[node]);
    return has_more(&x->views[node], &before);
}

bool plan_index_relabel(struct plan_index *x, size_t node)
{
    kind_relabel(x, node);
    bool more = where_relabel(x, node);
    return plan_index_touch(x, node) || more;
}

int plan_need_on(struct plan_index *x, const struct plan_demand *d, struct plan_need *ret)
{
    *ret = plan_need_of(d);
    ret->image = d->image;
    return d->where ? where_of(x, d->where, &ret->where) : 0;
}

bool plan_fits_on(const struct plan_index *x, size_t node, const struct plan_need *need)
{
    return plan_fits(&x->views[node], need) && plan_within_most(&x->views[node], need) &&
           where_fits(need->where, node, need, x->nodes[node].gpus_free);
}

bool plan_index_close(struct plan_index *x, size_t node, bool closed)
{
    if (x->closed[node] == closed)
        return false;
    x->closed[node] = closed;
    return plan_index_touch(x, node);
}

// --- trees ---

// best-fit knows no metric: one tree does for all.
static struct node_tree **slot(struct plan_index *x, enum alloc_mode mode, enum alloc_metric m)
{
    return &x->trees[mode][mode == ALLOC_BEST_FIT ? 0 : m];
}

static int compare_names(const void *a, const void *b, void *nodes)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const struct plan_node *n = nodes;
    int c = strcmp(n[x].name, n[y].name);
    return c ? c : x < y ? -1 : x > y;
}

static int rank(struct plan_index *x)
{
    if (x->rank_of)
        return 0;
    cleanup_free uint32_t *rank_of = calloc(x->n + 1, sizeof(*rank_of));
    cleanup_free uint32_t *node_at = calloc(x->n + 1, sizeof(*node_at));
    if (!rank_of || !node_at)
        return -ENOMEM;
    for (size_t i = 0; i < x->n; i++)
        node_at[i] = (uint32_t)i;
    qsort_r(node_at, x->n, sizeof(*node_at), compare_names, x->nodes);
    for (size_t i = 0; i < x->n; i++)
        rank_of[node_at[i]] = (uint32_t)i;
    x->rank_of = TAKE_PTR(rank_of);
    x->node_at = TAKE_PTR(node_at);
    return 0;
}

static int fill(const struct plan_index *x, struct node_tree *t, enum alloc_mode mode,
                enum alloc_metric m)
{
    cleanup_free struct plan_key *keys = calloc(x->n + 1, sizeof(*keys));
    cleanup_free struct plan_view *views = calloc(x->n + 1, sizeof(*views));
    if (!keys || !views)
        return -ENOMEM;
    for (size_t i = 0; i < x->n; i++) {
        keys[i] = place_key(x, mode, m, x->node_at[i]);
        views[i] = x->views[x->node_at[i]];
    }
    return node_tree_build(t, keys, views);
}

int plan_index_prepare(struct plan_index *x, enum alloc_mode mode, enum alloc_metric m)
{
    if (*slot(x, mode, m))
        return 0;
    int r = rank(x);
    if (r < 0)
        return r;
    struct node_tree *t = node_tree_new(x->n);
    if (!t || fill(x, t, mode, m) < 0) {
        node_tree_free(t);
        return -ENOMEM;
    }
    *slot(x, mode, m) = t;
    x->live[x->n_live++] = t;
    return 0;
}

static struct plan_but but_ranks(const struct plan_index *x, const struct plan_but *but)
{
    struct plan_but ranks = {.n = but->n};
    for (int i = 0; i < but->n; i++)
        ranks.at[i] = x->rank_of[but->at[i]];
    return ranks;
}

// --- picking ---

bool plan_has_image(const struct plan_index *x, size_t node, const struct plan_need *need)
{
    return plan_image_on(need->image, x->nodes[node].holder);
}

bool plan_prefers(const struct plan_index *x, const struct plan_need *need,
                  const struct plan_key *a, size_t node, const struct plan_key *b, size_t than)
{
    int c = plan_key_compare(a, b);
    if (c != 0)
        return c < 0;
    bool has = plan_has_image(x, node, need);
    if (has != plan_has_image(x, than, need))
        return has;
    return strcmp(x->nodes[node].name, x->nodes[than].name) < 0;
}

// Nodes that are asked for an image, at most: a tie is not worth more.
#define IMAGE_LOOKS 256

// Another node than `at`, which has not the image: as good, and has it; else -1. Asked are those
// that have it, when they are few, else the first that are as good.
static int64_t one_with_image(struct plan_index *x, enum alloc_mode mode, enum alloc_metric m,
                              const struct plan_need *need, const struct plan_but *but, size_t at)
{
    const struct plan_image *image = need->image;
    struct plan_key key = place_key(x, mode, m, at);
    int64_t best = -1;
    for (size_t i = 0; i < image->n && image->n <= IMAGE_LOOKS; i++) {
        size_t node = image->holders[i]->slot;
        if (node >= x->n || x->nodes[node].holder != image->holders[i] ||
            !plan_suits(&x->views[node], need) || plan_but_has(but, (int64_t)node) ||
            !where_fits(need->where, node, need, x->nodes[node].gpus_free))
            continue;
        struct plan_key its = place_key(x, mode, m, node);
        if (plan_key_compare(&its, &key) == 0 &&
            (best < 0 || strcmp(x->nodes[node].name, x->nodes[best].name) < 0))
            best = (int64_t)node;
    }
    if (image->n <= IMAGE_LOOKS)
        return best;
    struct plan_but ranks = but_ranks(x, but);
    int64_t rank = node_tree_first_with(*slot(x, mode, m),
                                        &(struct plan_like){x, need, &ranks, &key}, IMAGE_LOOKS);
    return rank < 0 ? -1 : (int64_t)x->node_at[rank];
}

static int64_t pick_by_tree(struct plan_index *x, enum alloc_mode mode, enum alloc_metric m,
                            const struct plan_need *need, const struct plan_but *but)
{
    struct node_tree *t = *slot(x, mode, m);
    struct plan_but ranks = but_ranks(x, but);
    int64_t rank;
    while ((rank = node_tree_next_dirty(t)) >= 0) {
        uint32_t node = x->node_at[rank];
        node_tree_set(t, (uint32_t)rank, place_key(x, mode, m, node), x->views[node]);
    }
    rank = node_tree_first(t, need, x->node_at, &ranks);
    if (rank < 0)
        return -1;
    size_t at = x->node_at[rank];
    int64_t other = need->image && !plan_has_image(x, at, need)
                        ? one_with_image(x, mode, m, need, but, at)
                        : -1;
    return other < 0 ? (int64_t)at : other;
}

static int64_t pick_by_look(const struct plan_index *x, enum alloc_mode mode, enum alloc_metric m,
                            const struct plan_need *need, const struct plan_but *but)
{
    int64_t best = -1;
    struct plan_key best_key = {0};
    for (size_t i = 0; i < x->n; i++) {
        if (!plan_fits_on(x, i, need) || !plan_suits(&x->views[i], need) ||
            plan_but_has(but, (int64_t)i))
            continue;
        struct plan_key key = place_key(x, mode, m, i);
        if (best < 0 || plan_prefers(x, need, &key, i, &best_key, (size_t)best)) {
            best = (int64_t)i;
            best_key = key;
        }
    }
    return best;
}

// `len` bytes of `name` against the whole of `of`, as strcmp.
static int compare_name(const char *of, const char *name, size_t len)
{
    int c = strncmp(of, name, len);
    return c ? c : of[len] != '\0';
}

static int64_t node_named(const struct plan_index *x, const char *name, size_t len)
{
    if (!x->node_at) {
        for (size_t i = 0; i < x->n; i++)
            if (compare_name(x->nodes[i].name, name, len) == 0)
                return (int64_t)i;
        return -1;
    }
    size_t low = 0, high = x->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (compare_name(x->nodes[x->node_at[mid]].name, name, len) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    bool found = low < x->n && compare_name(x->nodes[x->node_at[low]].name, name, len) == 0;
    return found ? (int64_t)x->node_at[low] : -1;
}

struct plan_but plan_avoided(const struct plan_index *x, const char *avoid)
{
    struct plan_but but = {.n = 0};
    for (int i = 0; avoid && *avoid && i < PLAN_AVOID_MAX; i++) {
        size_t len = strcspn(avoid, "\n");
        int64_t node = node_named(x, avoid, len);
        if (node >= 0)
            but.at[but.n++] = node;
        avoid += len + (avoid[len] == '\n');
    }
    return but;
}

static int64_t pick_one(struct plan_index *x, enum alloc_mode mode, enum alloc_metric m,
                        const struct plan_need *need, const struct plan_but *but)
{
    return *slot(x, mode, m) ? pick_by_tree(x, mode, m, need, but)
                             : pick_by_look(x, mode, m, need, but);
}

// best-fit, with cards: from the kind that has most left.
static int64_t pick_even(struct plan_index *x, enum alloc_metric m, const struct plan_need *need,
                         const struct plan_but *but)
{
    struct plan_need of_kind = *need;
    uint32_t left = need->kinds ? need->kinds : KIND_ALL;
    int64_t at = -1;
    while (at < 0 && (of_kind.kinds = kind_next(x, &left)) != 0)
        at = pick_one(x, ALLOC_BEST_FIT, m, &of_kind, but);
    return at;
}

static int64_t pick(struct plan_index *x, enum alloc_mode mode, enum alloc_metric m,
                    const struct plan_need *need, const struct plan_but *but)
{
    struct plan_need as = *need;
    as.kinds = need->where ? need->where->kinds : 0;
    if (mode != ALLOC_BEST_FIT || need->gpus == 0)
        return pick_one(x, mode, m, &as, but);
    as.spares = true;
    int64_t at = pick_even(x, m, &as, but);
    as.spares = false;
    return at < 0 ? pick_even(x, m, &as, but) : at;
}

int plan_index_pick(struct plan_index *x, enum alloc_mode mode, enum alloc_metric m,
                    const struct plan_need *need, const char *avoid)
{
    struct plan_but but = plan_avoided(x, avoid), none = {.n = 0};
    int64_t at = pick(x, mode, m, need, &but);
    return (int)(at < 0 && but.n ? pick(x, mode, m, need, &none) : at);
}

// --- keys ---

int64_t plan_metric_free(const struct plan_view *v, enum alloc_metric metric)
{
    switch (metric) {
    case METRIC_MEMORY:
        return v->memory;
    case METRIC_GPU:
        return v->gpus;
    default:
        return v->cpu;
    }
}

enum alloc_mode plan_mode_of(const struct plan_job *job, const struct plan_need *need)
{
    bool nothing = need->cpu == 0 && need->memory == 0 && need->gpus == 0 &&
                   !(need->whole & (WHOLE_CPU | WHOLE_MEMORY | WHOLE_GPU));
    return job->alloc == ALLOC_BEST_FIT && nothing ? ALLOC_SPREAD : job->alloc;
}

struct plan_key place_key(const struct plan_index *x, enum alloc_mode mode, enum alloc_metric m,
                          size_t node)
{
    switch (mode) {
    case ALLOC_BALANCED:
        return place_balanced_key(x, node, m);
    case ALLOC_COMPACTED:
        return place_compacted_key(x, node, m);
    case ALLOC_SPREAD:
        return place_spread_key(x, node, m);
    default:
        return place_best_fit_key(x, node, m);
    }
}
