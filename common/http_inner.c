// SPDX-License-Identifier: Apache-2.0
// The other transport of an http_request. The answer is handed over from a timer of zero
// milliseconds, so that the owner never finds its request freed under its hands.
#include "common/http_server_internal.h"

#include "common/cleanup.h"
#include "common/http_inner.h"
#include "common/text.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FIELDS_MAX 24

struct field {
    char *name, *value;
};

struct http_inner {
    struct http_request *req;
    struct http_inner_options options;
    struct http_peer peer;
    struct field headers[FIELDS_MAX], query[FIELDS_MAX];
    size_t n_headers, n_query;
    uv_timer_t deliver;
    bool delivering, cancelled, too_long;
    char *content_type;
};

// --- what handlers ask ---

static const char *find(const struct field *fields, size_t n, const char *name,
                        int (*compare)(const char *, const char *))
{
    for (size_t i = 0; i < n; i++)
        if (compare(fields[i].name, name) == 0)
            return fields[i].value;
    return NULL;
}

const char *inner_header(const struct http_request *req, const char *name)
{
    return find(req->inner->headers, req->inner->n_headers, name, strcasecmp);
}

const char *inner_query(const struct http_request *req, const char *name)
{
    return find(req->inner->query, req->inner->n_query, name, strcmp);
}

const struct http_peer *inner_peer(const struct http_request *req)
{
    return &req->inner->peer;
}

// --- the end ---

static void inner_free(struct http_inner *x)
{
    for (size_t i = 0; i < x->n_headers; i++) {
        free(x->headers[i].name);
        free(x->headers[i].value);
    }
    for (size_t i = 0; i < x->n_query; i++) {
        free(x->query[i].name);
        free(x->query[i].value);
    }
    free(x->content_type);
    request_free(x->req);
    free(x);
}

static void on_closed(uv_handle_t *handle)
{
    inner_free(container_of((uv_timer_t *)handle, struct http_inner, deliver));
}

static void on_deliver(uv_timer_t *timer)
{
    static const char too_long[] =
        "{\"type\":\"about:blank\",\"title\":\"Content Too Large\",\"status\":413,\"detail\":\"the "
        "answer is too long to be sealed: ask for less of it (limit, tail), or with a token\"}";
    struct http_inner *x = container_of(timer, struct http_inner, deliver);
    struct http_request *req = x->req;
    struct http_inner_answer a = {req->status, x->content_type, req->out.data ? req->out.data : "",
                                  req->out.len};
    if (!req->is_gone && (req->state != REQUEST_ANSWERED || (req->stream && !req->stream_ended)))
        request_tell_gone(req);
    if (x->too_long || req->out.failed)
        a = (struct http_inner_answer){413, "application/problem+json", too_long,
                                       sizeof(too_long) - 1};
    if (!x->cancelled)
        x->options.answered(&a, x->options.userdata);
    uv_close((uv_handle_t *)timer, on_closed);
}

static void deliver(struct http_inner *x)
{
    if (x->delivering)
        return;
    x->delivering = true;
    (void)uv_timer_start(&x->deliver, on_deliver, 0, 0);
}

void http_inner_cancel(struct http_request *req)
{
    req->inner->cancelled = true;
    deliver(req->inner);
}

// --- answers ---

static void take_status(struct http_request *req, int status, const char *content_type)
{
    req->status = status;
    req->state = REQUEST_ANSWERED;
    req->inner->content_type = content_type ? strdup(content_type) : NULL;
}

size_t inner_write(struct http_request *req, const void *data, size_t len)
{
    struct http_inner *x = req->inner;
    if (len > x->options.answer_limit - req->out.len)
        x->too_long = true;
    if (!x->too_long && !x->cancelled) {
        strbuf_append(&req->out, data, len);
        return 0;
    }
    deliver(x);
    return SIZE_MAX; // "full": the writer stops, and is told that the client is gone
}

void inner_respond(struct http_request *req, int status, const char *content_type, const void *body,
                   size_t len)
{
    if (req->state == REQUEST_ANSWERED || req->is_gone)
        return;
    take_status(req, status, content_type);
    req->gone = NULL;
    (void)inner_write(req, body, len);
    deliver(req->inner);
}

void inner_respond_file(struct http_request *req, int status, const char *content_type, int fd,
                        uint64_t offset, uint64_t len)
{
    cleanup_close int file = fd;
    cleanup_free char *data = NULL;
    if (len > req->inner->options.answer_limit) {
        req->inner->too_long = true;
        inner_respond(req, 413, NULL, "", 0);
        return;
    }
    data = malloc(len + 1);
    ssize_t n = data ? pread(file, data, len, (off_t)offset) : -1;
    if (n < 0)
        inner_respond(req, 500, "text/plain", "the file can't be read\n", 23);
    else
        inner_respond(req, status, content_type, data, (size_t)n);
}

void inner_stream_begin(struct http_request *req, int status, const char *content_type)
{
    if (req->state == REQUEST_ANSWERED || req->is_gone)
        return;
    take_status(req, status, content_type);
    req->stream = true;
}

void inner_stream_end(struct http_request *req)
{
    req->stream_ended = true;
    req->gone = NULL;
    deliver(req->inner);
}

// --- making one ---

// %XX and '+', as in a form (RFC 1866 section 8.2.1); no NUL.
static char *decode(const char *text, size_t len)
{
    char *out = strndup(text, len);
    if (!out)
        return NULL;
    for (char *c = strchr(out, '+'); c; c = strchr(c, '+'))
        *c = ' ';
    if (text_percent_decode(out, strlen(out), out) < 0) {
        free(out);
        out = NULL;
    }
    return out;
}

static int add(struct field *fields, size_t *n, char *name, char *value)
{
    if (!name || !value || *n == FIELDS_MAX) {
        free(name);
        free(value);
        return -EINVAL;
    }
    fields[(*n)++] = (struct field){name, value};
    return 0;
}

static int read_query(struct http_inner *x, const char *q)
{
    int r = 0;
    while (r == 0 && *q) {
        size_t len = strcspn(q, "&"), name = strcspn(q, "=&");
        if (len > 0)
            r = add(x->query, &x->n_query, decode(q, name),
                    name < len ? decode(q + name + 1, len - name - 1) : strdup(""));
        q += len + (q[len] == '&');
    }
    return r;
}

static int fill(struct http_inner *x, const struct http_inner_options *o)
{
    struct http_request *req = x->req;
    size_t path = strcspn(o->target, "?");
    req->method = strdup(o->method);
    req->path = strndup(o->target, path);
    strbuf_append(&req->body, o->body, o->len);
    if (!req->method || !req->path || req->body.failed)
        return -ENOMEM;
    int r = 0;
    for (size_t i = 0; r == 0 && i < o->n_headers; i++)
        r = add(x->headers, &x->n_headers, strdup(o->headers[i].name), strdup(o->headers[i].value));
    return r < 0 ? r : o->target[path] ? read_query(x, o->target + path + 1) : 0;
}

int http_inner_new(const struct http_inner_options *o, struct http_request **ret)
{
    struct http_inner *x = calloc(1, sizeof(*x));
    struct http_request *req = calloc(1, sizeof(*req));
    if (!x || !req) {
        free(x);
        free(req);
        return -ENOMEM;
    }
    x->req = req;
    x->options = *o;
    x->peer = *o->peer;
    req->inner = x;
    req->state = REQUEST_READY;
    req->ready_called = true;
    int r = fill(x, o);
    if (r == 0)
        r = uv_timer_init(o->loop, &x->deliver);
    if (r < 0) {
        inner_free(x);
        return r;
    }
    *ret = req;
    return 0;
}
