// SPDX-License-Identifier: Apache-2.0
// Events: what happened, numbered without gaps. An event is made with the change it tells of, rides
// in the same batch to the store's stream, and is shown to watchers only when that batch is
// durable. The newest are kept in memory.
#include "common/clock.h"
#include "common/json.h"
#include "common/limits.h"
#include "common/log.h"
#include "master/cluster/cluster_internal.h"

#include <stdlib.h>
#include <string.h>

#define STREAM_MAX 100000

static struct event **slot(struct cluster *c, int64_t id)
{
    return &c->events[id % CLUSTER_EVENTS_KEPT];
}

static char *append(char **at, const char *text)
{
    char *start = *at;
    size_t n = strlen(text) + 1;
    memcpy(start, text, n);
    *at += n;
    return start;
}

enum { TEXT_TYPE, TEXT_OBJECT, TEXT_NODE, TEXT_JOB, TEXT_TASK, TEXT_REASON, TEXT_USER, TEXTS };

static struct event *event_new(int64_t id, int64_t time_ms, const char *const texts[TEXTS])
{
    size_t size = sizeof(struct event);
    for (size_t i = 0; i < TEXTS; i++)
        size += strlen(texts[i]) + 1;
    struct event *ev = malloc(size);
    if (!ev)
        return NULL;
    char *at = (char *)(ev + 1);
    ev->id = id;
    ev->time_ms = time_ms;
    ev->type = append(&at, texts[TEXT_TYPE]);
    ev->object = append(&at, texts[TEXT_OBJECT]);
    ev->node = append(&at, texts[TEXT_NODE]);
    ev->job = append(&at, texts[TEXT_JOB]);
    ev->task = append(&at, texts[TEXT_TASK]);
    ev->reason = append(&at, texts[TEXT_REASON]);
    ev->user = append(&at, texts[TEXT_USER]);
    return ev;
}

// The newest take the places of the oldest. What is dropped here before its batch was collected is
// missing from the stream too; a single turn would have to make more than CLUSTER_EVENTS_KEPT
// events for that.
static void keep(struct cluster *c, struct event *ev)
{
    while (ev->id - c->first_event >= CLUSTER_EVENTS_KEPT) {
        free(*slot(c, c->first_event));
        *slot(c, c->first_event) = NULL;
        c->first_event++;
    }
    free(*slot(c, ev->id)); // there is none but in a stream that was written by hand
    *slot(c, ev->id) = ev;
}

static void make(struct cluster *c, const char *const texts[TEXTS])
{
    struct event *ev = event_new(c->last_event + 1, clock_real_ms(), texts);
    if (!ev)
        return; // the change itself is still recorded; only its line in the list is missing
    c->last_event++;
    keep(c, ev);
    mark(c);
}

static void tell_left_out(struct cluster *c, const char *type, const char *node, const char *reason)
{
    const char *texts[TEXTS] = {type, "node", node, "", "", reason, ""};
    make(c, texts);
    log_warn("events", "node %s: %s", node, reason);
}

// Whether the event goes into the list: what a node causes is bounded, so that one that floods does
// not push everybody's events out of it.
static bool within_limit(struct cluster *c, const struct event_fields *f, const char *node)
{
    char reason[160];
    uint64_t before = 0;
    bool by_node = f->task || strcmp(f->type, "node.agent_restarted") == 0;
    if (!node[0] || !by_node || !c->event_limit)
        return true;
    enum event_verdict v = event_limit_take(c->event_limit, node, clock_boot_ms(), &before);
    if (v == EVENT_LAST) {
        (void)snprintf(
            reason, sizeof(reason),
            "more than %d events a second: events of this node's tasks are left out from "
            "here on",
            LIMIT_NODE_EVENTS_PER_S);
        tell_left_out(c, "node.events_suppressed", node, reason);
    } else if (before > 0) {
        (void)snprintf(reason, sizeof(reason), "%llu events were left out",
                       (unsigned long long)before);
        tell_left_out(c, "node.events_resumed", node, reason);
    }
    return v == EVENT_GOES;
}

void event_emit(struct cluster *c, const struct event_fields *f)
{
    char task[256] = "";
    const struct job *job = f->task ? f->task->job : f->job;
    const char *node = f->node ? f->node->name : f->task ? f->task->node_name : "";
    if (!c->commit || !within_limit(c, f, node)) // loading, or a flood
        return;
    if (f->task)
        task_name(f->task, task, sizeof(task));
    const char *texts[TEXTS] = {f->type,
                                f->object,
                                node,
                                job ? job->id : "",
                                task,
                                f->reason ? f->reason : "",
                                f->user ? f->user
                                : job   ? job->user
                                        : ""};
    make(c, texts);
}

void cluster_event(struct cluster *c, const char *type, const char *reason, const char *user)
{
    event_emit(c, &(struct event_fields){
                      .type = type, .object = "cluster", .reason = reason, .user = user});
}

void cluster_load_event(struct cluster *c, int64_t id, const char *json, size_t len)
{
    struct err e;
    json_t *j = NULL;
    if (json_parse(json, len, &j, &e) < 0)
        return;
    const char *texts[TEXTS] = {json_opt_str(j, "type", ""), json_opt_str(j, "object", ""),
                                json_opt_str(j, "node", ""), json_opt_str(j, "job", ""),
                                json_opt_str(j, "task", ""), json_opt_str(j, "reason", ""),
                                json_opt_str(j, "user", "")};
    struct event *ev = event_new(id, json_opt_time(j, "time"), texts);
    json_decref(j);
    if (ev && !c->events_loaded)
        c->first_event = id;
    c->events_loaded = true;
    if (ev && id >= c->first_event)
        keep(c, ev);
    else
        free(ev); // out of order
}

json_t *event_view(const struct event *ev)
{
    json_t *j = json_object();
    json_put_i64(j, "id", ev->id);
    json_put_time(j, "time", ev->time_ms);
    json_put_str(j, "type", ev->type);
    json_put_str(j, "object", ev->object);
    json_put_str(j, "node", ev->node[0] ? ev->node : NULL);
    json_put_str(j, "job", ev->job[0] ? ev->job : NULL);
    json_put_str(j, "task", ev->task[0] ? ev->task : NULL);
    json_put_str(j, "reason", ev->reason[0] ? ev->reason : NULL);
    json_put_str(j, "user", ev->user[0] ? ev->user : NULL);
    return j;
}

void event_collect(struct cluster *c)
{
    for (int64_t id = c->collected_event + 1; id <= c->last_event; id++) {
        const struct event *ev = id >= c->first_event ? *slot(c, id) : NULL;
        if (!ev)
            continue;
        json_t *j = event_view(ev);
        commit_append(c->commit, "events", ev->id, json_text(j), STREAM_MAX);
        json_decref(j);
    }
    c->collected_event = c->last_event;
}

void event_publish(struct cluster *c, int64_t up_to)
{
    while (c->published_event < up_to) {
        int64_t id = ++c->published_event;
        const struct event *ev = id >= c->first_event ? *slot(c, id) : NULL;
        if (!ev)
            continue;
        // The cursor lets a watcher remove itself or others from inside its callback.
        for (struct cluster_watch *w = c->watches; w; w = c->watch_cursor) {
            c->watch_cursor = w->next;
            w->event(ev, w->userdata);
        }
    }
}

void cluster_watch_add(struct cluster *c, struct cluster_watch *w)
{
    w->prev = NULL;
    w->next = c->watches;
    if (c->watches)
        c->watches->prev = w;
    c->watches = w;
}

void cluster_watch_remove(struct cluster *c, struct cluster_watch *w)
{
    if (c->watch_cursor == w)
        c->watch_cursor = w->next;
    if (w->prev)
        w->prev->next = w->next;
    else
        c->watches = w->next;
    if (w->next)
        w->next->prev = w->prev;
}

int64_t cluster_last_event(const struct cluster *c)
{
    return c->published_event;
}

const struct event *cluster_event_after(const struct cluster *c, int64_t after)
{
    if (after >= c->published_event) // also of a number so large that the next one overflows
        return NULL;
    int64_t id = after < c->first_event ? c->first_event : after + 1;
    for (; id <= c->published_event; id++) {
        const struct event *ev = c->events[id % CLUSTER_EVENTS_KEPT];
        if (ev)
            return ev;
    }
    return NULL;
}

void event_free_all(struct cluster *c)
{
    for (size_t i = 0; c->events && i < CLUSTER_EVENTS_KEPT; i++)
        free(c->events[i]);
    free(c->events);
    c->events = NULL;
    event_limit_free(c->event_limit);
    c->event_limit = NULL;
}
