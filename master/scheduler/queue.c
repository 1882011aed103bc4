// SPDX-License-Identifier: Apache-2.0
// The waiting jobs: lanes in heaps while they are due, in lists when they found no room. Binary
// heaps (Williams, "Algorithm 232: Heapsort", 1964), by the lane's oldest job.
#include "master/scheduler/queue_internal.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct plan_queue *plan_queue_new(void)
{
    return calloc(1, sizeof(struct plan_queue));
}

static void level_free(struct level *l)
{
    for (struct seat *s = l->seats, *next; s; s = next) {
        next = s->next;
        free(s->heap);
        free(s);
    }
    free(l->ready);
}

static void users_free(struct plan_user *users)
{
    struct plan_user *u, *next;
    HASH_ITER (hh, users, u, next) {
        HASH_DEL(users, u);
        free(u->name);
        free(u);
    }
}

void plan_queue_free(struct plan_queue *q)
{
    if (!q)
        return;
    struct plan_lane *lane, *next_lane;
    HASH_ITER (hh, q->lanes, lane, next_lane) {
        for (struct plan_entry *e = lane->first, *next; e; e = next) {
            next = e->next;
            *e = (struct plan_entry){0};
        }
        lane_free(q, lane);
    }
    users_free(q->users);
    users_free(q->teams);
    for (int i = 0; i <= PLAN_PRIORITY_MAX; i++)
        level_free(&q->levels[i]);
    free(q->tasks);
    free(q->key);
    free(q);
}

// --- a seat's heap ---

static bool lane_before(const struct plan_lane *a, const struct plan_lane *b)
{
    return entry_before(a->first, b->first);
}

static void heap_set(struct seat *s, size_t at, struct plan_lane *lane)
{
    s->heap[at] = lane;
    lane->heap_at = at;
}

static void heap_up(struct seat *s, size_t at)
{
    struct plan_lane *lane = s->heap[at];
    for (; at > 0 && lane_before(lane, s->heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap_set(s, at, s->heap[(at - 1) / 2]);
    heap_set(s, at, lane);
}

static void heap_down(struct seat *s, size_t at)
{
    struct plan_lane *lane = s->heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child + 1 < s->n_heap && lane_before(s->heap[child + 1], s->heap[child]))
            child++;
        if (child >= s->n_heap || !lane_before(s->heap[child], lane))
            break;
        heap_set(s, at, s->heap[child]);
        at = child;
    }
    heap_set(s, at, lane);
}

static void ready_add(struct seat *s)
{
    s->ready_at = s->level->n_ready;
    s->level->ready[s->level->n_ready++] = s;
}

static void ready_remove(struct seat *s)
{
    struct level *l = s->level;
    l->ready[s->ready_at] = l->ready[--l->n_ready];
    l->ready[s->ready_at]->ready_at = s->ready_at;
}

// There is room: see seat_reserve.
static void heap_add(struct plan_queue *q, struct plan_lane *lane)
{
    struct seat *s = lane->seat;
    if (s->n_heap == 0)
        ready_add(s);
    lane->wait = PLAN_WAIT_NEW;
    s->heap[s->n_heap] = lane;
    heap_up(s, s->n_heap++);
    q->n_due++;
}

static void heap_remove(struct plan_queue *q, struct plan_lane *lane)
{
    struct seat *s = lane->seat;
    size_t at = lane->heap_at;
    struct plan_lane *last = s->heap[--s->n_heap];
    q->n_due--;
    if (last != lane) {
        heap_set(s, at, last);
        heap_up(s, at);
        heap_down(s, last->heap_at);
    }
    if (s->n_heap == 0)
        ready_remove(s);
}

static void heap_moved(struct plan_lane *lane)
{
    if (lane->wait != PLAN_WAIT_NEW)
        return;
    heap_up(lane->seat, lane->heap_at);
    heap_down(lane->seat, lane->heap_at);
}

// --- seats ---

static struct seat *seat_of(struct level *l, struct plan_user *u)
{
    struct seat *s;
    LL_SEARCH_SCALAR2(u->seats, s, level, l, next_of_user);
    if (s)
        return s;
    if (l->n_seats == l->capacity) {
        size_t capacity = l->capacity ? l->capacity * 2 : 8;
        struct seat **ready = realloc(l->ready, capacity * sizeof(struct seat *));
        if (!ready)
            return NULL;
        l->ready = ready;
        l->capacity = capacity;
    }
    s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->user = u;
    s->level = l;
    l->n_seats++;
    LL_PREPEND(l->seats, s);
    LL_PREPEND2(u->seats, s, next_of_user);
    return s;
}

// Room for one more lane, in the heap, whether it is refused or due.
static int seat_reserve(struct seat *s)
{
    size_t n = s->n_heap + s->n_refused + 1;
    if (n <= s->capacity)
        return 0;
    struct plan_lane **heap = realloc(s->heap, 2 * n * sizeof(struct plan_lane *));
    if (!heap)
        return -ENOMEM;
    s->heap = heap;
    s->capacity = 2 * n;
    return 0;
}

static void refused_remove(struct plan_lane *lane)
{
    DL_DELETE2(lane->seat->refused, lane, ref_prev, ref_next);
    lane->seat->n_refused--;
}

// --- entries ---

static void insert(struct plan_lane *lane, struct plan_entry *e)
{
    struct plan_entry *after = lane->last;
    if (lane->first && entry_before(e, lane->first))
        after = NULL;
    while (after && entry_before(e, after))
        after = after->prev;
    e->prev = after;
    e->next = after ? after->next : lane->first;
    *(e->next ? &e->next->prev : &lane->last) = e;
    *(after ? &after->next : &lane->first) = e;
    e->lane = lane;
}

static struct seat *seat_for(struct plan_queue *q, const struct plan_shape *shape)
{
    int level = shape->priority < 0                   ? 0
                : shape->priority > PLAN_PRIORITY_MAX ? PLAN_PRIORITY_MAX
                                                      : shape->priority;
    struct plan_user *u = user_of(q, shape->user);
    struct seat *s = u ? seat_of(&q->levels[level], u) : NULL;
    return s && seat_reserve(s) == 0 ? s : NULL;
}

int plan_queue_add(struct plan_queue *q, struct plan_entry *e, const struct plan_shape *shape)
{
    struct seat *s = seat_for(q, shape);
    struct plan_lane *lane = s ? lane_of(q, shape, e) : NULL;
    if (!lane)
        return -ENOMEM;
    bool empty = !lane->first;
    insert(lane, e);
    reserve_added(q, e);
    q->length++;
    if (empty) {
        lane->seat = s;
        lane->shape.user = s->user->name;
        heap_add(q, lane);
    } else if (lane->first == e) {
        heap_moved(lane);
    }
    return 0;
}

void plan_queue_remove(struct plan_queue *q, struct plan_entry *e)
{
    struct plan_lane *lane = e->lane;
    if (!lane)
        return;
    reserve_left(q, e);
    reserve_gone(q, e, false);
    elder_left(q, e);
    bool was_first = lane->first == e;
    if (was_first && !e->next) {
        if (lane->wait == PLAN_WAIT_NEW)
            heap_remove(q, lane);
        else
            refused_remove(lane);
        lane_free(q, lane);
    } else {
        *(e->next ? &e->next->prev : &lane->last) = e->prev;
        *(e->prev ? &e->prev->next : &lane->first) = e->next;
        if (was_first)
            heap_moved(lane);
    }
    e->lane = NULL;
    e->prev = e->next = NULL;
    q->length--;
}

struct plan_standing plan_queue_standing(const struct plan_queue *q, const struct plan_entry *e)
{
    if (!e->lane)
        return (struct plan_standing){0};
    return (struct plan_standing){.head = q->head.entry == e,
                                  .watched = q->elder.entry == e,
                                  .priority = e->lane->shape.priority,
                                  .passed = q->elder.passed};
}

void plan_queue_stand(struct plan_queue *q, struct plan_entry *e, const struct plan_standing *s)
{
    if (!e->lane || e->lane->shape.priority != s->priority)
        return;
    if (s->head && !q->head.entry) {
        q->head.entry = e;
        q->head.due = true;
        q->head.lifted = false;
        q->head.mark = ++q->stamp; // where and when is found anew: it may need something else
    }
    if (s->watched && !q->elder.entry) {
        q->elder.entry = e;
        q->elder.priority = s->priority;
        q->elder.passed = s->passed;
    }
}

enum plan_wait plan_queue_wait(const struct plan_entry *e)
{
    return e->lane ? e->lane->wait : PLAN_WAIT_NEW;
}

size_t plan_queue_length(const struct plan_queue *q)
{
    return q->length;
}

bool plan_queue_due(const struct plan_queue *q)
{
    return q->n_due || (q->head.entry && q->head.due) || q->head.lifted;
}

void lane_refuse(struct plan_queue *q, struct plan_lane *lane, enum plan_wait why)
{
    heap_remove(q, lane);
    lane->wait = why;
    DL_APPEND2(lane->seat->refused, lane, ref_prev, ref_next);
    lane->seat->n_refused++;
}

void plan_queue_grew(struct plan_queue *q)
{
    q->refusals.n = q->impossible.n = 0;
    q->head.due = true;
    for (int i = 0; i <= PLAN_PRIORITY_MAX; i++)
        for (struct seat *s = q->levels[i].seats; s; s = s->next)
            while (s->refused) {
                struct plan_lane *lane = s->refused;
                refused_remove(lane);
                heap_add(q, lane);
            }
}

// Whether tasks of the job of this name must be beside those of the lane.
static bool names(const struct plan_lane *lane, const char *name)
{
    const struct plan_rules *r = lane->first->rules;
    for (size_t i = 0; i < r->n_ties; i++) {
        const struct plan_tie *t = &r->ties[i];
        if (t->apart || t->with < r->n_own)
            continue;
        const char *job = job_named(r->names[t->with]);
        if (strcmp(job ? job : r->names[t->with], name) == 0)
            return true;
    }
    return false;
}

void lanes_follow(struct plan_queue *q, const struct plan_user *user, const char *name)
{
    for (struct plan_lane *lane = name ? q->followers : NULL; lane; lane = lane->follow_next)
        if (lane->wait != PLAN_WAIT_NEW && lane->seat->user == user && names(lane, name)) {
            refused_remove(lane);
            heap_add(q, lane);
        }
}
