// SPDX-License-Identifier: Apache-2.0
// A request that comes from inside another one instead of a connection: handlers see an ordinary
// http_request, and what they answer goes to a function. A streamed answer is collected up to a
// bound.
#pragma once

#include "common/http_server.h"

struct http_inner_header {
    const char *name, *value;
};

struct http_inner_answer { // borrowed for the call
    int status;
    const char *content_type; // NULL = none
    const char *body;
    size_t len;
};

struct http_inner_options {
    uv_loop_t *loop;
    const struct http_peer *peer;
    const char *method;
    const char *target; // raw path, with the query
    const struct http_inner_header *headers;
    size_t n_headers;
    const void *body;
    size_t len;
    size_t answer_limit; // bytes; a longer answer becomes a 413 that says so
    // From the loop, once, after the owner's answer; the request is freed behind it.
    void (*answered)(const struct http_inner_answer *answer, void *userdata);
    void *userdata;
};

// Makes a request whose body is complete (`begin` and `ready` are the caller's business); all is
// copied. -EINVAL when the query is malformed, -ENOMEM.
int http_inner_new(const struct http_inner_options *o, struct http_request **ret) WARN_UNUSED;
// Nobody waits for the answer any more: the owner gets `gone` if it has not answered, `answered` is
// not called.
void http_inner_cancel(struct http_request *req);
