// SPDX-License-Identifier: Apache-2.0
// The queue between a driver and its listener: a list, woken by a uv_async_t in the next turn of
// the loop.
#include "node-agent/runtime/outbox.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <utlist.h>

enum item_kind {
    ITEM_ENGINE,
    ITEM_LISTED,
    ITEM_PHASE,
    ITEM_STARTED,
    ITEM_ENDED,
    ITEM_REMOVED,
    ITEM_IMAGES,
    ITEM_CALL
};

struct item {
    enum item_kind kind;
    struct attempt_status status; // id and reason serve the other kinds too
    bool ok;
    json_t *info;
    struct runtime_attempt *list;
    size_t n;
    void (*fn)(void *userdata);
    void *userdata;
    struct item *prev, *next;
};

struct outbox {
    uv_async_t wake;
    const struct runtime_options *options; // weak
    struct item *items;
    void (*closed)(void *userdata);
    void *closed_userdata;
};

static void item_free(struct item *i)
{
    json_decref(i->info);
    free(i->list);
    free(i);
}

static void tell(const struct runtime_options *o, const struct item *i)
{
    const struct runtime_events *ev = o->events;
    switch (i->kind) {
    case ITEM_ENGINE:
        ev->engine(i->ok, i->status.reason, i->info, o->userdata);
        break;
    case ITEM_LISTED:
        ev->listed(i->list, i->n, o->userdata);
        break;
    case ITEM_PHASE:
        ev->phase(i->status.id, i->status.reason, o->userdata);
        break;
    case ITEM_STARTED:
        ev->started(&i->status, o->userdata);
        break;
    case ITEM_ENDED:
        ev->ended(&i->status, o->userdata);
        break;
    case ITEM_REMOVED:
        ev->removed(i->status.id, o->userdata);
        break;
    case ITEM_IMAGES:
        ev->images(i->info, o->userdata);
        break;
    case ITEM_CALL:
        i->fn(i->userdata);
        break;
    }
}

static void on_wake(uv_async_t *wake)
{
    struct outbox *b = container_of(wake, struct outbox, wake);
    // Only what is there now: what the listener causes comes in the next turn. Closing empties
    // b->items.
    size_t n = 0;
    struct item *i;
    DL_COUNT(b->items, i, n);
    while (n-- > 0 && b->items) {
        i = b->items;
        DL_DELETE(b->items, i);
        tell(b->options, i);
        item_free(i);
    }
    if (b->items && !uv_is_closing((uv_handle_t *)wake))
        (void)uv_async_send(wake);
}

int outbox_new(const struct runtime_options *o, struct outbox **ret, struct err *e)
{
    struct outbox *b = calloc(1, sizeof(*b));
    if (!b)
        return err_set(e, -ENOMEM, "out of memory");
    int r = uv_async_init(o->loop, &b->wake, on_wake);
    if (r < 0) {
        free(b);
        return err_errno(e, r, "wake-up of the runtime");
    }
    b->options = o;
    *ret = b;
    return 0;
}

static void on_closed(uv_handle_t *h)
{
    struct outbox *b = container_of((uv_async_t *)h, struct outbox, wake);
    if (b->closed)
        b->closed(b->closed_userdata);
    free(b);
}

void outbox_close(struct outbox *b, void (*closed)(void *userdata), void *userdata)
{
    struct item *i, *next;
    DL_FOREACH_SAFE (b->items, i, next) {
        DL_DELETE(b->items, i);
        item_free(i);
    }
    b->closed = closed;
    b->closed_userdata = userdata;
    uv_close((uv_handle_t *)&b->wake, on_closed);
}

static struct item *push(struct outbox *b, enum item_kind kind)
{
    struct item *i = calloc(1, sizeof(*i));
    if (!i) {
        log_error("runtime",
                  "out of memory: an event of an attempt is lost until the next listing");
        return NULL;
    }
    i->kind = kind;
    DL_APPEND(b->items, i);
    (void)uv_async_send(&b->wake);
    return i;
}

static void push_text(struct outbox *b, enum item_kind kind, const char *id, const char *text)
{
    struct item *i = push(b, kind);
    if (!i)
        return;
    (void)snprintf(i->status.id, sizeof(i->status.id), "%s", id);
    (void)snprintf(i->status.reason, sizeof(i->status.reason), "%s", text);
}

static void push_status(struct outbox *b, enum item_kind kind, const struct attempt_status *status)
{
    struct item *i = push(b, kind);
    if (i)
        i->status = *status;
}

void outbox_engine(struct outbox *b, bool ok, const char *reason, json_t *info_stolen)
{
    struct item *i = push(b, ITEM_ENGINE);
    if (!i) {
        json_decref(info_stolen);
        return;
    }
    i->ok = ok;
    i->info = info_stolen;
    (void)snprintf(i->status.reason, sizeof(i->status.reason), "%s", reason ? reason : "");
}

void outbox_listed(struct outbox *b, struct runtime_attempt *items_stolen, size_t n)
{
    struct item *i = push(b, ITEM_LISTED);
    if (!i) {
        free(items_stolen);
        return;
    }
    i->list = items_stolen;
    i->n = n;
}

void outbox_phase(struct outbox *b, const char *id, const char *text)
{
    push_text(b, ITEM_PHASE, id, text);
}

void outbox_started(struct outbox *b, const struct attempt_status *status)
{
    push_status(b, ITEM_STARTED, status);
}

void outbox_ended(struct outbox *b, const struct attempt_status *status)
{
    push_status(b, ITEM_ENDED, status);
}

void outbox_removed(struct outbox *b, const char *id)
{
    push_text(b, ITEM_REMOVED, id, "");
}

void outbox_images(struct outbox *b, json_t *names_stolen)
{
    struct item *i = push(b, ITEM_IMAGES);
    if (i)
        i->info = names_stolen;
    else
        json_decref(names_stolen);
}

void outbox_call(struct outbox *b, void (*fn)(void *userdata), void *userdata)
{
    struct item *i = push(b, ITEM_CALL);
    if (!i)
        return;
    i->fn = fn;
    i->userdata = userdata;
}
