// SPDX-License-Identifier: Apache-2.0
// The engine as a whole: version, event stream, listing. The stream is opened with `since` = now
// before the listing is asked for, so nothing falls between the two. The stream's end is how the
// loss of the engine is noticed at once; it is tried again with growing delays, and every success
// lists anew.
#include "node-agent/runtime/docker_internal.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"

#include <inttypes.h>
#include <string.h>

#define QUICK_TIMEOUT_MS 15000
#define LINE_MAX_BYTES (1u << 20)

static void on_retry(uv_timer_t *timer)
{
    docker_engine_connect(timer->data);
}

void docker_engine_lost(struct docker *d, const char *reason)
{
    struct docker_task *t, *next;
    if (d->closing || uv_is_active((uv_handle_t *)&d->retry))
        return;
    // The first failure is told (an unusable engine is news also at the start), repeats are not.
    if (d->ok || !d->told_down)
        outbox_engine(d->outbox, false, reason, NULL);
    d->ok = false;
    d->settled = false; // what was asked before says nothing of the next listing
    d->told_down = true;
    HASH_ITER (hh, d->tasks, t, next)
        t->left |= t->phase == DOCKER_RUNNING || t->phase == DOCKER_EXITED;
    docker_doubt_engine_left(d);
    // Armed first: the cancelled stream reports its end here too.
    (void)uv_timer_start(&d->retry, on_retry, backoff_fail(&d->backoff), 0);
    if (d->events)
        http_call_cancel(d->events);
    if (d->image_events)
        http_call_cancel(d->image_events);
}

static int request(struct docker *d, struct http_call_options *o, struct http_call **ret)
{
    struct err e;
    o->userdata = d;
    int r = o->path ? http_call_start(d->http, o, ret, &e)
                    : err_set(&e, -ENOMEM, "the agent is out of memory");
    if (r < 0)
        docker_engine_lost(d, e.text);
    return r;
}

int docker_ask(struct docker *d, const char *method, const char *path, unsigned timeout_ms,
               void (*done)(const struct http_result *, void *))
{
    return request(d,
                   &(struct http_call_options){
                       .method = method, .path = path, .timeout_ms = timeout_ms, .done = done},
                   NULL);
}

int docker_stream(struct docker *d, const char *path, int (*chunk)(const char *, size_t, void *),
                  void (*done)(const struct http_result *, void *), struct http_call **ret)
{
    return request(
        d, &(struct http_call_options){.method = "GET", .path = path, .chunk = chunk, .done = done},
        ret);
}

int docker_stream_lines(struct docker *d, struct strbuf *line, const char *data, size_t len,
                        void (*event)(const json_t *event, void *userdata))
{
    char *end;
    strbuf_append(line, data, len);
    while (!d->closing && !line->failed && line->len &&
           (end = memchr(line->data, '\n', line->len))) {
        size_t n = (size_t)(end - line->data);
        cleanup_json json_t *j = json_loadb(line->data, n, 0, NULL);
        strbuf_consume(line, n + 1);
        if (j)
            event(j, d);
    }
    return line->failed || line->len > LINE_MAX_BYTES ? -1 : 0;
}

// --- listing
// -------------------------------------------------------------------------------------------

static bool is_running(const char *state)
{
    return strcmp(state, "running") == 0 || strcmp(state, "paused") == 0 ||
           strcmp(state, "restarting") == 0;
}

// What meadow-init wrote is ahead of the engine, which says "created" until its own start call is
// through.
static bool has_begun(const struct docker *d, const char *id)
{
    pid_t pid;
    int64_t ms;
    return attempt_started_read(&d->o.dirs, id, &pid, &ms) == 0;
}

static bool has_ended(const struct docker *d, const char *id)
{
    return attempt_exit_read(&d->o.dirs, id, &(struct exit_record){0}, NULL) == 0;
}

// Takes note of one container; a task we do not know yet is adopted.
static void see_container(struct docker *d, const json_t *c)
{
    const char *id = docker_own_attempt(&d->o, json_object_get(c, "Labels"));
    const char *state = json_opt_str(c, "State", "");
    struct err e;
    pid_t pid;
    if (!id)
        return;
    struct docker_task *t = docker_task_find(d, id);
    bool known = t != NULL;
    if (!t && !(t = docker_task_new(d, id)))
        return;
    t->seen = true;
    if (!t->container[0])
        (void)snprintf(t->container, sizeof(t->container), "%s", json_opt_str(c, "Id", ""));
    if (known && (t->phase < DOCKER_RUNNING || t->phase >= DOCKER_ENDED))
        return; // a start is under way, or it is over
    bool created = strcmp(state, "created") == 0;
    if (!known && !t->image)
        t->image = strdup(json_opt_str(c, "Image", "")); // NULL: only for how long it was used
    if (!known)
        t->phase =
            created && !has_begun(d, id) && !has_ended(d, id) ? DOCKER_CREATED : DOCKER_RUNNING;
    if (t->phase == DOCKER_CREATED)
        return;
    if (out_watch_add(d->out, id, &e) < 0)
        log_debug("docker", "%s", e.text);
    // An engine that was killed in the middle of a start says "created" for ever, whatever runs.
    t->orphan = created && attempt_init_alive(&d->o.dirs, id, &pid);
    t->phase = is_running(state) || t->orphan ? DOCKER_RUNNING : DOCKER_EXITED;
}

// Whether the attempt belongs on the list, and as what.
static bool list_task(struct docker_task *t, struct attempt_status *ret)
{
    if (t->phase < DOCKER_RUNNING || t->removing)
        return false;
    outcome_running(&t->d->o.dirs, t->id, ret);
    t->started_told = t->started_told || ret->started_ms;
    t->health = ret->health;
    bool recorded = outcome_ended(&t->d->o.dirs, t->id, ret) == 0;
    if (t->phase == DOCKER_ENDED && !recorded) // told before, without a record
        return false;
    bool over = recorded && (!t->seen || t->phase == DOCKER_ENDED || !docker_may_be_oom(ret));
    if (t->phase == DOCKER_EXITED && !t->seen && !recorded) {
        outcome_failed(&t->d->o.dirs, t->id, CAUSE_UNKNOWN,
                       "its container is gone, and nobody saw how", ret);
        over = true;
    }
    if (recorded && !over) // the engine is asked, and then the end is told
        outcome_running(&t->d->o.dirs, t->id, ret);
    if (over && t->oom)
        outcome_mark_oom(ret);
    if (over)
        docker_task_explain(t, ret);
    if (over)
        t->phase = DOCKER_ENDED;
    (void)snprintf(ret->container_id, sizeof(ret->container_id), "%s", t->container);
    return true;
}

// Attempts whose container somebody removed are known by what lies in their folder.
static void see_claims(struct docker *d)
{
    cleanup_free char(*ids)[ATTEMPT_ID_BYTES] = NULL;
    size_t n = 0;
    struct err e;
    if (attempt_claims_list(&d->o.dirs, &ids, &n, &e) < 0)
        log_error("docker", "%s", e.text);
    for (size_t i = 0; i < n; i++) {
        if (docker_task_find(d, ids[i]) || (!has_begun(d, ids[i]) && !has_ended(d, ids[i])))
            continue;
        struct docker_task *t = docker_task_new(d, ids[i]);
        if (t)
            t->phase = DOCKER_EXITED;
    }
}

static void on_swept(void *userdata)
{
    struct docker_task *t = userdata;
    t->sweep = NULL;
    docker_task_exited(t);
}

// It runs, but no engine will ever tell of it, stop it or count it: it is ended here, and only then
// told.
static void end_orphan(struct docker_task *t)
{
    t->orphan = false;
    log_warn("docker", "attempt %s: its engine died while starting it and does not know it runs",
             t->id);
    if (!t->sweep && sweep_start(t->d->o.loop, t->id, on_swept, t, &t->sweep) != 0)
        docker_task_exited(t);
}

// What is to be done about an attempt now that the engine answers again.
static void resume(struct docker_task *t)
{
    if (t->orphan) {
        end_orphan(t);
        return;
    }
    if (t->removing && t->phase == DOCKER_NEW) { // asked for before anything was known
        if (t->container[0]) {
            docker_task_delete(t);
        } else {
            outbox_removed(t->d->outbox, t->id);
            docker_task_drop(t);
        }
        return;
    }
    if (t->removing && (t->phase == DOCKER_ENDED || t->phase == DOCKER_CREATED)) {
        docker_task_delete(t);
        return;
    }
    if (t->phase == DOCKER_RUNNING) {
        t->left = false; // its engine is back, and has it
        docker_task_records(t);
    }
    if (t->phase == DOCKER_RUNNING && t->stopping)
        docker_task_signal(t);
    if (t->phase == DOCKER_EXITED)
        docker_task_exited(t);
}

static void take_list(struct docker *d, const json_t *list)
{
    struct docker_task *t, *next;
    size_t i, n = 0;
    const json_t *c;
    HASH_ITER (hh, d->tasks, t, next)
        t->seen = false;
    json_array_foreach (list, i, c)
        see_container(d, c);
    see_claims(d);
    struct runtime_attempt *items = calloc(HASH_COUNT(d->tasks) + 1, sizeof(*items));
    if (!items) {
        docker_engine_lost(d, "the agent is out of memory");
        return;
    }
    HASH_ITER (hh, d->tasks, t, next) {
        if (t->phase == DOCKER_RUNNING && !t->seen)
            t->phase = DOCKER_EXITED;
        if (list_task(t, &items[n].status))
            n++;
    }
    d->listed = true;
    outbox_listed(d->outbox, items, n);
    HASH_ITER (hh, d->tasks, t, next)
        resume(t);
}

static void ask_list(struct docker *d);

static void on_settled(const struct http_result *r, void *userdata)
{
    struct docker *d = userdata;
    (void)r; // whatever it says, the next listing says it too
    if (--d->settling == 0 && d->ok && !d->closing)
        ask_list(d);
}

// A start call may be under way, perhaps an earlier agent's: the engine lists its container as
// "created" until that call is through, but an inspection waits for it. True when some were asked
// for; the listing that follows them can be believed.
static bool settle(struct docker *d, const json_t *list)
{
    size_t i;
    const json_t *c;
    if (d->settled) {
        d->settled = false;
        return false;
    }
    json_array_foreach (list, i, c) {
        const char *id = docker_own_attempt(&d->o, json_object_get(c, "Labels"));
        const struct docker_task *t = id ? docker_task_find(d, id) : NULL;
        if (!id || (t && (t->phase < DOCKER_RUNNING || t->phase >= DOCKER_ENDED)) ||
            strcmp(json_opt_str(c, "State", ""), "created") != 0)
            continue;
        cleanup_free char *path =
            docker_path("%s/containers/%s/json", d->prefix, json_opt_str(c, "Id", ""));
        if (docker_ask(d, "GET", path, DOCKER_TIMEOUT_MS, on_settled) == 0)
            d->settling++;
    }
    d->settled = d->settling > 0;
    return d->settled;
}

static void on_list(const struct http_result *r, void *userdata)
{
    struct docker *d = userdata;
    char text[256];
    if (d->closing)
        return;
    cleanup_json json_t *list =
        r->error == 0 && r->status == 200 ? json_loadb(r->body, r->len, 0, NULL) : NULL;
    if (json_is_array(list)) {
        (void)backoff_reset(&d->backoff);
        if (!settle(d, list) && d->ok)
            take_list(d, list);
        return;
    }
    docker_result_text(r, text, sizeof(text));
    docker_engine_lost(d, text);
}

static void ask_list(struct docker *d)
{
    cleanup_free char *filters = docker_filters(&d->o, false, true);
    cleanup_free char *path =
        filters ? docker_path("%s/containers/json?all=1&filters=%s", d->prefix, filters) : NULL;
    (void)docker_ask(d, "GET", path, DOCKER_TIMEOUT_MS, on_list);
}

// --- events
// --------------------------------------------------------------------------------------------

static void on_event(const json_t *event, void *userdata)
{
    struct docker *d = userdata;
    const json_t *actor = json_object_get(event, "Actor");
    const char *id = docker_own_attempt(&d->o, json_object_get(actor, "Attributes"));
    const char *action = json_opt_str(event, "Action", json_opt_str(event, "status", ""));
    struct docker_task *t = id ? docker_task_find(d, id) : NULL;
    if (!t || t->phase < DOCKER_STARTING || t->phase >= DOCKER_ENDED)
        return;
    if (strcmp(action, "oom") == 0)
        t->oom = true;
    else if (strcmp(action, "die") == 0 || strcmp(action, "died") == 0)
        docker_task_exited(t);
    else if (strcmp(action, "destroy") == 0 || strcmp(action, "remove") == 0)
        docker_task_exited(t);
}

static int on_chunk(const char *data, size_t len, void *userdata)
{
    struct docker *d = userdata;
    return docker_stream_lines(d, &d->line, data, len, on_event);
}

static void on_stream_end(const struct http_result *r, void *userdata)
{
    struct docker *d = userdata;
    char text[256] = "the engine closed its event stream";
    d->events = NULL;
    if (d->closing)
        return;
    if (r->error < 0 || r->status != 200)
        docker_result_text(r, text, sizeof(text));
    docker_engine_lost(d, text);
}

static int open_stream(struct docker *d)
{
    int64_t now = clock_real_ms() + clock_step_ms(); // the machine's, as the engine's is
    cleanup_free char *filters =
        docker_filters(&d->o, true, !d->podman); // podman's delivers nothing with labels
    cleanup_free char *path = filters
                                  ? docker_path("%s/events?since=%" PRId64 ".%03d000000&filters=%s",
                                                d->prefix, now / 1000, (int)(now % 1000), filters)
                                  : NULL;
    strbuf_reset(&d->line);
    return docker_stream(d, path, on_chunk, on_stream_end, &d->events);
}

// --- connection
// ------------------------------------------------------------------------------------------

static void on_version(const struct http_result *r, void *userdata)
{
    struct docker *d = userdata;
    struct err e;
    if (d->closing)
        return;
    cleanup_json json_t *v =
        r->error == 0 && r->status == 200 ? json_loadb(r->body, r->len, 0, NULL) : NULL;
    if (!v) {
        docker_result_text(r, e.text, sizeof(e.text));
        docker_engine_lost(d, e.text);
        return;
    }
    int minor = docker_api_minor(v, &e);
    if (minor < 0) {
        docker_engine_lost(d, e.text);
        return;
    }
    d->podman = docker_is_podman(v);
    (void)snprintf(d->prefix, sizeof(d->prefix), "/v1.%d", minor);
    if (open_stream(d) < 0)
        return;
    d->ok = true;
    d->told_down = false;
    outbox_engine(d->outbox, true, NULL,
                  json_pack("{s:s, s:s, s:o}", "name", d->podman ? "podman" : "docker", "version",
                            json_opt_str(v, "Version", ""), "api", json_sprintf("1.%d", minor)));
    ask_list(d);
    docker_images_watch(d);
}

void docker_engine_connect(struct docker *d)
{
    if (!d->closing)
        (void)docker_ask(d, "GET", "/version", QUICK_TIMEOUT_MS, on_version);
}
