// SPDX-License-Identifier: Apache-2.0
// An HTTP client on a libuv loop: libcurl's multi interface. For agent -> master (TLS, pinned CA,
// client certificate), agent -> container engine (unix socket) and the command -> master.
#pragma once

#include "common/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct http_client; // a connection pool to one server
struct http_call;   // one request under way

struct http_client_options {
    uv_loop_t *loop;
    const char *base_url;    // "https://10.0.0.1:7420" or "http://engine" with unix_socket
    const char *unix_socket; // NULL for TCP
    const char *ca_pem;      // pinned: nothing else is trusted. NULL with http only
    bool no_verify; // only to fetch a CA whose fingerprint is checked afterwards; nothing secret is
                    // sent
    const char *cert_pem; // client certificate, or NULL
    const char *key_pem;
    unsigned connect_timeout_ms;
    unsigned max_connections; // 0 = libcurl's default
};

// Copies the options. Owned by the caller, ended by http_client_close.
int http_client_new(const struct http_client_options *options, struct http_client **ret,
                    struct err *e) WARN_UNUSED;
// Calls from now on use these (copied; NULL = as before): new connections are made for them, calls
// under way end on theirs.
int http_client_set_certs(struct http_client *c, const char *ca_pem, const char *cert_pem,
                          struct err *e) WARN_UNUSED;
// Cancels calls under way (each completes with -ECANCELED before this returns) and frees later from
// the loop; `closed` may be NULL.
void http_client_close(struct http_client *c, void (*closed)(void *userdata), void *userdata);

struct http_result {
    int error;      // 0, or -ECANCELED, -ETIMEDOUT, -ECONNREFUSED, -EHOSTUNREACH, -EPROTO, -EACCES
                    // (certificate refused), -EIO
    struct err err; // text when error != 0
    int status;     // HTTP status when error == 0
    const char *body; // NUL-terminated; whole body unless streamed; borrowed for the callback
    size_t len;
    const char *content_type; // may be NULL
};

struct http_call_options {
    const char *method;
    const char *path;           // with query, appended to base_url
    const char *const *headers; // NULL-terminated list of "Name: value", or NULL
    const void *body;           // copied; NULL = none
    size_t body_len;
    int body_fd; // >= 0 only with upload_from_fd: streamed from here, borrowed until done
    bool upload_from_fd;
    uint64_t body_fd_len;
    unsigned timeout_ms;      // whole call; 0 = none
    unsigned idle_timeout_ms; // no byte for this long; 0 = none (rounded up to seconds)
    size_t body_limit;        // of a buffered answer; 0 = 64 MiB
    bool new_connection;      // not over one that is there
    // When set, bytes of 2xx answers go here as they come. Non-2xx bodies are buffered as usual.
    // Return 0, or negative to abort (done gets -ECANCELED).
    int (*chunk)(const char *data, size_t len, void *userdata);
    // Exactly once, never from inside http_call_start. The call object is freed after it returns.
    void (*done)(const struct http_result *result, void *userdata);
    void *userdata;
};

// Starts a call. *ret (may be NULL) is weak: valid until done was called.
int http_call_start(struct http_client *c, const struct http_call_options *options,
                    struct http_call **ret, struct err *e) WARN_UNUSED;
// Completes it with -ECANCELED from inside this call.
void http_call_cancel(struct http_call *call);
