// SPDX-License-Identifier: Apache-2.0
// Events: what happened, numbered without gaps. An event is made with the change it tells of, rides in the same batch to
// the store's stream, and is shown to watchers only when that batch is durable. The newest are kept in memory.
#include "common/clock.h"
#include "common/json.h"
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

static struct event *event_new(const struct event_fields *f)
{
    char task[256] = "";
    const struct job *job = f->task ? f->task->job : f->job;
    const char *node = f->node ? f->node->name : f->task ? f->task->node_name : "";
    if (f->task)
        task_name(f->task, task, sizeof(task));
    const char *texts[] = {f->type,  f->object, node, job ? job->id : "", task, f->reason ? f->reason : "",
                           f->user ? f->user : job ? job->user : ""};
    size_t size = sizeof(struct event);
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        size += strlen(texts[i]) + 1;
    struct event *ev = malloc(size);
    if (!ev)
        return NULL;
    char *at = (char *)(ev + 1);
    ev->time_ms = clock_real_ms();
    ev->type = append(&at, texts[0]);
    ev->object = append(&at, texts[1]);
    ev->node = append(&at, texts[2]);
    ev->job = append(&at, texts[3]);
    ev->task = append(&at, texts[4]);
    ev->reason = append(&at, texts[5]);
    ev->user = append(&at, texts[6]);
    return ev;
}

void event_emit(struct cluster *c, const struct event_fields *f)
{
    if (!c->commit) // loading
        return;
    struct event *ev = event_new(f);
    if (!ev)
        return; // the change itself is still recorded; only its line in the list is missing
    ev->id = ++c->last_event;
    if (c->last_event - c->first_event >= CLUSTER_EVENTS_KEPT) {
        free(*slot(c, c->first_event));
        *slot(c, c->first_event) = NULL;
        c->first_event++;
    }
    *slot(c, ev->id) = ev;
    mark(c);
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
}
