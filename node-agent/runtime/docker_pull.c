// SPDX-License-Identifier: Apache-2.0
// Pulling an image: the engine streams one JSON object per line, with the state of each layer;
// their sum becomes the phase that people see. Breaking the request off makes the engine stop too.
#include "node-agent/runtime/docker_internal.h"

#include "common/cleanup.h"
#include "common/json.h"

#include <string.h>

#define LAYERS_MAX 128
#define LINE_MAX_BYTES (256u << 10)
#define PULL_SILENCE_MS 300000

struct layer {
    char id[20];
    int64_t done, total;
};

struct docker_pull {
    struct docker_task *task;
    struct http_call *call; // weak
    struct strbuf line;
    char error[256]; // from the stream
    struct layer layers[LAYERS_MAX];
    size_t n;
    int told_percent;
};

static void pull_free(struct docker_pull *p)
{
    strbuf_reset(&p->line);
    free(p);
}

static void tell_progress(struct docker_pull *p)
{
    char text[256];
    int64_t done = 0, total = 0;
    for (size_t i = 0; i < p->n; i++) {
        done += p->layers[i].done;
        total += p->layers[i].total;
    }
    int percent = total > 0 ? (int)(done * 100 / total) : 0;
    if (percent < p->told_percent + 5)
        return;
    p->told_percent = percent;
    (void)snprintf(text, sizeof(text), "pulling image %.200s: %d %%", p->task->image, percent);
    docker_task_phase(p->task, text);
}

static void on_layer(struct docker_pull *p, const json_t *j)
{
    const json_t *detail = json_object_get(j, "progressDetail");
    const char *id = json_opt_str(j, "id", "");
    int64_t total = json_opt_i64(detail, "total", 0);
    size_t i = 0;
    if (total <= 0 || strcmp(json_opt_str(j, "status", ""), "Downloading") != 0)
        return;
    while (i < p->n && strcmp(p->layers[i].id, id) != 0)
        i++;
    if (i == LAYERS_MAX)
        return;
    if (i == p->n)
        (void)snprintf(p->layers[p->n++].id, sizeof(p->layers[i].id), "%.19s", id);
    p->layers[i].done = json_opt_i64(detail, "current", 0);
    p->layers[i].total = total;
    tell_progress(p);
}

static void on_line(struct docker_pull *p, const char *line, size_t len)
{
    cleanup_json json_t *j = json_loadb(line, len, 0, NULL);
    const char *error = json_opt_str(j, "error", NULL);
    if (error)
        (void)snprintf(p->error, sizeof(p->error), "%s", error);
    else if (j)
        on_layer(p, j);
}

static int on_chunk(const char *data, size_t len, void *userdata)
{
    struct docker_pull *p = userdata;
    char *end;
    strbuf_append(&p->line, data, len);
    while (!p->line.failed && p->line.len && (end = memchr(p->line.data, '\n', p->line.len))) {
        size_t n = (size_t)(end - p->line.data);
        on_line(p, p->line.data, n);
        strbuf_consume(&p->line, n + 1);
    }
    return p->line.failed || p->line.len > LINE_MAX_BYTES ? -1 : 0;
}

static void pull_failed(struct docker_task *t, const char *text, bool transient)
{
    char reason[768];
    struct attempt_status status;
    (void)snprintf(reason, sizeof(reason), "pull image %.120s: %s", t->image, text);
    outcome_failed(&t->d->o.dirs, t->id, transient ? CAUSE_ENGINE : CAUSE_IMAGE, reason, &status);
    status.pull = transient;
    docker_task_end(t, &status);
}

static void pull_over(struct docker_task *t, const struct http_result *r, const char *error)
{
    char text[256];
    if (t->phase >= DOCKER_ENDED)
        return;
    if (t->stopping) {
        docker_task_fail(t, CAUSE_STOPPED, "stopped while its image was pulled");
    } else if (r->error < 0) {
        pull_failed(t, r->err.text, true);
        docker_engine_lost(t->d, r->err.text);
    } else if (r->status >= 300) {
        docker_error_text(r->status, r->body, r->len, text, sizeof(text));
        pull_failed(t, text, docker_pull_is_transient(text));
    } else if (*error) {
        pull_failed(t, error, docker_pull_is_transient(error));
    } else {
        docker_start_create(t);
    }
}

static void on_done(const struct http_result *r, void *userdata)
{
    struct docker_pull *p = userdata;
    struct docker_task *t = p->task;
    if (p->line.len) // the last line may lack its end
        on_line(p, p->line.data, p->line.len);
    t->pull = NULL;
    t->calls--;
    bool ok = r->error == 0 && r->status < 300 && !p->error[0];
    image_table_pull_ended(&t->d->images, t->image, ok);
    if (ok && !t->d->closing)
        docker_images_ask(t->d);
    if (t->phase == DOCKER_GONE && t->calls == 0)
        docker_task_free(t);
    else if (t->phase != DOCKER_GONE && !t->d->closing)
        pull_over(t, r, p->error);
    pull_free(p);
}

static int pull(struct docker_task *t, struct docker_pull *p, struct err *e)
{
    cleanup_free char *reference = docker_image_reference(t->image);
    cleanup_free char *encoded = reference ? docker_encode(reference) : NULL;
    cleanup_free char *path =
        encoded ? docker_path("%s/images/create?fromImage=%s", t->d->prefix, encoded) : NULL;
    if (!path)
        return err_set(e, -ENOMEM, "the agent is out of memory");
    struct http_call_options o = {.method = "POST",
                                  .path = path,
                                  .idle_timeout_ms = PULL_SILENCE_MS,
                                  .chunk = on_chunk,
                                  .done = on_done,
                                  .userdata = p};
    return http_call_start(t->d->http, &o, &p->call, e);
}

void docker_pull_start(struct docker_task *t)
{
    char text[256];
    struct err e;
    struct docker_pull *p = calloc(1, sizeof(*p));
    t->phase = DOCKER_IMAGE;
    t->pulled = true;
    if (t->stopping) {
        free(p);
        docker_task_fail(t, CAUSE_STOPPED, "stopped before its image was pulled");
        return;
    }
    if (p)
        p->task = t;
    int r = p ? pull(t, p, &e) : err_set(&e, -ENOMEM, "the agent is out of memory");
    if (r < 0) {
        free(p);
        docker_task_fail(t, CAUSE_ENGINE, e.text);
        return;
    }
    t->calls++;
    t->pull = p;
    image_table_pull_begun(&t->d->images, t->image);
    (void)snprintf(text, sizeof(text), "pulling image %.200s", t->image);
    docker_task_phase(t, text);
}

void docker_pull_cancel(struct docker_task *t)
{
    if (t->pull)
        http_call_cancel(t->pull->call);
}
