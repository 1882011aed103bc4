// SPDX-License-Identifier: Apache-2.0
// Sync and report of agents. A message is applied at once; what it changed is acknowledged when it
// is durable. A sync without news is held until the node's published assignment moves or the sync
// interval has passed.
#include "master/api/agents.h"
#include "master/api/echo.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "master/server_cert.h"
#include "proto/version.h"

#include <stdlib.h>
#include <string.h>

// Held syncs end in steps of this part of the interval, many in one turn of the loop: the HTTP
// server walks all held connections once for each turn in which it answers some.
#define HOLD_STEPS 40

struct held {
    struct http_request *req; // NULL once the client is gone
    struct api *api;
    struct node *node;
    char instance[INSTANCE_BYTES];
    struct sync_position applied;
    int64_t change;      // highest change number in the message
    bool told_inventory; // the message carried an inventory, or the node part: don't ask again at
                         // once
    bool told_node;
    bool report; // answered when durable, without an assignment
    bool timer_open;
    uv_timer_t timer;
    int uses; // pending commit callback, timer
};

static void held_unref(struct held *h)
{
    if (--h->uses == 0)
        free(h);
}

static void timer_closed(uv_handle_t *handle)
{
    held_unref(container_of((uv_timer_t *)handle, struct held, timer));
}

// No longer waits: whatever still refers to it finds req == NULL.
static void release(struct held *h)
{
    if (h->node->held == h->req)
        h->node->held = NULL;
    if (h->node->held_by == h)
        h->node->held_by = NULL;
    h->req = NULL;
    if (h->timer_open) {
        h->timer_open = false;
        uv_close((uv_handle_t *)&h->timer, timer_closed);
    }
}

static void on_gone(struct http_request *req, void *userdata)
{
    struct held *h = userdata;
    (void)req;
    if (!h->report && strcmp(h->node->instance, h->instance) == 0)
        cluster_node_disconnected(h->api->cluster, h->node);
    release(h);
}

static void send_answer(struct http_request *req, const struct sync_answer *a)
{
    cleanup_json json_t *j = sync_answer_to_json(a);
    cleanup_free char *text = json_text(j);
    if (text)
        http_respond(req, 200, "application/json", text, strlen(text));
    else
        http_respond(req, 503, "text/plain", "out of memory\n", 14);
}

static void respond(struct held *h)
{
    struct sync_answer a = {0};
    struct http_request *req = h->req;
    struct node *n = h->node;
    int r = n->gone ? 0 : cluster_node_answer(h->api->cluster, n, &h->applied, &a);
    http_request_on_gone(req, NULL, NULL);
    if (!h->report)
        n->answered_boot_ms = clock_boot_ms();
    struct call call = {.api = h->api, .req = req};
    release(h);
    if (n->gone) { // while its message was held, or by it
        agents_refuse_unknown(&call, n->id);
        return;
    }
    if (r < 0) {
        http_respond(req, 503, "text/plain", "out of memory\n", 14);
        return;
    }
    (void)snprintf(a.ca_sha256, sizeof(a.ca_sha256), "%s",
                   server_cert_bundle_sha256(h->api->settings.server_cert));
    a.protocol = MEADOW_PROTOCOL;
    a.commit = store_commit_number(h->api->store);
    a.acked = n->acked;
    if (h->report && a.has_assignment) { // the assignment travels with the sync alone, so that it
                                         // is applied in one order
        struct sync_answer bare = a;
        bare.has_assignment = false;
        bare.position = h->applied;
        bare.n_entries = bare.n_removed = 0;
        send_answer(req, &bare);
    } else {
        send_answer(req, &a);
    }
    sync_answer_reset(&a);
}

static bool has_news(const struct held *h)
{
    const struct node *n = h->node;
    if (!cluster_node_settled(n))
        return false; // the rest is on its way to the disk; agents_wake comes when it is there
    if (n->wants_inventory)
        return !h->told_inventory;
    if (!n->info_told && !h->told_node)
        return true;
    return h->applied.epoch != cluster_epoch(h->api->cluster) ||
           h->applied.generation != n->published_generation;
}

static void on_time(uv_timer_t *timer)
{
    struct held *h = container_of(timer, struct held, timer);
    if (h->req)
        respond(h);
}

// Answered at the latest when the hold time is over, whatever the store does meanwhile: an answer
// renews leases, and acknowledges only what is durable.
static void hold(struct held *h)
{
    if (h->timer_open)
        return;
    if (uv_timer_init(h->api->settings.loop, &h->timer) < 0) {
        respond(h);
        return;
    }
    h->timer_open = true;
    h->uses++;
    uint64_t interval = (uint64_t)cluster_node_interval(h->api->cluster, h->node);
    uint64_t until = uv_now(h->api->settings.loop) + interval;
    (void)uv_timer_start(&h->timer, on_time, interval - until % (interval / HOLD_STEPS), 0);
}

// Applied, and durable as far as there was something: answer, or wait for news.
static void settle(struct held *h, bool acknowledge)
{
    if (acknowledge || h->report || has_news(h)) {
        respond(h);
        return;
    }
    h->node->held_by = h;
    hold(h);
}

static void on_durable(int result, void *userdata)
{
    struct held *h = userdata;
    if (result == 0 && strcmp(h->node->instance, h->instance) == 0 && h->change > h->node->acked)
        h->node->acked = h->change;
    if (h->req)
        settle(h, true);
    held_unref(h);
}

void agents_wake(struct node *n)
{
    struct held *h = n->held_by;
    if (h && h->req && has_news(h))
        respond(h);
}

void agents_release(struct api *a)
{
    for (struct node *n = cluster_nodes(a->cluster); n; n = n->hh.next)
        if (n->held_by)
            respond(n->held_by);
}

// While the store is down the model stays as it is.
static int check_protocol(struct call *call, int64_t protocol, struct err *e)
{
    const char *reason;
    return store_ok(call->api->store, &reason)
               ? cluster_node_protocol(call->api->cluster, call->who.node, protocol, e)
               : protocol_check(protocol, "agent", e);
}

static int parse(struct call *call, struct sync_request *msg)
{
    struct err e = {""};
    cleanup_json json_t *j = api_body(call);
    if (!j)
        return -EPROTO;
    int r = check_protocol(call, json_opt_i64(j, "protocol", 0), &e);
    if (r < 0) {
        api_problem(call, 400, "%s", e.text);
        return r;
    }
    r = sync_request_from_json(j, msg, &e);
    if (r < 0)
        api_problem(call, 400, "not a sync message: %s", e.text);
    return r;
}

static struct held *held_new(struct call *call, const struct sync_request *msg, bool report)
{
    struct held *h = calloc(1, sizeof(*h));
    if (!h)
        return NULL;
    h->req = call->req;
    h->api = call->api;
    h->node = call->who.node;
    memcpy(h->instance, msg->instance, sizeof(h->instance));
    h->applied = msg->applied;
    h->told_inventory = msg->has_inventory;
    h->told_node = msg->node != NULL;
    h->report = report;
    for (size_t i = 0; i < msg->n_statuses; i++)
        if (msg->statuses[i].change > h->change)
            h->change = msg->statuses[i].change;
    return h;
}

// A newer sync of the same agent replaces one that is still held (its connection broke without a
// word).
static void replace_held(struct node *n)
{
    struct held *old = n->held_by;
    if (old && old->req)
        respond(old);
}

static void message(struct call *call, bool report)
{
    struct sync_request msg = {0};
    struct err e = {""};
    const char *reason;
    struct node *n = call->who.node;
    struct held *h = NULL;

    if (parse(call, &msg) < 0)
        return;
    if (!echo_admits(call->api, n, &msg, &e)) {
        api_problem(call, 503, "%s", e.text);
        goto out;
    }
    // While the store is down nothing is applied or acknowledged; the answer still renews leases.
    bool usable = store_ok(call->api->store, &reason);
    int r = usable ? cluster_node_message(call->api->cluster, n, &msg, &e) : 0;
    if (!usable)
        cluster_node_heard(n, msg.instance);
    if (r < 0) {
        json_t *extra = json_object();
        json_put_str(extra, "refused", e.text);
        api_problem_with(call,
                         r == -EBUSY || r == -ESTALE ? 409
                         : r == -ENOMEM              ? 503
                                                     : 400,
                         extra, "%s", e.text);
        goto out;
    }
    h = held_new(call, &msg, report);
    if (!h) {
        api_problem(call, 503, "out of memory");
        goto out;
    }
    if (!report) {
        replace_held(n);
        n->held = call->req;
    }
    h->uses = 1;
    http_request_on_gone(call->req, on_gone, h);
    bool carries = usable && (msg.n_statuses > 0 || msg.has_inventory);
    if (carries && commit_then(cluster_commit(call->api->cluster), 0, on_durable, h) == 0) {
        hold(h);
        goto out;
    }
    if (report && !usable)
        hold(h); // told again when there is an answer: not at once
    else
        settle(h, false);
    held_unref(h);
out:
    sync_request_reset(&msg);
}

void agents_sync(struct call *call)
{
    message(call, false);
}

void agents_report(struct call *call)
{
    message(call, true);
}
