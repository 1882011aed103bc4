// SPDX-License-Identifier: Apache-2.0
// /v1/events: a list, or a stream of server-sent events that goes on from Last-Event-ID. Only
// durable events are seen.
#include "common/cleanup.h"
#include "common/json.h"
#include "common/strbuf.h"
#include "master/api/handlers.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define BUFFER_MAX                                                                                 \
    (1024u * 1024u) // a reader slower than this is cut off and comes back with Last-Event-ID
#define HEARTBEAT_MS 15000

struct stream {
    struct http_request *req;
    struct api *api;
    struct principal who;
    struct cluster_watch watch;
    uv_timer_t heartbeat;
    char job[JOB_ID_BYTES]; // filter, "" = all
    struct stream *prev, *next;
};

static void on_closed(uv_handle_t *handle)
{
    free(container_of((uv_timer_t *)handle, struct stream, heartbeat));
}

static void stream_close(struct stream *s)
{
    s->req = NULL;
    cluster_watch_remove(s->api->cluster, &s->watch);
    DL_DELETE(s->api->event_streams, s);
    uv_close((uv_handle_t *)&s->heartbeat, on_closed);
}

static void on_gone(struct http_request *req, void *userdata)
{
    (void)req;
    stream_close(userdata);
}

static void end(struct stream *s)
{
    struct http_request *req = s->req;
    http_request_on_gone(req, NULL, NULL);
    stream_close(s);
    http_stream_end(req);
}

static bool passes(const char *job, const struct event *ev)
{
    return job[0] == '\0' || strcmp(job, ev->job) == 0;
}

static void send_event(const struct event *ev, void *userdata)
{
    struct stream *s = userdata;
    cleanup_strbuf struct strbuf b = {0};
    if (!s->req || !passes(s->job, ev))
        return;
    cleanup_json json_t *j = api_event_view(s->api, &s->who, ev);
    cleanup_free char *text = json_text(j);
    strbuf_printf(&b, "id: %lld\nevent: %s\ndata: %s\n\n", (long long)ev->id, ev->type,
                  text ? text : "{}");
    if (b.failed || http_stream_write(s->req, b.data, b.len) > BUFFER_MAX)
        end(s);
}

static void on_heartbeat(uv_timer_t *timer)
{
    struct stream *s = container_of(timer, struct stream, heartbeat);
    if (s->req && !api_still_valid(s->api, &s->who))
        end(s); // the token has expired
    else if (s->req)
        (void)http_stream_write(s->req, ":\n\n", 3);
}

static void follow(struct call *call, int64_t after, const char *job)
{
    struct api *a = call->api;
    struct stream *s = calloc(1, sizeof(*s));
    if (!s || uv_timer_init(a->settings.loop, &s->heartbeat) < 0) {
        free(s);
        api_problem(call, 503, "out of memory");
        return;
    }
    s->req = call->req;
    s->api = a;
    s->who = call->who;
    (void)snprintf(s->job, sizeof(s->job), "%s", job);
    s->watch = (struct cluster_watch){.event = send_event, .userdata = s};
    cluster_watch_add(a->cluster, &s->watch);
    DL_APPEND(a->event_streams, s);
    http_request_on_gone(call->req, on_gone, s);
    (void)uv_timer_start(&s->heartbeat, on_heartbeat, HEARTBEAT_MS, HEARTBEAT_MS);
    http_respond_header(call->req, "Cache-Control", "no-store");
    http_stream_begin(call->req, 200, "text/event-stream", NULL, NULL);
    for (const struct event *ev = cluster_event_after(a->cluster, after); ev && s->req;
         ev = cluster_event_after(a->cluster, ev->id))
        send_event(ev, s);
}

void events_release(struct api *a)
{
    while (a->event_streams)
        end(a->event_streams);
}

void events_recheck(struct api *a)
{
    struct stream *s, *next;
    DL_FOREACH_SAFE (a->event_streams, s, next) {
        if (!api_still_valid(a, &s->who))
            end(s);
    }
}

static bool read_id(struct call *call, const char *name, const char *text, int64_t *ret)
{
    char *rest;
    *ret = strtoll(text, &rest, 10);
    if (*text && !*rest && *ret >= 0)
        return true;
    api_problem(call, 400, "%s: expected an event id, found \"%.40s\"", name, text);
    return false;
}

void events_get(struct call *call)
{
    struct cluster *c = call->api->cluster;
    const char *accept = http_request_header(call->req, "Accept");
    const char *last_id = http_request_header(call->req, "Last-Event-ID");
    const char *after_text = http_request_query(call->req, "after");
    const char *job_ref = http_request_query(call->req, "job");
    bool sse = accept && strstr(accept, "text/event-stream");
    int64_t after = sse ? cluster_last_event(c) : 0;
    int limit = api_limit(call);
    if (limit < 0 || (after_text && !read_id(call, "after", after_text, &after)) ||
        (last_id && !read_id(call, "Last-Event-ID", last_id, &after)))
        return;
    const struct job *j = job_ref ? cluster_job_find(c, job_ref, NULL) : NULL;
    if (job_ref && !j) {
        api_problem(call, 404, "no job %.100s", job_ref);
        return;
    }
    const char *job = j ? j->id : "";
    if (sse) {
        follow(call, after, job);
        return;
    }
    json_t *items = json_array();
    char next[24] = "";
    const struct event *ev;
    for (ev = cluster_event_after(c, after); ev; ev = cluster_event_after(c, ev->id)) {
        if (!passes(job, ev))
            continue;
        if ((int)json_array_size(items) == limit)
            break;
        (void)snprintf(next, sizeof(next), "%lld", (long long)ev->id);
        (void)json_array_append_new(items, api_event_view(call->api, &call->who, ev));
    }
    api_reply(call, 200, api_list(items, ev ? next : NULL, (size_t)cluster_last_event(c)));
}
