// SPDX-License-Identifier: Apache-2.0
// Synchronous calls over common/http_client: start, run the loop until `done`. An interrupt cancels
// the call under way, which completes it like any other end.
#include "cli/api.h"

#include "cli/api_sealed.h"
#include "cli/api_watch.h"
#include "common/cleanup.h"
#include "common/http_client.h"
#include "common/id.h"
#include "common/log.h"

#include <signal.h>
#include <string.h>
#include <uv.h>

#define CONNECT_TIMEOUT_MS 5000
#define PAUSE_FIRST_MS 100
#define PAUSE_MAX_MS 2000

struct api {
    uv_loop_t loop;
    struct http_client *client;
    char *url, *origin, *token;
    struct api_sealed *sealed; // NULL = plain
    struct api_watch watch;
    bool interrupted, output_gone;
    uv_timer_t pause;
    bool pausing;
    // the call under way
    struct http_call *call;
    const struct api_request *request;
    bool done;
    bool streamed; // bytes went to `chunk`
    int error;
    struct err err;
    struct api_answer answer;
};

void api_target_free(struct api_target *t)
{
    free(t->url);
    free(t->unix_socket);
    free(t->token);
    free(t->ca_pem);
    free(t->origin);
    *t = (struct api_target){0};
}

void api_answer_free(struct api_answer *answer)
{
    free(answer->content_type);
    free(answer->body);
    *answer = (struct api_answer){0};
}

static char *copy(const char *text)
{
    return text ? strdup(text) : NULL;
}

int api_open(const struct api_target *target, struct api **ret, struct err *e)
{
    struct api *a = calloc(1, sizeof(*a));
    if (!a || uv_loop_init(&a->loop) < 0) {
        free(a);
        return err_set(e, -ENOMEM, "out of memory");
    }
    (void)signal(SIGPIPE, SIG_IGN); // a connection that breaks is an error of the call, not the end
    a->url = copy(target->url);
    a->origin = copy(target->origin);
    a->token = copy(target->token);
    (void)uv_timer_init(&a->loop, &a->pause);
    struct http_client_options o = {.loop = &a->loop,
                                    .base_url = target->unix_socket ? "http://meadow" : target->url,
                                    .unix_socket = target->unix_socket,
                                    .ca_pem = target->ca_pem,
                                    .no_verify = target->no_verify,
                                    .connect_timeout_ms = CONNECT_TIMEOUT_MS};
    int r = http_client_new(&o, &a->client, e);
    if (r < 0) {
        api_close(a);
        return r;
    }
    *ret = a;
    return 0;
}

void api_close(struct api *a)
{
    if (!a)
        return;
    if (a->client)
        http_client_close(a->client, NULL, NULL);
    uv_close((uv_handle_t *)&a->pause, NULL);
    api_watch_close(&a->watch);
    (void)uv_run(&a->loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&a->loop) < 0)
        log_debug("cli", "handles were left open");
    if (a->token)
        explicit_bzero(a->token, strlen(a->token));
    free(a->token);
    api_sealed_close(a->sealed);
    free(a->url);
    free(a->origin);
    free(a);
}

void api_use_sealed(struct api *a, struct api_sealed *sealed)
{
    a->sealed = sealed;
    if (a->token)
        explicit_bzero(a->token, strlen(a->token));
    free(TAKE_PTR(a->token));
}

const char *api_url(const struct api *a)
{
    return a->url ? a->url : "";
}

const char *api_origin(const struct api *a)
{
    return a->origin ? a->origin : "";
}

// --- interrupts ---

static void on_stop(bool output_gone, void *userdata)
{
    struct api *a = userdata;
    a->interrupted = true;
    a->output_gone = output_gone;
    a->pausing = false;
    if (a->call)
        http_call_cancel(a->call);
}

int api_catch_interrupt(struct api *a)
{
    return a->watch.started ? 0 : api_watch_start(&a->watch, &a->loop, on_stop, a);
}

static void on_pause(uv_timer_t *timer)
{
    struct api *a = timer->data;
    a->pausing = false;
}

static void pause_for(struct api *a, uint64_t ms)
{
    a->pause.data = a;
    a->pausing = true;
    (void)uv_timer_start(&a->pause, on_pause, ms, 0);
    while (a->pausing && uv_run(&a->loop, UV_RUN_ONCE))
        ;
    (void)uv_timer_stop(&a->pause);
}

// --- one call ---

static int on_chunk(const char *data, size_t len, void *userdata)
{
    struct api *a = userdata;
    a->streamed = true;
    return a->request->chunk(data, len, a->request->userdata);
}

static void on_done(const struct http_result *result, void *userdata)
{
    struct api *a = userdata;
    a->call = NULL;
    a->done = true;
    a->error = result->error;
    a->err = result->err;
    if (result->error)
        return;
    a->answer.status = result->status;
    a->answer.content_type = strdup(result->content_type ? result->content_type : "");
    a->answer.body = malloc(result->len + 1);
    if (!a->answer.body || !a->answer.content_type) {
        a->error = err_set(&a->err, -ENOMEM, "out of memory");
        return;
    }
    if (result->len)
        memcpy(a->answer.body, result->body, result->len);
    a->answer.body[result->len] = '\0';
    a->answer.len = result->len;
}

static bool changes(const char *method)
{
    return strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0;
}

#define LINES_MAX (API_HEADERS_MAX + 5)

struct header_lines {
    const char *items[LINES_MAX];
    char *owned[LINES_MAX];
    size_t n, n_owned;
};

static void add_line(struct header_lines *h, const char *name, const char *value)
{
    char *line = NULL;
    if (value && asprintf(&line, "%s: %s", name, value) >= 0) {
        h->owned[h->n_owned++] = line;
        h->items[h->n++] = line;
    }
}

static void free_lines(struct header_lines *h)
{
    for (size_t i = 0; i < h->n_owned; i++) {
        explicit_bzero(h->owned[i], strlen(h->owned[i])); // one of them holds the token
        free(h->owned[i]);
    }
}

static void build_lines(const struct api *a, const struct api_request *req, const char *key,
                        struct header_lines *h)
{
    char bearer[512];
    *h = (struct header_lines){0};
    if (a->token) {
        (void)snprintf(bearer, sizeof(bearer), "Bearer %s", a->token);
        add_line(h, "Authorization", bearer);
        explicit_bzero(bearer, sizeof(bearer));
    }
    add_line(h, "Accept", req->accept ? req->accept : "application/json");
    add_line(h, "Content-Type", req->content_type);
    add_line(h, "Idempotency-Key", changes(req->method) ? key : NULL);
    h->items[h->n] = NULL;
    for (size_t i = 0; i < API_HEADERS_MAX && req->headers[i]; i++)
        h->items[h->n++] = req->headers[i];
    h->items[h->n] = NULL;
}

static int stopped(const struct api *a, struct err *e)
{
    return a->output_gone ? err_set(e, -EPIPE, "the reader of the output is gone")
                          : err_set(e, -EINTR, "interrupted");
}

static int call_once(struct api *a, const struct api_request *req, const char *key, struct err *e)
{
    struct header_lines lines;
    unsigned timeout = req->timeout_ms ? req->timeout_ms : API_TIMEOUT_MS;
    build_lines(a, req, key, &lines);
    struct http_call_options o = {.method = req->method,
                                  .path = req->path,
                                  .headers = lines.items,
                                  .body = req->body,
                                  .body_len = req->body_len,
                                  .body_fd = req->upload ? req->fd : -1,
                                  .upload_from_fd = req->upload,
                                  .body_fd_len = req->file_len,
                                  .timeout_ms = timeout == API_NO_TIMEOUT ? 0 : timeout,
                                  .idle_timeout_ms = req->silence_ms,
                                  .chunk = req->chunk ? on_chunk : NULL,
                                  .done = on_done,
                                  .userdata = a};
    a->request = req;
    a->done = false;
    int r = http_call_start(a->client, &o, &a->call, e);
    free_lines(&lines);
    if (r < 0)
        return r;
    while (!a->done && uv_run(&a->loop, UV_RUN_ONCE))
        ;
    if (a->interrupted)
        return stopped(a, e);
    if (a->error) {
        *e = a->err;
        return a->error;
    }
    return a->done ? 0 : err_set(e, -EIO, "the connection ended without an answer");
}

// A sealed answer is whole when it can be read.
static int give_chunk(struct api *a, const struct api_request *req, struct err *e)
{
    a->streamed = true;
    if (req->chunk(a->answer.body, a->answer.len, req->userdata) < 0)
        return err_set(e, -ECANCELED, "cancelled");
    a->answer.body[0] = '\0';
    a->answer.len = 0;
    return 0;
}

static int call_sealed(struct api *a, const struct api_request *req, const char *key, struct err *e)
{
    bool again = true;
    int r = 0;
    while (r == 0 && again) {
        cleanup_free char *text = NULL;
        r = api_seal(a->sealed, req, changes(req->method) ? key : NULL, &text, e);
        if (r < 0)
            return r;
        const struct api_request outer = {.method = "POST",
                                          .path = "/v1/sealed",
                                          .content_type = "application/jose",
                                          .accept = "application/jose",
                                          .body = text,
                                          .body_len = strlen(text),
                                          .timeout_ms = req->timeout_ms};
        api_answer_free(&a->answer);
        r = call_once(a, &outer, NULL, e);
        if (r == 0)
            r = api_unseal(a->sealed, &a->answer, &again, e);
    }
    return r < 0 || !req->chunk || a->answer.status / 100 != 2 ? r : give_chunk(a, req, e);
}

static bool unreachable(int r)
{
    return r == -ECONNREFUSED || r == -EIO || r == -EPROTO;
}

// A second try is harmless: reads change nothing, changes carry the same key, an upload starts
// again.
static bool may_repeat(const struct api *a, const struct api_request *req)
{
    return !a->streamed && (!req->upload || lseek(req->fd, 0, SEEK_SET) == 0);
}

int api_call(struct api *a, const struct api_request *req, struct api_answer *ret, struct err *e)
{
    char key[25] = "";
    uint64_t pause_ms = PAUSE_FIRST_MS, waited_ms = 0;

    if (id_random(key, 24) < 0)
        return err_set(e, -EIO, "no random numbers");
    a->streamed = false;
    for (int attempt = 0;; attempt++) {
        api_answer_free(&a->answer);
        int r = a->sealed ? call_sealed(a, req, key, e) : call_once(a, req, key, e);
        if (r == 0) {
            *ret = a->answer;
            a->answer = (struct api_answer){0};
            return 0;
        }
        bool broken = attempt == 0 && r == -EIO;
        bool patient = unreachable(r) && waited_ms < req->patience_ms;
        if ((!broken && !patient) || !may_repeat(a, req))
            return r;
        if (patient) {
            pause_for(a, pause_ms);
            waited_ms += pause_ms;
            pause_ms = pause_ms * 2 < PAUSE_MAX_MS ? pause_ms * 2 : PAUSE_MAX_MS;
        }
        if (a->interrupted)
            return stopped(a, e);
    }
}

void api_encode(struct strbuf *b, const char *text, bool keep_slash)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
    for (; *text; text++) {
        if (strchr(plain, *text) || (keep_slash && *text == '/'))
            strbuf_append(b, text, 1);
        else
            strbuf_printf(b, "%%%02X", (unsigned char)*text);
    }
}
