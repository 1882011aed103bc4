// SPDX-License-Identifier: Apache-2.0
// Requests about one attempt: each holds its task alive until it is answered, so that an answer
// never meets freed memory.
#include "node-agent/runtime/docker_internal.h"

#include "common/cleanup.h"
#include "common/json.h"

#include <stdarg.h>
#include <string.h>

struct task_call {
    struct docker_task *task;
    docker_then then;
};

void docker_result_text(const struct http_result *r, char *out, size_t size)
{
    if (r->error < 0)
        (void)snprintf(out, size, "%s", r->err.text);
    else
        docker_error_text(r->status, r->body, r->len, out, size);
}

char *docker_path(const char *fmt, ...)
{
    va_list ap;
    char *path = NULL;
    va_start(ap, fmt);
    int n = vasprintf(&path, fmt, ap);
    va_end(ap);
    return n < 0 ? NULL : path;
}

static void on_done(const struct http_result *r, void *userdata)
{
    struct task_call *c = userdata;
    struct docker_task *t = c->task;
    docker_then then = c->then;
    free(c);
    t->calls--;
    if (t->phase == DOCKER_GONE && t->calls == 0)
        docker_task_free(t);
    else if (t->phase != DOCKER_GONE && !t->d->closing) // then the driver frees all tasks itself
        then(t, r);
}

static int send_call(struct docker_task *t, const char *method, const char *path,
                     const json_t *body, bool anew, docker_then then, struct err *e)
{
    static const char *const headers[] = {"Content-Type: application/json", NULL};
    cleanup_free char *text = body ? json_text(body) : NULL;
    cleanup_free char *full = path ? docker_path("%s%s", t->d->prefix, path) : NULL;
    struct task_call *c = calloc(1, sizeof(*c));
    if (!c || !full || (body && !text)) {
        free(c);
        return err_set(e, -ENOMEM, "the agent is out of memory");
    }
    *c = (struct task_call){t, then};
    struct http_call_options o = {.method = method,
                                  .path = full,
                                  .headers = headers,
                                  .body = text,
                                  .body_len = text ? strlen(text) : 0,
                                  .timeout_ms = DOCKER_TIMEOUT_MS,
                                  .new_connection = anew,
                                  .done = on_done,
                                  .userdata = c};
    t->calls++;
    int r = http_call_start(t->d->http, &o, NULL, e);
    if (r < 0) {
        t->calls--;
        free(c);
    }
    return r;
}

static void request(struct docker_task *t, const char *method, char *path_taken, const json_t *body,
                    bool anew, docker_then then)
{
    struct http_result failed = {.body = ""};
    int r = send_call(t, method, path_taken, body, anew, then, &failed.err);
    free(path_taken);
    failed.error = r;
    if (r < 0)
        then(t, &failed);
}

void docker_request(struct docker_task *t, const char *method, char *path_taken, const json_t *body,
                    docker_then then)
{
    request(t, method, path_taken, body, false, then);
}

void docker_ask_anew(struct docker_task *t, char *path_taken, docker_then then)
{
    request(t, "GET", path_taken, NULL, true, then);
}
