// SPDX-License-Identifier: Apache-2.0
// State table of the connection to the master. Rows are states, columns events; an empty cell
// ignores the event (a late answer, say).
#include "node-agent/link.h"

#include "common/backoff.h"
#include "common/log.h"

#include <stdio.h>
#include <stdlib.h>

struct link {
    struct link_options options;
    enum link_state state;
    bool online;
    struct backoff backoff;
    uv_timer_t timer;
    char reason[sizeof(struct err)];
};

// Each step does its work and returns the next state.
typedef enum link_state (*link_step)(struct link *l, const char *why);

const char *link_state_to_string(enum link_state s)
{
    static const char *const names[LINK_STATE_MAX] = {"idle",    "joining", "syncing",
                                                      "backoff", "removed", "closed"};
    return (unsigned)s < LINK_STATE_MAX ? names[s] : "invalid";
}

static void set_online(struct link *l, bool online)
{
    if (l->online == online)
        return;
    l->online = online;
    l->options.ops->online(online, l->options.userdata);
}

static void timer_cb(uv_timer_t *timer)
{
    link_event(timer->data, LINK_TIMER, NULL);
}

// --- steps ---------------------------------------------------------------------------------------

// The state must be right before the work starts: it may fail at once and come back as an event.
static enum link_state begin(struct link *l, const char *why)
{
    (void)why;
    if (l->options.ops->joined(l->options.userdata)) {
        l->state = LINK_SYNCING;
        l->options.ops->sync(l->options.userdata);
    } else {
        l->state = LINK_JOINING;
        l->options.ops->join(l->options.userdata);
    }
    return l->state;
}

static enum link_state answered(struct link *l, const char *why)
{
    unsigned failures = backoff_reset(&l->backoff);

    if (failures > 0)
        log_info("link", "the master answers again after %u failed tries", failures);
    else if (!l->online)
        log_info("link", "connected to the master");
    l->reason[0] = '\0';
    set_online(l, true);
    return begin(l, why);
}

static enum link_state wait_for(struct link *l, uint64_t delay_ms, const char *why)
{
    (void)snprintf(l->reason, sizeof(l->reason), "%s", why ? why : "");
    if (l->backoff.failures == 1)
        log_warn("link", "no answer from the master: %s; trying again", l->reason);
    else
        log_debug("link", "no answer from the master: %s", l->reason);
    (void)uv_timer_start(&l->timer, timer_cb, delay_ms, 0);
    l->state = LINK_BACKOFF;
    set_online(l, false);
    return LINK_BACKOFF;
}

static enum link_state failed(struct link *l, const char *why)
{
    return wait_for(l, backoff_fail(&l->backoff), why);
}

static enum link_state refused(struct link *l, const char *why)
{
    (void)backoff_fail(&l->backoff);
    return wait_for(l, l->backoff.max_ms, why);
}

static enum link_state gone(struct link *l, const char *why)
{
    (void)snprintf(l->reason, sizeof(l->reason), "%s", why ? why : "");
    (void)uv_timer_stop(&l->timer);
    l->state = LINK_REMOVED;
    set_online(l, false);
    return LINK_REMOVED;
}

static enum link_state closed(struct link *l, const char *why)
{
    (void)why;
    (void)uv_timer_stop(&l->timer);
    return LINK_CLOSED;
}

static const link_step table[LINK_STATE_MAX][LINK_EVENT_MAX] = {
    [LINK_IDLE] = {[LINK_START] = begin, [LINK_GONE] = gone, [LINK_CLOSE] = closed},
    [LINK_JOINING] = {[LINK_JOINED] = begin,
                      [LINK_FAILED] = failed,
                      [LINK_REFUSED] = refused,
                      [LINK_CLOSE] = closed},
    [LINK_SYNCING] = {[LINK_ANSWERED] = answered,
                      [LINK_FAILED] = failed,
                      [LINK_REFUSED] = refused,
                      [LINK_GONE] = gone,
                      [LINK_CLOSE] = closed},
    [LINK_REMOVED] = {[LINK_CLOSE] = closed},
    [LINK_BACKOFF] = {[LINK_TIMER] = begin, [LINK_CLOSE] = closed},
};

// --- public --------------------------------------------------------------------------------------

int link_new(const struct link_options *options, struct link **ret)
{
    struct link *l = calloc(1, sizeof(*l));

    if (!l)
        return -ENOMEM;
    l->options = *options;
    backoff_init(&l->backoff, options->min_ms ? options->min_ms : 250,
                 options->max_ms ? options->max_ms : 5000);
    (void)uv_timer_init(options->loop, &l->timer);
    l->timer.data = l;
    *ret = l;
    return 0;
}

void link_event(struct link *l, enum link_event event, const char *why)
{
    link_step step = table[l->state][event];

    if (step)
        l->state = step(l, why);
}

enum link_state link_state(const struct link *l)
{
    return l->state;
}

bool link_online(const struct link *l)
{
    return l->online;
}

const char *link_reason(const struct link *l)
{
    return l->reason;
}

static void handle_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void link_close(struct link *l)
{
    if (!l)
        return;
    link_event(l, LINK_CLOSE, NULL);
    uv_close((uv_handle_t *)&l->timer, handle_closed);
}
