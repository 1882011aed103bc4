// SPDX-License-Identifier: Apache-2.0
// Group commit. A mark arms an idle handle (so that the loop doesn't sleep) and a check handle
// (which runs after the sockets of this turn): there the turn's changes are collected into one
// batch, and both are stopped again, so an idle loop sleeps. While a batch is in flight marks only
// add up; the next collect comes in the turn in which it is done.
//
// Whoever waits is in one of two lists: `flying` (its changes are in the batch in flight) or `next`
// (they are not collected yet). Both are in order of registration, and so is their release. Waiting
// with a limit costs one timer for all.
#include "master/store/commit.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "master/store/batch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct waiter {
    void (*fn)(int result, void *userdata);
    void *userdata;
    uint64_t deadline; // loop time, 0 = none
    struct waiter *prev, *next;
};

struct flight {            // outlives a commit that is closed while its batch is with the store
    struct commit *commit; // NULL = closed
};

struct commit {
    struct store *store;
    void (*collect)(void *userdata);
    void *userdata;
    uv_idle_t idle;
    uv_check_t check;
    uv_timer_t timer;
    uint64_t timer_at; // 0 = not armed
    bool armed;
    bool dirty;
    bool collecting;
    bool broken;           // a change was lost for want of memory: nothing is acknowledged any more
    struct flight *flight; // NULL = no batch with the store
    struct store_batch batch;
    size_t capacity;
    struct waiter *flying, *next;
    int open_handles; // while closing
    bool closing;
    void (*closed)(void *userdata);
    void *closed_userdata;
};

static void on_check(uv_check_t *check);

// --- the end of the turn ---

static void on_idle(uv_idle_t *idle)
{
    (void)idle; // being active is all it is for
}

static void arm(struct commit *c)
{
    if (c->armed || c->closing)
        return;
    c->armed = true;
    (void)uv_idle_start(&c->idle, on_idle);
    (void)uv_check_start(&c->check, on_check);
}

static void disarm(struct commit *c)
{
    c->armed = false;
    (void)uv_idle_stop(&c->idle);
    (void)uv_check_stop(&c->check);
}

// Calls everybody in the list, which may grow other lists, mark, or close.
static void release(struct waiter *list, int result)
{
    while (list) {
        struct waiter *w = list;
        DL_DELETE(list, w);
        w->fn(result, w->userdata);
        free(w);
    }
}

static void batch_over(struct commit *c, int result)
{
    struct waiter *list = TAKE_PTR(c->flying);
    release(list, c->broken ? -ENOMEM : result);
    if ((c->dirty || c->next) && !c->flight)
        arm(c);
}

static void on_applied(int result, void *userdata)
{
    struct flight *f = userdata;
    struct commit *c = f->commit;
    free(f);
    if (!c)
        return;
    c->flight = NULL;
    if (result ==
        0) // else the store is being closed: whoever waits hears of it from commit_close()
        batch_over(c, 0);
}

static void send_batch(struct commit *c)
{
    struct flight *f = c->batch.count > 0 && !c->broken ? malloc(sizeof(*f)) : NULL;
    if (c->batch.count > 0 && !f)
        c->broken = true;
    if (!f) {
        store_batch_free(&c->batch);
        c->capacity = 0;
        batch_over(c, 0);
        return;
    }
    f->commit = c;
    c->flight = f;
    c->capacity = 0; // the store takes the array
    store_apply(c->store, &c->batch, on_applied, f);
}

static void run_collect(struct commit *c)
{
    c->dirty = false;
    DL_CONCAT(c->flying, c->next);
    c->next = NULL;
    c->collecting = true;
    c->collect(c->userdata);
    c->collecting = false;
    send_batch(c);
}

static void on_check(uv_check_t *check)
{
    struct commit *c = check->data;
    disarm(c);
    if (c->flight)
        return; // its end arms again
    if (c->dirty)
        run_collect(c);
    else
        release(TAKE_PTR(c->next), c->broken ? -ENOMEM : 0);
}

void commit_mark(struct commit *c)
{
    c->dirty = true;
    if (!c->flight)
        arm(c);
}

bool commit_pending(const struct commit *c)
{
    return c->dirty || c->flight;
}

// --- the batch ---

static void lose_memory(struct commit *c)
{
    if (!c->broken)
        log_error("store",
                  "out of memory: a change can't be written; nothing is acknowledged from here on");
    c->broken = true;
}

static void add_op(struct commit *c, struct store_op op, const char *key, bool wants_json)
{
    assert(c->collecting);
    if (c->batch.count == c->capacity) {
        size_t capacity = c->capacity ? c->capacity * 2 : 64;
        struct store_op *ops = realloc(c->batch.ops, capacity * sizeof(*ops));
        if (!ops) {
            free(op.json);
            lose_memory(c);
            return;
        }
        c->batch.ops = ops;
        c->capacity = capacity;
    }
    op.key = strdup(key);
    if (!op.key || (wants_json && !op.json)) {
        free(op.key);
        free(op.json);
        lose_memory(c);
        return;
    }
    c->batch.ops[c->batch.count++] = op;
}

void commit_put(struct commit *c, const char *key, char *json, int64_t ttl_ms)
{
    add_op(c, (struct store_op){.kind = STORE_SET, .json = json, .ttl_ms = ttl_ms}, key, true);
}

void commit_del(struct commit *c, const char *key)
{
    add_op(c, (struct store_op){.kind = STORE_DEL}, key, false);
}

void commit_append(struct commit *c, const char *stream, int64_t id, char *json, int64_t max_len)
{
    add_op(c, (struct store_op){.kind = STORE_APPEND, .json = json, .id = id, .max_len = max_len},
           stream, true);
}

// --- waiting ---

static void on_limit(uv_timer_t *timer);

static void watch_deadline(struct commit *c, uint64_t deadline)
{
    uint64_t now = uv_now(c->check.loop);
    if (!deadline || c->closing || (c->timer_at && c->timer_at <= deadline))
        return;
    c->timer_at = deadline;
    (void)uv_timer_start(&c->timer, on_limit, deadline > now ? deadline - now : 0, 0);
}

static void move(struct waiter *w, struct waiter **from, struct waiter **to)
{
    DL_DELETE(*from, w);
    DL_APPEND(*to, w);
}

// Moves those whose time is over to `late`; returns the earliest deadline of the others, 0 = none.
static uint64_t sort_out(struct waiter **list, uint64_t now, struct waiter **late)
{
    uint64_t earliest = 0;
    for (struct waiter *w = *list, *next; w; w = next) {
        next = w->next;
        if (w->deadline && w->deadline <= now)
            move(w, list, late);
        else if (w->deadline && (!earliest || w->deadline < earliest))
            earliest = w->deadline;
    }
    return earliest;
}

static void on_limit(uv_timer_t *timer)
{
    struct commit *c = timer->data;
    struct waiter *late = NULL;
    uint64_t now = uv_now(timer->loop);
    c->timer_at = 0;
    watch_deadline(c, sort_out(&c->flying, now, &late));
    watch_deadline(c, sort_out(&c->next, now, &late));
    release(late, -ETIMEDOUT);
}

int commit_then(struct commit *c, int64_t timeout_ms, void (*fn)(int result, void *userdata),
                void *userdata)
{
    if (c->closing)
        return -ECANCELED;
    if (c->broken)
        return -ENOMEM;
    struct waiter *w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    w->fn = fn;
    w->userdata = userdata;
    w->deadline = timeout_ms > 0 ? uv_now(c->check.loop) + (uint64_t)timeout_ms : 0;
    watch_deadline(c, w->deadline);
    if (!c->dirty && (c->flight || c->collecting)) {
        DL_APPEND(c->flying, w);
        return 0;
    }
    DL_APPEND(c->next, w);
    if (!c->flight)
        arm(c);
    return 0;
}

// --- life ---

struct commit *commit_new(uv_loop_t *loop, struct store *s, void (*collect)(void *userdata),
                          void *userdata)
{
    struct commit *c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->store = s;
    c->collect = collect;
    c->userdata = userdata;
    (void)uv_idle_init(loop, &c->idle); // none of these fails
    (void)uv_check_init(loop, &c->check);
    (void)uv_timer_init(loop, &c->timer);
    c->idle.data = c->check.data = c->timer.data = c;
    return c;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct commit *c = handle->data;
    if (--c->open_handles > 0)
        return;
    release(TAKE_PTR(c->flying), -ECANCELED);
    release(TAKE_PTR(c->next), -ECANCELED);
    store_batch_free(&c->batch);
    c->closed(c->closed_userdata);
    free(c);
}

void commit_close(struct commit *c, void (*closed)(void *userdata), void *userdata)
{
    assert(!c->closing && !c->collecting);
    c->closing = true;
    c->closed = closed;
    c->closed_userdata = userdata;
    if (c->flight)
        c->flight->commit = NULL;
    c->open_handles = 3;
    uv_close((uv_handle_t *)&c->idle, on_handle_closed);
    uv_close((uv_handle_t *)&c->check, on_handle_closed);
    uv_close((uv_handle_t *)&c->timer, on_handle_closed);
}
