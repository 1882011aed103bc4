// SPDX-License-Identifier: Apache-2.0
// Answers: whole, from a file, or streamed. An answer made while the request is held resumes its
// connection; libmicrohttpd then takes it.
#include "common/http_server_internal.h"

#include "common/cleanup.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define STREAM_BLOCK 16384
#define DRAINED_MARK 65536

void http_respond_header(struct http_request *req, const char *name, const char *value)
{
    struct respond_header *h = calloc(1, sizeof(*h));
    char *n = strdup(name);
    char *v = strdup(value);
    if (!h || !n || !v) {
        free(h);
        free(n);
        free(v);
        return; // the answer goes without it
    }
    *h = (struct respond_header){n, v, req->headers};
    req->headers = h;
}

// Takes the response (NULL = out of memory: the connection is closed).
static void answer(struct http_request *req, int status, const char *content_type,
                   struct MHD_Response *response)
{
    if (req->state == REQUEST_ANSWERED ||
        req->is_gone) { // a bug of the owner, or the client is gone: nothing to send it to
        if (response)
            MHD_destroy_response(response);
        return;
    }
    bool held = req->state == REQUEST_HELD;
    req->response = response;
    req->status = status;
    if (response && content_type)
        (void)MHD_add_response_header(response, "Content-Type", content_type);
    for (const struct respond_header *h = req->headers; response && h; h = h->next)
        (void)MHD_add_response_header(response, h->name, h->value);
    req->state = REQUEST_ANSWERED;
    if (!req->stream)
        req->gone = NULL;
    if (held)
        request_resume(req);
}

enum MHD_Result response_queue(struct http_request *req)
{
    if (!req->response || req->queued)
        return MHD_NO;
    req->queued = true;
    conn_deadline(req->conn, 0);
    return MHD_queue_response(req->conn->mhd, (unsigned)req->status, req->response);
}

void http_respond(struct http_request *req, int status, const char *content_type, const void *body,
                  size_t len)
{
    if (req->inner)
        inner_respond(req, status, content_type, body, len);
    else
        answer(req, status, content_type,
               MHD_create_response_from_buffer(
                   len, len ? (void *)(uintptr_t)body : (void *)(uintptr_t) "",
                   MHD_RESPMEM_MUST_COPY));
}

void http_respond_file(struct http_request *req, int status, const char *content_type, int fd,
                       uint64_t offset, uint64_t len)
{
    if (req->inner) {
        inner_respond_file(req, status, content_type, fd, offset, len);
        return;
    }
    struct MHD_Response *r = MHD_create_response_from_fd_at_offset64(len, fd, offset);
    if (!r)
        (void)close(fd);
    answer(req, status, content_type, r);
}

void response_problem(struct http_request *req, int status, const char *title, const char *detail)
{
    json_t *p = json_pack("{s:s, s:s, s:i, s:s}", "type", "about:blank", "title", title, "status",
                          status, "detail", detail);
    char *text = p ? json_dumps(p, JSON_COMPACT) : NULL;
    http_respond(req, status, "application/problem+json", text ? text : "{}",
                 text ? strlen(text) : 2);
    free(text);
    json_decref(p);
}

// --- streams ---

static size_t buffered(const struct http_request *req)
{
    return req->out.len - req->out_sent;
}

// Taken bytes are moved out of the buffer only when they are the larger part, so that a long queue
// is not copied again for each block.
static size_t take_out(struct http_request *req, char *buffer, size_t max)
{
    size_t n = buffered(req) < max ? buffered(req) : max;
    memcpy(buffer, req->out.data + req->out_sent, n);
    req->out_sent += n;
    if (req->out_sent > req->out.len / 2) {
        strbuf_consume(&req->out, req->out_sent);
        req->out_sent = 0;
    }
    return n;
}

static ssize_t read_stream(void *cls, uint64_t position, char *buffer, size_t max)
{
    struct http_request *req = cls;
    (void)position;
    if (req->is_gone || req->out.failed)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (buffered(req) == 0) {
        if (req->stream_ended)
            return MHD_CONTENT_READER_END_OF_STREAM;
        req->stream_suspended = true;
        MHD_suspend_connection(req->conn->mhd);
        conn_watch(req->conn, true);
        return 0;
    }
    size_t n = take_out(req, buffer, max);
    if (req->above && buffered(req) < DRAINED_MARK) {
        req->above = false;
        if (req->drained)
            req->drained(req, req->drained_userdata);
    }
    return (ssize_t)n;
}

void http_stream_begin(struct http_request *req, int status, const char *content_type,
                       void (*drained)(struct http_request *req, void *userdata), void *userdata)
{
    if (req->inner) {
        inner_stream_begin(req, status, content_type);
        return;
    }
    req->stream = true;
    req->drained = drained;
    req->drained_userdata = userdata;
    answer(
        req, status, content_type,
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, read_stream, req, NULL));
}

static void wake(struct http_request *req)
{
    if (!req->stream_suspended)
        return;
    req->stream_suspended = false;
    request_resume(req);
}

size_t http_stream_write(struct http_request *req, const void *data, size_t len)
{
    if (req->inner)
        return inner_write(req, data, len);
    if (!req->is_gone && !req->stream_ended) {
        strbuf_append(&req->out, data, len);
        req->above |= buffered(req) >= DRAINED_MARK;
        wake(req);
    }
    return buffered(req);
}

void http_stream_end(struct http_request *req)
{
    if (req->inner) {
        inner_stream_end(req);
        return;
    }
    req->stream_ended = true;
    req->gone = NULL;
    req->drained = NULL; // the owner may be freed before the last bytes are taken
    wake(req);
}
