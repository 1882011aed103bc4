// SPDX-License-Identifier: Apache-2.0
// GETs that wait (?wait=): held until something durable makes them answerable, their time is over,
// or the client is gone. No polling: each published event gives them a look.
#include "common/cleanup.h"
#include "master/api/api.h"

#include <stdlib.h>
#include <utlist.h>

struct waiter {
    struct call call;
    bool (*ready)(struct call *call, void *ctx, bool last);
    void *ctx;
    uv_timer_t timer;
    struct cluster_watch watch;
    struct waiter *prev, *next;
    bool done;
};

struct waiters {
    struct waiter *all;
};

static void on_closed(uv_handle_t *handle)
{
    struct waiter *w = container_of((uv_timer_t *)handle, struct waiter, timer);
    free(w->ctx);
    free(w);
}

static void finish(struct waiter *w)
{
    w->done = true;
    cluster_watch_remove(w->call.api->cluster, &w->watch);
    DL_DELETE(w->call.api->waiters->all, w);
    uv_close((uv_handle_t *)&w->timer, on_closed);
}

static void look(struct waiter *w, bool last)
{
    if (w->done)
        return;
    http_request_on_gone(w->call.req, NULL, NULL);
    if (w->ready(&w->call, w->ctx, last))
        finish(w);
}

static void on_gone(struct http_request *req, void *userdata)
{
    struct waiter *w = userdata;
    (void)req;
    if (!w->done)
        finish(w);
}

static void on_event(const struct event *ev, void *userdata)
{
    struct waiter *w = userdata;
    (void)ev;
    look(w, false);
    if (!w->done)
        http_request_on_gone(w->call.req, on_gone, w);
}

static void on_time(uv_timer_t *timer)
{
    look(container_of(timer, struct waiter, timer), true);
}

void api_hold(struct call *call, int64_t wait_ms,
              bool (*ready)(struct call *call, void *ctx, bool last), void *ctx)
{
    struct api *a = call->api;
    struct waiter *w = calloc(1, sizeof(*w));
    if (!a->waiters)
        a->waiters = calloc(1, sizeof(*a->waiters));
    if (!w || !a->waiters || uv_timer_init(a->settings.loop, &w->timer) < 0) {
        free(w);
        (void)ready(call, ctx, true);
        free(ctx);
        return;
    }
    w->call = *call;
    w->ready = ready;
    w->ctx = ctx;
    w->watch = (struct cluster_watch){.event = on_event, .userdata = w};
    cluster_watch_add(a->cluster, &w->watch);
    DL_APPEND(a->waiters->all, w);
    http_request_on_gone(call->req, on_gone, w);
    (void)uv_timer_start(&w->timer, on_time, (uint64_t)(wait_ms > 0 ? wait_ms : 0), 0);
}

void held_recheck(struct api *a)
{
    struct waiter *w, *next;
    if (!a->waiters)
        return;
    DL_FOREACH_SAFE (a->waiters->all, w, next) {
        if (api_still_valid(a, &w->call.who))
            continue;
        http_request_on_gone(w->call.req, NULL, NULL);
        api_problem(&w->call, 401, "the token has been taken away");
        finish(w);
    }
}

void api_release_held(struct api *a)
{
    while (a->waiters && a->waiters->all)
        look(a->waiters->all, true);
    free(a->waiters);
    a->waiters = NULL;
}
