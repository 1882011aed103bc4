// SPDX-License-Identifier: Apache-2.0
// Users and teams of the queue: what they hold, may hold, and had lately; and so who comes next.
#include "master/scheduler/queue_internal.h"

#include <stdlib.h>
#include <string.h>

static struct plan_user *account_of(struct plan_user **map, const char *name)
{
    struct plan_user *u = NULL;
    HASH_FIND_STR(*map, name, u);
    if (u)
        return u;
    u = calloc(1, sizeof(*u));
    if (u)
        u->name = strdup(name);
    if (!u || !u->name) {
        free(u);
        return NULL;
    }
    u->weight = 1;
    u->quota = PLAN_NO_QUOTA;
    HASH_ADD_KEYPTR(hh, *map, u->name, strlen(u->name), u);
    return u;
}

struct plan_user *user_of(struct plan_queue *q, const char *name)
{
    return account_of(&q->users, name);
}

void user_advance(struct plan_queue *q, struct plan_user *u, int64_t now_ms)
{
    if (q->policy.half_life_ms > 0 && now_ms > 0)
        share_advance(&u->usage, &u->held, &q->total, now_ms, q->policy.half_life_ms);
}

// --- what they hold ---

static void hold(struct plan_queue *q, struct plan_user *u, const struct resources *r, int sign,
                 int64_t jobs, int64_t tasks, int64_t now_ms)
{
    user_advance(q, u, now_ms);
    u->held.cpu_milli += sign * r->cpu_milli;
    u->held.memory += sign * r->memory;
    u->held.gpu += sign * r->gpu;
    u->jobs += jobs;
    u->tasks += tasks;
}

static bool limited(const struct plan_user *u)
{
    return u->quota.cpu >= 0 || u->quota.memory >= 0 || u->quota.gpu >= 0 || u->quota.jobs >= 0 ||
           u->quota.tasks >= 0;
}

int plan_queue_hold(struct plan_queue *q, const char *user, const struct resources *r, int sign,
                    int jobs, int64_t now_ms)
{
    struct plan_user *u = user_of(q, user);
    if (!u)
        return -ENOMEM;
    hold(q, u, r, sign, jobs, sign, now_ms);
    if (!u->changed) {
        u->changed = true;
        u->changed_next = q->changed;
        q->changed = u;
    }
    if (u->team)
        hold(q, u->team, r, sign, jobs, sign, now_ms);
    q->jobs += jobs;
    if (sign < 0 &&
        ((jobs && q->policy.max_jobs > 0) || limited(u) || (u->team && limited(u->team))))
        plan_queue_grew(q);
    return 0;
}

const char *plan_queue_next_changed(struct plan_queue *q)
{
    for (struct plan_user *u = q->changed; u; u = q->changed) {
        q->changed = u->changed_next;
        u->changed = false;
        if (!u->forgotten)
            return u->name;
    }
    return NULL;
}

// Both must be accounted until now.
static void add_usage(struct plan_user *to, const struct plan_user *u, int sign)
{
    for (int i = 0; i < SHARE_KINDS; i++) {
        int64_t sum = to->usage.used[i] + sign * u->usage.used[i];
        to->usage.used[i] = sum < 0 ? 0 : sum < SHARE_USED_MAX ? sum : SHARE_USED_MAX;
    }
    to->usage.at_ms = u->usage.at_ms > to->usage.at_ms ? u->usage.at_ms : to->usage.at_ms;
}

// What the user holds and had goes along.
static void move_to_team(struct plan_queue *q, struct plan_user *u, struct plan_user *team)
{
    struct plan_user *both[2] = {u->team, team};
    if (u->team == team)
        return;
    user_advance(q, u, q->now_ms);
    for (int i = 0; i < 2; i++) {
        if (!both[i])
            continue;
        int sign = i ? 1 : -1;
        hold(q, both[i], &u->held, sign, sign * u->jobs, sign * u->tasks, q->now_ms);
        add_usage(both[i], u, sign);
    }
    u->team = team;
}

int plan_queue_set_user(struct plan_queue *q, const char *user, const struct plan_account *a)
{
    struct plan_user *u = user_of(q, user);
    struct plan_user *team = a->team && u ? account_of(&q->teams, a->team) : NULL;
    if (!u || (a->team && !team))
        return -ENOMEM;
    move_to_team(q, u, team);
    u->forgotten = false;
    u->weight = a->weight > 0 ? a->weight : 1;
    u->quota = a->quota;
    plan_queue_grew(q);
    return 0;
}

int plan_queue_set_team(struct plan_queue *q, const char *team, int64_t weight,
                        const struct plan_quota *quota)
{
    struct plan_user *t = account_of(&q->teams, team);
    if (!t)
        return -ENOMEM;
    t->weight = weight > 0 ? weight : 1;
    t->quota = *quota;
    plan_queue_grew(q);
    return 0;
}

static void tell(struct plan_queue *q, struct plan_user *u, int64_t now_ms,
                 struct plan_user_state *ret)
{
    *ret = (struct plan_user_state){0};
    if (!u)
        return;
    user_advance(q, u, now_ms);
    ret->held = u->held;
    ret->jobs = u->jobs;
    ret->tasks = u->tasks;
    ret->usage = u->usage;
    if (q->policy.half_life_ms > 0)
        ret->rank = share_rank(&u->usage, &u->held, &q->total, q->policy.half_life_ms);
}

void plan_queue_user(struct plan_queue *q, const char *user, int64_t now_ms,
                     struct plan_user_state *ret)
{
    struct plan_user *u = NULL;
    HASH_FIND_STR(q->users, user, u);
    tell(q, u, now_ms, ret);
}

void plan_queue_team(struct plan_queue *q, const char *team, int64_t now_ms,
                     struct plan_user_state *ret)
{
    struct plan_user *t = NULL;
    HASH_FIND_STR(q->teams, team, t);
    tell(q, t, now_ms, ret);
}

int plan_queue_load_usage(struct plan_queue *q, const char *user, const struct share_usage *usage)
{
    struct plan_user *u = user_of(q, user);
    if (!u)
        return -ENOMEM;
    u->usage = *usage;
    q->loaded = true;
    return 0;
}

void teams_settle(struct plan_queue *q)
{
    if (!q->loaded)
        return;
    q->loaded = false;
    for (struct plan_user *t = q->teams; t; t = t->hh.next)
        t->usage = (struct share_usage){.at_ms = q->now_ms};
    for (struct plan_user *u = q->users; u; u = u->hh.next) {
        user_advance(q, u, q->now_ms);
        if (u->team)
            add_usage(u->team, u, 1);
    }
}

void plan_queue_forget(struct plan_queue *q, const char *user)
{
    struct plan_user *u = NULL;
    HASH_FIND_STR(q->users, user, u);
    if (!u)
        return;
    u->usage = (struct share_usage){.at_ms = u->usage.at_ms};
    u->forgotten = true;
}

void plan_queue_set_policy(struct plan_queue *q, const struct plan_policy *p)
{
    q->policy = *p;
    plan_queue_grew(q);
}

// --- quotas ---

static bool within(int64_t limit, int64_t held, int64_t more)
{
    return limit < 0 || more == 0 || (held <= limit && more <= limit - held);
}

static bool account_within(const struct plan_user *u, const struct resources *r, int64_t tasks,
                           bool started)
{
    return within(u->quota.cpu, u->held.cpu_milli, r->cpu_milli) &&
           within(u->quota.memory, u->held.memory, r->memory) &&
           within(u->quota.gpu, u->held.gpu, r->gpu) && within(u->quota.jobs, u->jobs, !started) &&
           within(u->quota.tasks, u->tasks, tasks);
}

enum plan_wait user_quota(const struct plan_queue *q, const struct plan_user *u,
                          const struct resources *r, size_t tasks, bool started)
{
    if (q->policy.max_jobs > 0 && !started && q->jobs >= q->policy.max_jobs)
        return PLAN_WAIT_LEVEL;
    if (!account_within(u, r, (int64_t)tasks, started))
        return PLAN_WAIT_QUOTA;
    return u->team && !account_within(u->team, r, (int64_t)tasks, started) ? PLAN_WAIT_TEAM
                                                                           : PLAN_WAIT_NEW;
}

static int64_t left(int64_t limit, int64_t held, int64_t more)
{
    return limit < 0 ? INT64_MAX : limit - held - more;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

struct resources user_leaves(const struct plan_user *u, const struct resources *r)
{
    struct resources most = {INT64_MAX, INT64_MAX, INT64_MAX};
    for (; u; u = u->team) { // a team has none
        most.cpu_milli =
            smaller(most.cpu_milli, left(u->quota.cpu, u->held.cpu_milli, r->cpu_milli));
        most.memory = smaller(most.memory, left(u->quota.memory, u->held.memory, r->memory));
        most.gpu = smaller(most.gpu, left(u->quota.gpu, u->held.gpu, r->gpu));
    }
    return most;
}

// --- who comes first ---

static bool seat_older(const struct seat *a, const struct seat *b)
{
    return entry_before(a->heap[0]->first, b->heap[0]->first);
}

// < 0: a has the smaller share of what it should have.
static int compare_share(struct plan_queue *q, struct plan_user *a, struct plan_user *b)
{
    int64_t half_life = q->policy.half_life_ms;
    if (half_life <= 0 || a == b)
        return 0;
    user_advance(q, a, q->now_ms);
    user_advance(q, b, q->now_ms);
    __int128 x = (__int128)share_rank(&a->usage, &a->held, &q->total, half_life) * b->weight;
    __int128 y = (__int128)share_rank(&b->usage, &b->held, &q->total, half_life) * a->weight;
    return x < y ? -1 : x > y;
}

static bool seat_better(struct plan_queue *q, struct plan_user *a, const struct seat *x,
                        struct plan_user *b, const struct seat *y)
{
    int c = compare_share(q, a, b);
    return c ? c < 0 : seat_older(x, y);
}

static struct plan_user *top_of(struct plan_user *u)
{
    return u->team ? u->team : u;
}

struct seat *seat_first(struct plan_queue *q, struct level *l)
{
    struct plan_user *tops = NULL, *first = NULL;
    q->stamp++;
    for (size_t i = 0; i < l->n_ready; i++) { // the first seat of each team, or user without
        struct seat *s = l->ready[i];
        struct plan_user *top = top_of(s->user);
        if (top->stamp != q->stamp) {
            top->stamp = q->stamp;
            top->best = s;
            top->next = tops;
            tops = top;
        } else if (seat_better(q, s->user, s, top->best->user, top->best)) {
            top->best = s;
        }
    }
    for (struct plan_user *top = tops; top; top = top->next)
        if (!first || seat_better(q, top, top->best, first, first->best))
            first = top;
    return first ? first->best : NULL;
}

int user_compare(struct plan_queue *q, struct plan_user *a, struct plan_user *b)
{
    int c = compare_share(q, top_of(a), top_of(b));
    return c ? c : compare_share(q, a, b);
}

bool plan_queue_before(struct plan_queue *q, const struct plan_entry *a, const struct plan_entry *b)
{
    struct plan_lane *x = a->lane, *y = b->lane;
    if (!x || !y)
        return false;
    if (x->shape.priority != y->shape.priority)
        return x->shape.priority > y->shape.priority;
    if (q->head.entry == a || q->head.entry == b)
        return q->head.entry == a;
    int c = user_compare(q, x->seat->user, y->seat->user);
    return c ? c < 0 : entry_before(a, b);
}
