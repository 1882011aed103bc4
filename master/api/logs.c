// SPDX-License-Identifier: Apache-2.0
// /v1/jobs/{j}/logs: what the selected tasks wrote, streamed with a bounded buffer. With ?follow it
// goes on as bytes arrive, over restarts, until the job is over. Log appends and events wake it;
// nothing polls.
#include "common/cleanup.h"
#include "master/api/handlers.h"
#include "master/logs/log_render.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define OUT_MAX (256u * 1024)  // so much waits for a slow reader
#define OUT_BLOCK (32u * 1024) // rendered at a time

struct log_source { // one task
    struct log_stream *owner;
    char component[NAME_BYTES];
    int index;
    char attempt[ATTEMPT_ID_BYTES]; // that is being read; "" = none yet
    struct log_reader *reader;
    struct log_render *render;
    struct log_watch watch;
    bool watching;
    bool done;
};

struct log_stream {
    struct http_request *req;
    struct api *api;
    struct principal who;
    char job[JOB_ID_BYTES];
    unsigned channels;
    int64_t tail;
    int attempt; // number, 0 = latest
    bool follow, several;
    enum log_format format;
    bool timestamps;
    struct log_source *sources;
    size_t n_sources, at; // `at`: the one being read, without follow
    struct cluster_watch watch;
    uv_timer_t later; // goes on in a later turn
    bool closed;
    struct log_stream *prev, *next;
};

static void source_close(struct log_source *s)
{
    if (s->watching)
        log_watch_remove(s->owner->api->logs, &s->watch);
    s->watching = false;
    log_reader_close(s->reader);
    log_render_free(s->render);
    s->reader = NULL;
    s->render = NULL;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct log_stream *l = container_of((uv_timer_t *)handle, struct log_stream, later);
    free(l->sources);
    free(l);
}

static void stream_close(struct log_stream *l)
{
    if (l->closed)
        return;
    l->closed = true;
    for (size_t i = 0; i < l->n_sources; i++)
        source_close(&l->sources[i]);
    cluster_watch_remove(l->api->cluster, &l->watch);
    DL_DELETE(l->api->log_streams, l);
    uv_close((uv_handle_t *)&l->later, on_timer_closed);
}

static void on_gone(struct http_request *req, void *userdata)
{
    (void)req;
    stream_close(userdata);
}

static void stream_end(struct log_stream *l)
{
    struct http_request *req = l->req;
    http_request_on_gone(req, NULL, NULL);
    stream_close(l);
    http_stream_end(req);
}

void logs_release(struct api *a)
{
    while (a->log_streams)
        stream_end(a->log_streams);
}

void logs_recheck(struct api *a)
{
    struct log_stream *l, *next;
    DL_FOREACH_SAFE (a->log_streams, l, next) {
        if (!api_still_valid(a, &l->who))
            stream_end(l);
    }
}

// --- reading ---

static void on_later(uv_timer_t *timer);

static void wake(struct log_stream *l)
{
    if (!l->closed)
        (void)uv_timer_start(&l->later, on_later, 0, 0);
}

static void on_changed(struct log_watch *w, bool finished)
{
    struct log_source *s = w->userdata;
    (void)finished;
    wake(s->owner);
}

static void on_event(const struct event *ev, void *userdata)
{
    struct log_stream *l = userdata;
    if (strcmp(ev->job, l->job) == 0)
        wake(l);
}

static const char *wanted_attempt(const struct log_stream *l, const struct task *t)
{
    if (l->attempt == 0 || l->attempt == t->attempt)
        return t->attempt_id;
    int back = t->attempt - l->attempt;
    return back > 0 && back <= t->n_previous ? t->previous[back - 1] : "";
}

static int source_open(struct log_source *s, const struct task *t, const char *attempt)
{
    struct log_stream *l = s->owner;
    char task[256], prefix[160];
    (void)snprintf(task, sizeof(task), "%s/%s/%d", l->job, s->component, s->index);
    (void)snprintf(prefix, sizeof(prefix), "%s/%d | ", s->component, s->index);
    const struct log_render_options o = {l->format, l->timestamps, l->several ? prefix : NULL, task,
                                         l->attempt ? l->attempt : t->attempt};
    // Only the first attempt that is read has a tail; what follows is new.
    int64_t tail = s->attempt[0] ? LOG_TAIL_ALL : l->tail;
    source_close(s);
    (void)snprintf(s->attempt, sizeof(s->attempt), "%s", attempt);
    int r = log_render_new(&o, &s->render);
    if (r == 0)
        r = log_reader_open(l->api->logs, attempt, l->channels, tail, &s->reader);
    if (r == 0 && l->follow) {
        s->watch = (struct log_watch){.changed = on_changed, .userdata = s};
        r = log_watch_add(l->api->logs, attempt, &s->watch);
        s->watching = r == 0;
    }
    return r;
}

enum step { STEP_END, STEP_FULL, STEP_LATER };

static bool flush(struct log_stream *l, struct strbuf *out)
{
    size_t waiting = out->len ? http_stream_write(l->req, out->data, out->len) : 0;
    strbuf_reset(out);
    return waiting < OUT_MAX;
}

// Reads one attempt as far as it goes now.
static enum step read_attempt(struct log_stream *l, struct log_source *s)
{
    cleanup_strbuf struct strbuf out = {0};
    for (;;) {
        int r = log_render_some(s->render, s->reader, &out, OUT_BLOCK);
        if (!flush(l, &out))
            return STEP_FULL;
        if (r == LOG_NEXT_AGAIN)
            return STEP_LATER;
        if (r != LOG_NEXT_CHUNK)
            return STEP_END; // its end for now, or an error: what could be read was
    }
}

static bool finish_attempt(struct log_stream *l, struct log_source *s)
{
    cleanup_strbuf struct strbuf out = {0};
    log_render_end(s->render, &out);
    source_close(s);
    return flush(l, &out);
}

// One task: its attempt, then the next one when the task moved on.
static enum step read_source(struct log_stream *l, struct log_source *s, struct job *j)
{
    struct task *t = cluster_job_task(j, s->component, s->index);
    while (!s->done) {
        const char *wanted = wanted_attempt(l, t);
        if (!s->reader) {
            if (!wanted[0] || strcmp(wanted, s->attempt) == 0)
                break; // nothing to read (yet)
            if (source_open(s, t, wanted) < 0) {
                s->done = true;
                break;
            }
        }
        enum step step = read_attempt(l, s);
        if (step != STEP_END)
            return step;
        bool moved_on = strcmp(wanted, s->attempt) != 0;
        if (l->follow && !moved_on && j->state < JOB_SUCCEEDED)
            break;
        if (!finish_attempt(l, s))
            return STEP_FULL;
        s->done = !moved_on;
    }
    return STEP_END;
}

static void pump(struct log_stream *l)
{
    struct job *j = cluster_job_find(l->api->cluster, l->job, NULL);
    bool all_done = true;
    for (size_t i = l->follow ? 0 : l->at; j && i < l->n_sources; i++) {
        enum step step = read_source(l, &l->sources[i], j);
        if (step == STEP_LATER)
            wake(l);
        if (step != STEP_END)
            return; // `drained` or the timer goes on
        l->at = i + 1;
        all_done = all_done && (l->sources[i].done || !l->sources[i].reader);
    }
    if (!j || !l->follow || (j->state >= JOB_SUCCEEDED && all_done))
        stream_end(l);
}

static void on_later(uv_timer_t *timer)
{
    struct log_stream *l = container_of(timer, struct log_stream, later);
    if (l->closed)
        return;
    if (api_still_valid(l->api, &l->who)) // the token may have expired meanwhile
        pump(l);
    else
        stream_end(l);
}

static void on_drained(struct http_request *req, void *userdata)
{
    (void)req;
    wake(userdata);
}

// --- the request ---

static bool truth(const char *text)
{
    return text && strcmp(text, "0") != 0 && strcmp(text, "false") != 0;
}

static bool number(struct call *call, const char *name, long min, long *ret)
{
    char *end;
    const char *text = http_request_query(call->req, name);
    if (!text)
        return true;
    *ret = strtol(text, &end, 10);
    if (*text && !*end && *ret >= min)
        return true;
    api_problem(call, 400, "%s: expected a number from %ld, found \"%.40s\"", name, min, text);
    return false;
}

// Adds the tasks that the query selects; answers 404 and returns false when there is none.
static bool select_sources(struct call *call, struct log_stream *l, struct job *j, long index)
{
    const char *component = http_request_query(call->req, "component");
    if (j->elements) {
        api_problem(call, 409, "job %s is an array: name one of its elements, such as %s_%d",
                    j->name, j->name, job_array_index(&j->spec->array, 0));
        return false;
    }
    l->sources = calloc((size_t)j->n_tasks, sizeof(*l->sources));
    for (int i = 0; l->sources && i < j->n_tasks; i++) {
        const struct task *t = &j->tasks[i];
        const char *name = j->spec->components[t->component].name;
        if ((component && strcmp(component, name) != 0) || (index >= 0 && t->index != index))
            continue;
        struct log_source *s = &l->sources[l->n_sources++];
        s->owner = l;
        s->index = t->index;
        (void)snprintf(s->component, sizeof(s->component), "%s", name);
    }
    if (l->n_sources == 0)
        api_problem(call, 404,
                    "job %s has no task that is %.64s/%ld: `meadow job show` lists its tasks",
                    j->name, component ? component : "*", index);
    l->several = l->n_sources > 1;
    return l->n_sources > 0;
}

static bool read_options(struct call *call, struct log_stream *l, long *index)
{
    enum log_channel channel;
    long tail = LOG_TAIL_ALL, attempt = 0;
    const char *accept = http_request_header(call->req, "Accept");
    const char *stream = http_request_query(call->req, "stream");
    if (!number(call, "index", 0, index) || !number(call, "tail", 0, &tail) ||
        !number(call, "attempt", 1, &attempt))
        return false;
    if (stream && log_channel_from_string(stream, &channel) < 0) {
        api_problem(call, 400, "stream: expected stdout or stderr, found \"%.40s\"", stream);
        return false;
    }
    l->channels = stream ? 1u << channel : LOG_ALL_CHANNELS;
    l->tail = tail;
    l->attempt = (int)attempt;
    l->follow = truth(http_request_query(call->req, "follow"));
    l->timestamps = truth(http_request_query(call->req, "timestamps"));
    l->format = accept && strstr(accept, "application/x-ndjson") ? LOG_JSON
                : l->timestamps                                  ? LOG_LINES
                                                                 : LOG_TEXT;
    return true;
}

static void start(struct call *call, struct log_stream *l)
{
    l->watch = (struct cluster_watch){.event = on_event, .userdata = l};
    cluster_watch_add(l->api->cluster, &l->watch);
    DL_APPEND(l->api->log_streams, l);
    http_request_on_gone(call->req, on_gone, l);
    http_respond_header(call->req, "Cache-Control", "no-store");
    http_stream_begin(call->req, 200,
                      l->format == LOG_JSON ? "application/x-ndjson" : "text/plain; charset=utf-8",
                      on_drained, l);
    pump(l);
}

void logs_get(struct call *call)
{
    long index = -1;
    struct job *j = api_own_job(call, "see the logs of");
    struct log_stream *l = j ? calloc(1, sizeof(*l)) : NULL;
    if (!l) {
        if (j)
            api_problem(call, 503, "out of memory");
        return;
    }
    l->req = call->req;
    l->api = call->api;
    l->who = call->who;
    memcpy(l->job, j->id, sizeof(l->job));
    if (!read_options(call, l, &index) || !select_sources(call, l, j, index) ||
        uv_timer_init(call->api->settings.loop, &l->later) < 0) {
        free(l->sources);
        free(l);
        return;
    }
    start(call, l);
}
