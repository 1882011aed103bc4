// SPDX-License-Identifier: Apache-2.0
// A request from its headers to its end, as libmicrohttpd's calls see it: first call = headers,
// then body pieces, then a call without bytes = complete; a held connection is suspended, and
// resuming brings one more call, in which the answer is queued.
#include "common/http_server_internal.h"

#include "common/cleanup.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

// A body up to this is read and thrown away after an early answer to a local client.
#define DISCARD_LIMIT (8u << 20)

static struct http_conn *conn_of(struct MHD_Connection *mhd)
{
    return MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

// --- accessors ---

const char *http_request_method(const struct http_request *req)
{
    return req->method;
}

const char *http_request_path(const struct http_request *req)
{
    return req->path;
}

const char *http_request_header(const struct http_request *req, const char *name)
{
    if (req->inner)
        return inner_header(req, name);
    return MHD_lookup_connection_value(req->conn->mhd, MHD_HEADER_KIND, name);
}

const char *http_request_query(const struct http_request *req, const char *name)
{
    const char *value = NULL;
    size_t len = 0;
    if (req->inner)
        return inner_query(req, name);
    if (MHD_lookup_connection_value_n(req->conn->mhd, MHD_GET_ARGUMENT_KIND, name, strlen(name),
                                      &value, &len) != MHD_YES)
        return NULL;
    return value ? value : ""; // "?follow" is there without a value
}

const struct http_peer *http_request_peer(const struct http_request *req)
{
    return req->inner ? inner_peer(req) : &req->conn->peer;
}

const char *http_request_body(const struct http_request *req, size_t *ret_len)
{
    if (ret_len)
        *ret_len = req->body.len;
    return req->body.data ? req->body.data : "";
}

void http_request_set_data(struct http_request *req, void *data)
{
    req->data = data;
}

void *http_request_data(const struct http_request *req)
{
    return req->data;
}

void http_request_body_limit(struct http_request *req, size_t bytes)
{
    req->body_limit = bytes;
}

void http_request_stream_body(struct http_request *req,
                              int (*chunk)(struct http_request *req, const char *data, size_t len,
                                           void *userdata))
{
    req->chunk = chunk;
}

void http_request_on_gone(struct http_request *req,
                          void (*gone)(struct http_request *req, void *userdata), void *userdata)
{
    req->gone = gone;
    req->gone_userdata = userdata;
}

// --- life ---

void request_free(struct http_request *req)
{
    struct respond_header *h, *next;
    for (h = req->headers; h; h = next) {
        next = h->next;
        free(h->name);
        free(h->value);
        free(h);
    }
    if (req->response)
        MHD_destroy_response(req->response);
    strbuf_reset(&req->body);
    strbuf_reset(&req->out);
    free(req->method);
    free(req->path);
    free(req);
}

void request_tell_gone(struct http_request *req)
{
    void (*gone)(struct http_request * req, void *userdata) = req->gone;
    req->is_gone = true;
    req->gone = NULL;
    if (gone)
        gone(req, req->gone_userdata);
}

void request_resume(struct http_request *req)
{
    struct http_conn *c = req->conn;
    conn_watch(c, false);
    if (c->mhd) {
        MHD_resume_connection(c->mhd);
        server_kick(c->server);
    }
}

void request_client_gone(struct http_request *req)
{
    bool suspended = req->state == REQUEST_HELD || req->stream_suspended;
    if (!req->is_gone && (req->state != REQUEST_ANSWERED || (req->stream && !req->stream_ended)))
        request_tell_gone(req);
    req->is_gone = true;
    if (req->state == REQUEST_HELD)
        req->state = REQUEST_READY;
    req->stream_suspended = false;
    if (suspended)
        request_resume(req);
}

// Takes the raw path that the connection holds.
static struct http_request *request_new(struct http_conn *c, const char *method)
{
    struct http_request *req = calloc(1, sizeof(*req));
    if (!req)
        return NULL;
    req->conn = c;
    req->method = strdup(method);
    req->path = TAKE_PTR(c->path);
    req->body_limit = c->server->options.body_limit;
    if (!req->method || !req->path) {
        request_free(req);
        return NULL;
    }
    return req;
}

// The body's length as announced: -1 = unknown (chunked), 0 = none.
static int64_t announced_length(const struct http_request *req)
{
    const char *text = http_request_header(req, "Content-Length");
    if (text)
        return (int64_t)strtoll(text, NULL, 10);
    return http_request_header(req, "Transfer-Encoding") ? -1 : 0;
}

// The owner never gets this request: it is told as if the client had gone.
static void too_large(struct http_request *req)
{
    char detail[96];
    void (*gone)(struct http_request * r, void *userdata) = req->gone;
    req->gone = NULL;
    if (gone)
        gone(req, req->gone_userdata);
    (void)snprintf(detail, sizeof(detail), "the body may have at most %zu bytes", req->body_limit);
    response_problem(req, 413, "Content Too Large", detail);
}

// An answer that is there before the body goes out at once, except when the body is to be read and
// thrown away first: always when it is empty, so that the connection can stay; and on a unix
// socket, where closing with unread bytes makes the client's next write fail, perhaps before it has
// read the answer (behind TLS the front lingers). A client that waits for "100 Continue" sends
// nothing.
static bool reads_past_answer(const struct http_request *req)
{
    int64_t len = announced_length(req);
    return len == 0 || (req->conn->peer.local && len <= (int64_t)DISCARD_LIMIT &&
                        !http_request_header(req, "Expect"));
}

// --- requests that two parsers could understand differently ---

// The TLS side has its guard (http_guard.h), which sees the bytes themselves; this sees what
// libmicrohttpd made of them, on unix sockets too.
struct head_look {
    unsigned lengths, encodings, hosts;
    bool odd_name;
};

static enum MHD_Result look_at_header(void *cls, enum MHD_ValueKind kind, const char *name,
                                      const char *value)
{
    struct head_look *look = cls;
    (void)kind;
    (void)value;
    look->lengths += strcasecmp(name, "Content-Length") == 0;
    look->encodings += strcasecmp(name, "Transfer-Encoding") == 0;
    look->hosts += strcasecmp(name, "Host") == 0;
    for (const char *p = name; *p; p++)
        look->odd_name |= *p <= ' ' || *p == 0x7f;
    return MHD_YES;
}

static const char *what_is_wrong(struct http_request *req)
{
    struct head_look look = {0};
    (void)MHD_get_connection_values(req->conn->mhd, MHD_HEADER_KIND, look_at_header, &look);
    for (const char *p = req->path; *p; p++)
        if (*p <= ' ' || *p == 0x7f)
            return "the request's target holds a byte that has to be percent-encoded";
    return req->path[0] != '/'              ? "the request's target is not a path"
           : strcasestr(req->path, "%00")   ? "the request's target holds a NUL"
           : look.lengths > 1               ? "Content-Length twice"
           : look.encodings > 1             ? "Transfer-Encoding twice"
           : look.lengths && look.encodings ? "Content-Length beside Transfer-Encoding"
           : look.hosts > 1                 ? "Host twice"
           : look.odd_name                  ? "a header name with a space"
                                            : NULL;
}

static bool refuse_malformed(struct http_request *req)
{
    const char *why = what_is_wrong(req);
    if (!why)
        return false;
    http_respond_header(req, "Connection", "close");
    response_problem(req, 400, "Bad Request", why);
    return true;
}

static enum MHD_Result begin(struct http_server *s, struct MHD_Connection *mhd, const char *method,
                             void **con_cls)
{
    struct http_conn *c = conn_of(mhd);
    struct http_request *req = request_new(c, method);
    if (!req)
        return MHD_NO;
    *con_cls = req;
    c->req = req;
    conn_busy(c, true);
    conn_deadline(c, s->options.body_timeout_ms);
    if (refuse_malformed(req))
        return response_queue(req); // without a look at its body, whose end is not sure
    if (s->options.handlers->begin)
        s->options.handlers->begin(req, s->options.userdata);
    if (req->state != REQUEST_ANSWERED && !req->chunk &&
        announced_length(req) > (int64_t)req->body_limit)
        too_large(req);
    if (req->state != REQUEST_ANSWERED || reads_past_answer(req))
        return MHD_YES;
    return response_queue(req);
}

static enum MHD_Result take_body(struct http_server *s, struct http_request *req, const char *data,
                                 size_t len)
{
    // libmicrohttpd takes an answer only before the body or after it, so what comes in between is
    // thrown away; the body's deadline, no longer put off, bounds that.
    if (req->discard || req->state == REQUEST_ANSWERED)
        return MHD_YES;
    if (req->chunk) {
        conn_deadline(req->conn, s->options.body_timeout_ms);
        req->discard = req->chunk(req, data, len, s->options.userdata) < 0;
        return MHD_YES;
    }
    if (req->body.len + len > req->body_limit) {
        too_large(req);
        return MHD_YES;
    }
    strbuf_append(&req->body, data, len);
    return req->body.failed ? MHD_NO : MHD_YES;
}

static enum MHD_Result complete(struct http_server *s, struct http_request *req)
{
    if (req->is_gone)
        return MHD_NO;
    if (req->state == REQUEST_BODY) {
        conn_deadline(req->conn, 0);
        req->state = REQUEST_READY;
        req->ready_called = true;
        s->options.handlers->ready(req, s->options.userdata);
    }
    if (req->state == REQUEST_ANSWERED)
        return response_queue(req);
    req->state = REQUEST_HELD;
    MHD_suspend_connection(req->conn->mhd);
    conn_watch(req->conn, true);
    return MHD_YES;
}

enum MHD_Result request_access(void *cls, struct MHD_Connection *mhd, const char *url,
                               const char *method, const char *version, const char *upload,
                               size_t *upload_size, void **con_cls)
{
    struct http_server *s = cls;
    struct http_request *req = *con_cls;
    (void)version;
    (void)url; // decoded; http_server.c keeps the raw one
    if (!req)
        return begin(s, mhd, method, con_cls);
    if (*upload_size) {
        size_t len = *upload_size;
        *upload_size = 0;
        return take_body(s, req, upload, len);
    }
    return complete(s, req);
}

void request_completed(void *cls, struct MHD_Connection *mhd, void **con_cls,
                       enum MHD_RequestTerminationCode code)
{
    struct http_request *req = *con_cls;
    (void)cls;
    (void)mhd;
    if (!req)
        return;
    struct http_conn *c = req->conn;
    bool whole = code == MHD_REQUEST_TERMINATED_COMPLETED_OK;
    *con_cls = NULL;
    c->req = NULL;
    // libmicrohttpd's own timeout starts again with every byte; this one bounds a first line that
    // drips.
    conn_deadline(c, c->server->options.idle_timeout_ms);
    conn_busy(c, false);
    if (!req->is_gone && !whole && (req->state != REQUEST_ANSWERED || req->stream))
        request_tell_gone(req);
    request_free(req);
}
