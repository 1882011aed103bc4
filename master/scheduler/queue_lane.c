// SPDX-License-Identifier: Apache-2.0
// Lanes by shape: the shape is written out as bytes, equal bytes are the same lane.
#include "master/scheduler/queue_internal.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct bytes {
    struct plan_queue *q;
    size_t len;
    bool failed;
};

static void put(struct bytes *b, const void *data, size_t size)
{
    struct plan_queue *q = b->q;
    if (b->len + size > q->key_capacity) {
        size_t capacity = (b->len + size) * 2;
        char *key = realloc(q->key, capacity);
        if (!key) {
            b->failed = true;
            return;
        }
        q->key = key;
        q->key_capacity = capacity;
    }
    memcpy(q->key + b->len, data, size);
    b->len += size;
}

static void put_int(struct bytes *b, int64_t v)
{
    put(b, &v, sizeof(v));
}

static void put_text(struct bytes *b, const char *text)
{
    put(b, text ? text : "", strlen(text ? text : "") + 1);
}

static bool same_text(const char *a, const char *b)
{
    return a == b || strcmp(a ? a : "", b ? b : "") == 0;
}

static bool same_demand(const struct plan_demand *a, const struct plan_demand *b)
{
    return a->resources.cpu_milli == b->resources.cpu_milli &&
           a->resources.memory == b->resources.memory && a->resources.gpu == b->resources.gpu &&
           a->cpu_all == b->cpu_all && a->memory_all == b->memory_all && a->gpu_all == b->gpu_all &&
           a->runtimes == b->runtimes && a->ports == b->ports && same_text(a->avoid, b->avoid) &&
           same_text(a->where, b->where) && a->ruled == b->ruled && a->group == b->group &&
           a->exclusive == b->exclusive && a->gang == b->gang;
}

static void put_demand(struct bytes *b, const struct plan_demand *d)
{
    put_int(b, d->resources.cpu_milli);
    put_int(b, d->resources.memory);
    put_int(b, d->resources.gpu);
    put_int(b, d->cpu_all | d->memory_all << 1 | d->gpu_all << 2);
    put_int(b, d->runtimes);
    put_int(b, d->ports);
    put_text(b, d->avoid);
    put_text(b, d->where);
    put_int(b,
            d->ruled ? 1 + d->group + ((int64_t)d->exclusive << 16) + ((int64_t)d->gang << 17) : 0);
}

// Jobs with rules of which tasks run already are each their own: it matters where those are.
static void put_rules(struct bytes *b, const struct plan_rules *r, const char *id, bool started)
{
    put_text(b, r ? r->key : "");
    put_text(b, r && started ? id : "");
}

// Where the run of equal demands that begins at i ends.
static size_t group_end(const struct plan_shape *s, size_t i)
{
    size_t end = i + 1;
    while (end < s->n_demands && same_demand(&s->demands[i], &s->demands[end]))
        end++;
    return end;
}

static size_t write_key(struct bytes *b, const struct plan_shape *s, const struct plan_entry *e)
{
    size_t groups = 0;
    put_text(b, s->user);
    put_int(b, s->priority);
    put_int(b, s->alloc);
    put_int(b, s->metric);
    put_int(b, s->started);
    put_int(b, s->bound_ms);
    put_rules(b, e->rules, e->id, s->started);
    for (size_t i = 0, end; i < s->n_demands; i = end) {
        end = group_end(s, i);
        put_demand(b, &s->demands[i]);
        put_int(b, (int64_t)(end - i));
        groups++;
    }
    return groups;
}

static int copy_demands(struct plan_lane *lane, const struct plan_shape *s)
{
    for (size_t i = 0, end; i < s->n_demands; i = end) {
        struct demand_group *g = &lane->groups[lane->n_groups];
        end = group_end(s, i);
        *g = (struct demand_group){.demand = s->demands[i], .count = end - i};
        g->demand.image = NULL; // asked for at each try
        g->demand.avoid = g->demand.avoid ? strdup(g->demand.avoid) : NULL;
        g->demand.where = g->demand.where ? strdup(g->demand.where) : NULL;
        lane->n_groups++; // what it has is freed from here on
        if ((s->demands[i].avoid && !g->demand.avoid) || (s->demands[i].where && !g->demand.where))
            return -ENOMEM;
        g->need = plan_need_of(&g->demand);
        lane->all |= g->demand.cpu_all || g->demand.memory_all || g->demand.gpu_all;
        lane->n_tasks += g->count;
        lane->sum.cpu_milli += g->need.cpu * (int64_t)g->count;
        lane->sum.memory += g->need.memory * (int64_t)g->count;
        lane->sum.gpu += g->need.gpus * (int64_t)g->count;
    }
    return 0;
}

enum plan_wait lane_quota(const struct plan_queue *q, const struct plan_lane *lane)
{
    return user_quota(q, lane->seat->user, &lane->sum, lane->n_tasks, lane->shape.started);
}

static void release(struct plan_lane *lane)
{
    for (size_t i = 0; i < lane->n_groups; i++) {
        free((char *)(uintptr_t)lane->groups[i].demand.avoid);
        free((char *)(uintptr_t)lane->groups[i].demand.where);
    }
    free(lane->groups);
    free(lane->key);
    free(lane);
}

static struct plan_lane *lane_new(const struct plan_shape *shape, size_t groups, const void *key,
                                  size_t len)
{
    struct plan_lane *lane = calloc(1, sizeof(*lane));
    if (!lane)
        return NULL;
    lane->shape = *shape;
    lane->shape.demands = NULL;
    lane->groups = calloc(groups + 1, sizeof(*lane->groups));
    lane->key = malloc(len);
    if (!lane->groups || !lane->key || copy_demands(lane, shape) < 0) {
        release(lane);
        return NULL;
    }
    memcpy(lane->key, key, len);
    return lane;
}

// Whether tasks of other jobs must be beside it.
static bool follows(const struct plan_rules *r)
{
    for (size_t i = 0; r && i < r->n_ties; i++)
        if (!r->ties[i].apart && r->ties[i].with >= r->n_own)
            return true;
    return false;
}

struct plan_lane *lane_of(struct plan_queue *q, const struct plan_shape *shape,
                          const struct plan_entry *e)
{
    struct bytes b = {.q = q};
    struct plan_lane *lane = NULL;
    size_t groups = write_key(&b, shape, e);
    if (b.failed)
        return NULL;
    HASH_FIND(hh, q->lanes, q->key, b.len, lane);
    if (lane)
        return lane;
    lane = lane_new(shape, groups, q->key, b.len);
    if (!lane)
        return NULL;
    HASH_ADD_KEYPTR(hh, q->lanes, lane->key, b.len, lane);
    lane->follows = follows(e->rules);
    if (lane->follows)
        DL_APPEND2(q->followers, lane, follow_prev, follow_next);
    return lane;
}

void lane_free(struct plan_queue *q, struct plan_lane *lane)
{
    HASH_DEL(q->lanes, lane);
    if (lane->follows)
        DL_DELETE2(q->followers, lane, follow_prev, follow_next);
    release(lane);
}

bool entry_before(const struct plan_entry *a, const struct plan_entry *b)
{
    return a->order != b->order ? a->order < b->order : strcmp(a->id, b->id) < 0;
}
