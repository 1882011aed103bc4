// SPDX-License-Identifier: Apache-2.0
// The head of the queue and its reservation: when and where it will start, found by giving back, on
// a copy, what running work holds in the order of its ends. Its nodes are closed for later work.
#include "master/scheduler/queue_internal.h"
#include "master/scheduler/trial.h"
#include "master/scheduler/where.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// Where no limits tell when the head can start, or nodes came and went, it is not asked again
// sooner.
#define AGAIN_MS 1000

static bool open_nodes(struct plan_index *x)
{
    bool more = false;
    for (size_t i = 0; i < x->n; i++)
        more |= plan_index_close(x, i, false);
    return more;
}

static void open_all(struct plan_queue *q, struct plan_index *x)
{
    (void)open_nodes(x);
    q->head.mark = x->mark = 0;
}

void reserve_left(struct plan_queue *q, const struct plan_entry *e)
{
    if (q->head.entry != e)
        return;
    q->head.entry = NULL;
    q->head.lifted = true;
}

struct plan_head plan_queue_head(const struct plan_queue *q)
{
    const struct reservation *r = &q->head;
    return (struct plan_head){r->entry ? r->entry->id : NULL, r->since_ms, r->start_ms, r->strict,
                              r->priority};
}

void plan_queue_shaken(struct plan_queue *q, bool now)
{
    struct reservation *r = &q->head;
    if (!r->entry)
        return;
    r->shaken = r->due = true;
    if (now)
        r->mark = ++q->stamp;
}

bool reserve_binds(const struct plan_queue *q, const struct plan_shape *shape)
{
    const struct reservation *r = &q->head;
    if (!r->entry || shape->priority > r->priority)
        return false;
    bool ends_before = shape->bound_ms > 0 && r->start_ms != PLAN_NEVER &&
                       shape->bound_ms <= r->start_ms - q->now_ms;
    return r->strict || !ends_before;
}

// --- when ---

static int by_end(const void *a, const void *b)
{
    const struct plan_running *x = *(const struct plan_running *const *)a;
    const struct plan_running *y = *(const struct plan_running *const *)b;
    return x->end_ms < y->end_ms ? -1 : x->end_ms > y->end_ms;
}

struct ends {
    const struct plan_running **list; // by end; of unknown end last
    size_t n, n_known;
};

static int ends_of(const struct plan_queue_run *run, struct ends *ret)
{
    const struct plan_running *all = NULL;
    size_t n = 0;
    int r = run->running ? run->running(&all, &n, run->userdata) : 0;
    *ret = (struct ends){.list = r == 0 ? calloc(n + 1, sizeof(*ret->list)) : NULL, .n = n};
    if (!ret->list)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        ret->list[i] = &all[i];
    qsort(ret->list, n, sizeof(*ret->list), by_end);
    while (ret->n_known < n && ret->list[ret->n_known]->end_ms != PLAN_NEVER)
        ret->n_known++;
    return 0;
}

// Whether the job fits once the first `ended` have ended; then on which nodes (t->job).
static int fits_after(struct trial *t, const struct plan_index *x, const struct plan_job *job,
                      const struct ends *ends, size_t ended)
{
    struct plan_refusals refusals = {0};
    int r = trial_copy(t, x->nodes, x->n, job);
    if (r < 0)
        return r;
    for (size_t i = 0; i < ended; i++)
        trial_give(t, ends->list[i]);
    r = plan_try(t->index, &refusals, &t->job);
    return r < 0 ? r : t->job.placed;
}

static int fits_after_only(const struct plan_index *x, const struct plan_job *job,
                           const struct ends *ends, size_t ended)
{
    struct trial t = {0};
    int r = fits_after(&t, x, job, ends, ended);
    trial_free(&t);
    return r;
}

// How many must end, of those whose end is known; n_known + 1 = more than those.
static int find_ended(const struct plan_index *x, const struct plan_job *job,
                      const struct ends *ends, size_t *ret)
{
    size_t low = 0, high = ends->n_known + 1; // it does not fit after low
    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;
        int r = fits_after_only(x, job, ends, mid);
        if (r < 0)
            return r;
        *(r ? &high : &low) = mid;
    }
    while (high > 0 && high < ends->n_known && // whoever ends at the same time, in whatever order
           ends->list[high]->end_ms == ends->list[high - 1]->end_ms)
        high++;
    *ret = high;
    return 0;
}

int reserve_when(const struct plan_index *x, const struct plan_queue_run *run,
                 const struct plan_job *job, int64_t *ret_ms)
{
    struct ends ends = {0};
    size_t ended = 0;
    int r = ends_of(run, &ends);
    if (r == 0)
        r = find_ended(x, job, &ends, &ended);
    if (r == 0 && ended > 0 && ended <= ends.n_known)
        *ret_ms = ends.list[ended - 1]->end_ms;
    free(ends.list);
    return r;
}

// --- where ---

// What a node must have for a task of this group: with it, all that must be on the same one.
static struct plan_need serving(const struct plan_lane *lane, size_t g)
{
    const struct plan_rules *rules = lane->first->rules;
    const struct plan_demand *d = &lane->groups[g].demand;
    struct plan_need need = lane->groups[g].need;
    bool all = rules && rules->gang == GANG_SAME_NODE;
    if (!all && d->gang != GANG_SAME_NODE)
        return need;
    need.cpu = need.memory = need.gpus = 0;
    for (size_t i = 0; i < lane->n_groups; i++) {
        const struct demand_group *other = &lane->groups[i];
        if (!all && other->demand.group != d->group)
            continue;
        need.cpu += other->need.cpu * (int64_t)other->count;
        need.memory += other->need.memory * (int64_t)other->count;
        need.gpus += other->need.gpus * (int)other->count;
    }
    return need;
}

// All that could serve one of the job's tasks, were they empty and there. Like the next one,
// whether a node is open now that was not.
static bool close_eligible(struct plan_index *x, const struct plan_lane *lane)
{
    bool more = false;
    for (size_t i = 0; i < x->n; i++) {
        struct plan_node empty = x->nodes[i];
        bool serves = false;
        empty.free = empty.total;
        empty.exclusive = empty.tasks = 0;
        empty.ineligible = NULL; // it may be back when nobody looks
        empty.gpus_free = UINT64_MAX;
        struct plan_view v = plan_view_of(&empty);
        v.ports = PLAN_MAX_PORTS;
        for (size_t g = 0; g < lane->n_groups && !serves; g++) {
            struct plan_need need = serving(lane, g);
            plan_need_limit(&need, &lane->most);
            serves = plan_fits(&v, &need) && plan_within_most(&v, &need) &&
                     where_fits(need.where, i, &need, UINT64_MAX);
        }
        more |= plan_index_close(x, i, serves);
    }
    return more;
}

// -ENOMEM.
static int close_planned(struct plan_index *x, const struct plan_job *job, const struct ends *ends,
                         size_t ended)
{
    struct trial t = {0};
    int r = fits_after(&t, x, job, ends, ended);
    bool more = r >= 0 && open_nodes(x);
    for (size_t i = 0; r > 0 && i < job->n_tasks; i++)
        (void)plan_index_close(x, (size_t)t.job.tasks[i].node, true);
    trial_free(&t);
    return r < 0 ? r : more;
}

struct found {
    bool possible; // an empty cluster would have it
    bool more;     // later work may start where or when it could not before
};

static int take_place(struct plan_queue *q, struct plan_index *x, const struct plan_lane *lane,
                      const struct plan_job *job, const struct ends *ends, struct found *ret)
{
    size_t ended = 0;
    int64_t before = q->head.start_ms;
    int r = find_ended(x, job, ends, &ended);
    if (r < 0)
        return r;
    bool known = ended > 0 && ended <= ends->n_known;
    q->head.start_ms = known ? ends->list[ended - 1]->end_ms : PLAN_NEVER;
    q->head.made_ms = q->now_ms;
    q->head.shaken = false;
    q->head.mark = x->mark = ++q->stamp;
    r = q->head.strict ? close_eligible(x, lane)
        : known        ? close_planned(x, job, ends, ended)
                       : open_nodes(x);
    ret->more = r > 0 || q->head.start_ms > before;
    return r < 0 ? r : 0;
}

// Finds time and place anew.
static int find_place(struct plan_queue *q, struct plan_index *x, const struct plan_queue_run *run,
                      struct plan_lane *lane, struct found *ret)
{
    struct ends ends = {0};
    struct trial t = {0};
    *ret = (struct found){0};
    int r = lane_nodes(x, lane);
    struct plan_job job = {0};
    if (r == 0)
        r = entry_job(q, lane->first, run, &job);
    if (r == 0)
        r = ends_of(run, &ends);
    if (r == 0)
        r = fits_after(&t, x, &job, &ends, ends.n);
    ret->possible = r > 0;
    if (r > 0)
        q->head.takes = plan_granted(&t.job);
    trial_free(&t);
    if (r > 0)
        r = take_place(q, x, lane, &job, &ends, ret);
    free(ends.list);
    return r;
}

// The same for one that was the head already: it is not given up for nodes that may be back soon.
static int stay(struct plan_queue *q, struct plan_index *x, const struct plan_queue_run *run,
                struct plan_lane *lane, struct found *ret)
{
    int r = find_place(q, x, run, lane, ret);
    q->head.awaits = r == 0 && !ret->possible && q->awaited;
    if (!q->head.awaits)
        return r;
    q->head.start_ms = PLAN_NEVER;
    q->head.made_ms = q->now_ms;
    q->head.mark = x->mark = ++q->stamp;
    *ret = (struct found){.possible = true, .more = close_eligible(x, lane)};
    return 0;
}

bool plan_queue_await(struct plan_queue *q, bool awaited)
{
    bool again = q->head.entry && q->head.awaits;
    q->awaited = awaited;
    if (again && !awaited)
        plan_queue_grew(q);
    else if (again)
        q->head.due = true;
    return again;
}

// What ends now for its sake tells where and when it starts.
static int make_room(struct plan_queue *q, struct plan_index *x, const struct plan_queue_run *run,
                     struct plan_lane *lane, struct found *found)
{
    bool more = found->more;
    int r = preempt_for(q, x, run, lane);
    if (r <= 0)
        return r;
    r = find_place(q, x, run, lane, found);
    found->more |= more;
    return r;
}

// --- the head ---

static void become_head(struct plan_queue *q, struct plan_entry *e)
{
    struct reservation *r = &q->head;
    assert(e);
    bool again = strcmp(r->id, e->id) == 0 && r->since_ms > 0;
    r->entry = e;
    r->priority = e->lane->shape.priority;
    r->takes = e->lane->sum;
    r->since_ms = again ? r->since_ms : q->now_ms;
    r->overdue = false;
    r->strict = q->now_ms - r->since_ms >= q->policy.hold_after_ms;
    r->lifted = r->due = r->awaits = false;
    size_t len = strnlen(e->id, sizeof(r->id) - 1);
    memcpy(r->id, e->id, len);
    r->id[len] = '\0';
}

static bool known_impossible(const struct plan_queue *q, const struct plan_lane *lane)
{
    for (size_t g = 0; g < lane->n_groups; g++)
        if (plan_was_refused(&q->impossible, &lane->groups[g].need))
            return true;
    return false;
}

int reserve_refused(struct plan_queue *q, struct plan_index *x, const struct plan_queue_run *run,
                    struct plan_lane *lane)
{
    struct reservation *head = &q->head, before = *head;
    struct found found;
    if (!q->policy.backfill || (head->entry && lane->shape.priority <= head->priority) ||
        known_impossible(q, lane) || lane_quota(q, lane))
        return 0;
    become_head(q, lane->first);
    int r = find_place(q, x, run, lane, &found);
    if (r == 0 && found.possible)
        r = make_room(q, x, run, lane, &found);
    if (r < 0)
        return r;
    if (!found.possible) {
        *head = before;
        for (size_t g = 0; g < lane->n_groups && lane->n_tasks == 1 && !lane->all; g++)
            q->impossible.needs[q->impossible.n++ % PLAN_REFUSALS_MAX] = lane->groups[g].need;
        return 0;
    }
    if (before.entry) {
        plan_queue_grew(q); // other nodes are open now
        head->due = false;
    }
    return 0;
}

int reserve_overdue(struct plan_queue *q, struct plan_index *x, const struct plan_queue_run *run,
                    struct plan_entry *e)
{
    struct reservation *head = &q->head, before = *head;
    struct found found;
    if ((before.entry == e && before.overdue) ||
        (before.entry && before.priority > e->lane->shape.priority))
        return 0;
    become_head(q, e);
    head->overdue = head->strict = true;
    int r = find_place(q, x, run, e->lane, &found);
    if (r == 0 && !found.possible) {
        *head = before;
        e->lane->impossible = true;
        return 0;
    }
    if (r == 0)
        r = make_room(q, x, run, e->lane, &found);
    plan_queue_grew(q); // other nodes are open, or closed, now
    return r;
}

void reserve_check(struct plan_queue *q, struct plan_index *x)
{
    const struct plan_lane *lane = q->head.entry ? q->head.entry->lane : NULL;
    if (lane && user_quota(q, lane->seat->user, &q->head.takes, lane->n_tasks, lane->shape.started))
        reserve_left(q, q->head.entry); // it could not start: nothing is kept for it
    if (!q->head.entry && q->head.lifted) {
        open_all(q, x);
        plan_queue_grew(q);
    }
    q->head.lifted = false;
}

// --- the head of before ---

void plan_queue_restore_head(struct plan_queue *q, const struct plan_sticky *head, int64_t now_ms)
{
    (void)snprintf(q->kept_id, sizeof(q->kept_id), "%s", head->id);
    q->kept_since_ms = head->since_ms;
    q->kept_overdue = head->overdue;
    q->kept_until_ms = now_ms + q->policy.hold_after_ms;
    q->awaited = true;
}

struct plan_sticky plan_queue_sticky(const struct plan_queue *q)
{
    if (q->head.entry)
        return (struct plan_sticky){q->head.entry->id, q->head.since_ms, q->head.overdue};
    return (struct plan_sticky){q->kept ? q->kept->id : NULL, q->kept_since_ms, q->kept_overdue};
}

void reserve_added(struct plan_queue *q, struct plan_entry *e)
{
    if (q->kept_id[0] && strcmp(q->kept_id, e->id) == 0)
        q->kept = e;
}

void reserve_gone(struct plan_queue *q, const struct plan_entry *e, bool started)
{
    if (q->kept != e)
        return;
    q->kept = NULL;
    if (started)
        q->kept_id[0] = '\0';
}

static void forget_kept(struct plan_queue *q)
{
    q->kept = NULL;
    q->kept_id[0] = '\0';
}

// Makes the head of before the head again, if it may. -ENOMEM.
static int keep_on(struct plan_queue *q, struct plan_index *x, const struct plan_queue_run *run)
{
    struct reservation *head = &q->head, before = *head;
    struct plan_entry *e = q->kept;
    struct found found;
    if (!e || !q->policy.backfill)
        return 0;
    const struct plan_lane *lane = e->lane;
    if (head->entry == e || q->now_ms > q->kept_until_ms ||
        (head->entry && head->priority > lane->shape.priority)) {
        forget_kept(q);
        return 0;
    }
    if (lane_quota(q, lane))
        return 0;
    become_head(q, e);
    head->since_ms = q->kept_since_ms;
    head->overdue = q->kept_overdue;
    head->strict = head->overdue || q->now_ms - head->since_ms >= q->policy.hold_after_ms;
    int r = stay(q, x, run, e->lane, &found);
    if (r == 0)
        forget_kept(q); // nobody is awaited any more, or it is the head
    if (r < 0 || !found.possible) {
        *head = before;
        return r;
    }
    head->due = true;
    if (before.entry)
        plan_queue_grew(q);
    return 0;
}

int reserve_begin(struct plan_queue *q, struct plan_index *x, const struct plan_queue_run *run)
{
    struct reservation *r = &q->head;
    struct found found;
    reserve_check(q, x);
    int kept = keep_on(q, x, run);
    if (kept < 0 || !r->entry)
        return kept;
    bool strict = r->overdue || q->now_ms - r->since_ms >= q->policy.hold_after_ms;
    bool passed = r->start_ms != PLAN_NEVER && r->start_ms <= q->now_ms;
    bool ask = (r->start_ms == PLAN_NEVER || r->shaken) && q->now_ms - r->made_ms >= AGAIN_MS;
    bool told = r->awaits && !q->awaited; // they do not come
    if (r->mark == x->mark && strict == r->strict && !passed && !ask && !told)
        return 0;
    r->strict = strict;
    int ret = stay(q, x, run, r->entry->lane, &found);
    if (ret < 0)
        return ret;
    if (!found.possible) {
        reserve_left(q, r->entry);
        reserve_check(q, x);
        return 0;
    }
    ret = make_room(q, x, run, r->entry->lane, &found);
    if (found.more)
        plan_queue_grew(q);
    return ret;
}
