// SPDX-License-Identifier: Apache-2.0
// Requests to the master, one at a time, on a loop of its own: a call returns when it is answered.
#pragma once

#include "common/err.h"
#include "common/strbuf.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct api;
struct api_sealed;

struct api_target {
    char *url;         // "https://127.0.0.1:7420"; with a socket only for messages
    char *unix_socket; // NULL = TCP
    char *token;       // NULL = none
    char *ca_pem;      // NULL with a socket, and with no_verify
    bool no_verify;    // only to fetch a CA whose fingerprint is checked afterwards, and for
                       // sealed requests, which trust nothing below
    char *origin;      // where this came from, for messages: "--dir /x", "context local"
};
// What it owns, not the struct.
void api_target_free(struct api_target *t);

int api_open(const struct api_target *target, struct api **ret,
             struct err *e) WARN_UNUSED; // copies
void api_close(struct api *a);           // NULL allowed
// From now on every request goes in an envelope, without the token. Takes it.
void api_use_sealed(struct api *a, struct api_sealed *sealed);
const char *api_url(const struct api *a);
const char *api_origin(const struct api *a);

#define API_TIMEOUT_MS 30000
#define API_NO_TIMEOUT UINT32_MAX
#define API_HEADERS_MAX 4

struct api_request {
    const char *method;
    const char *path;                     // with query
    const char *content_type;             // of the body
    const char *accept;                   // NULL = application/json
    const char *headers[API_HEADERS_MAX]; // "Name: value"; unused are NULL
    const void *body;
    size_t body_len;
    bool upload; // the body is file_len bytes of fd
    int fd;
    uint64_t file_len;
    unsigned timeout_ms;  // 0 = API_TIMEOUT_MS
    unsigned silence_ms;  // no byte for this long is a lost connection; 0 = not looked at
    unsigned patience_ms; // go on trying to connect for this long; for reading only
    int (*chunk)(const char *data, size_t len,
                 void *userdata); // bytes of a 2xx answer as they come
    void *userdata;
};

struct api_answer {
    int status;
    char *content_type; // "" when absent
    char *body;         // NUL-terminated; "" when it went to `chunk`
    size_t len;
};
// What it owns, not the struct.
void api_answer_free(struct api_answer *answer);

// Sends it with the token, and an Idempotency-Key when it changes something; a connection that
// breaks is tried once more. 0 when there is an answer of whatever status; -ECONNREFUSED,
// -EHOSTUNREACH, -ETIMEDOUT, -EACCES (certificate), -EIO..., -EINTR after an interrupt, -ECANCELED
// when `chunk` refused, -ENOTSUP for what can't be sealed.
int api_call(struct api *a, const struct api_request *req, struct api_answer *ret,
             struct err *e) WARN_UNUSED;

// From now on Ctrl-C and SIGTERM end the call under way with -EINTR instead of the program, and a
// pipe on standard output that nobody reads any more with -EPIPE.
int api_catch_interrupt(struct api *a) WARN_UNUSED;

// Percent-encodes what may not stand in a path segment or query value ('/' too, unless keep_slash).
void api_encode(struct strbuf *b, const char *text, bool keep_slash);
