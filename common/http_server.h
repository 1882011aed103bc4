// SPDX-License-Identifier: Apache-2.0
// An HTTP/1.1 server on a libuv loop: libmicrohttpd without threads, our own TLS front
// (tls_front.h) before it for TCP, a plain unix socket for local callers. One request object, one
// answer.
//
// Life of a request: headers arrive -> `begin` decides what to do with the body -> body bytes ->
// `ready` exactly once -> the owner answers now or later (the connection is held meanwhile) -> the
// request object is freed by the server after its last callback. A held request whose client goes
// away gets its `gone` callback exactly once; answering it afterwards is not allowed.
#pragma once

#include "common/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

struct http_server;
struct http_request;

struct http_peer {
    bool local;            // came through the unix socket
    uid_t uid;             // local only
    gid_t gid;             // local only: primary group
    pid_t pid;             // local only
    char address[64];      // TCP only: "192.0.2.1" or "2001:db8::1"
    bool has_cert;         // TLS client certificate verified against our CA
    char cert_cn[128];     // its subject CN: a node id
    char cert_sha256[65];  // lower-case hex of the DER; "" without one
    int64_t cert_until_ms; // end of its validity; may be over: whoever relies on it compares
};

struct http_handlers {
    // Headers are in, no body byte yet. May answer at once (then the body is not read and `ready`
    // is not called); may call http_request_body_limit or http_request_stream_body. Optional.
    void (*begin)(struct http_request *req, void *userdata);
    // The whole body is there (or streamed). Must lead to one answer, now or later.
    void (*ready)(struct http_request *req, void *userdata);
};

// Limits of the TLS side; all zero: only max_connections counts. At a limit, what had its time
// (common/limits.h) makes room: the oldest handshake, the people's connection that is idle for
// longest.
struct http_limits {
    unsigned people;         // connections that are no agents' in all
    unsigned address_people; // of one address (IPv6: one /64)
    unsigned handshakes;     // under way in all; also how many may linger after their end
    unsigned address_handshakes;
    unsigned handshake_timeout_ms; // 0 = 10 s
    // Whether the peer, whose certificate is verified, is an agent. NULL = nobody is. Gets the
    // server's userdata, as does `offence`.
    bool (*is_agent)(const struct http_peer *peer, void *userdata);
    // An address was refused for `what` ("connections", "handshakes", "all connections"). Optional.
    void (*offence)(const char *address, const char *what, void *userdata);
};

struct http_server_options {
    uv_loop_t *loop;
    const struct http_handlers *handlers; // borrowed, must outlive the server
    void *userdata;
    size_t body_limit;          // default limit of a buffered body, bytes
    unsigned header_timeout_ms; // from accept (or the end of the last answer's first new byte) to
                                // headers complete
    unsigned body_timeout_ms;   // from headers to the end of a buffered body
    unsigned idle_timeout_ms;   // keep-alive connections without a request
    unsigned max_connections;   // TLS ones, handshakes too
    unsigned max_local;         // local ones; 0 = max_connections
    struct http_limits limits;
};

struct http_server_stats {
    // now
    unsigned handshakes, agents, people_idle, people_busy, lingering, local;
    // since the start
    uint64_t accepts;       // calls of accept
    uint64_t accept_pauses; // times that a listener rested
    uint64_t turns;         // of the loop
    uint64_t handshakes_done, handshakes_failed, handshakes_evicted;
    uint64_t refused_address, refused_full, evicted_idle, bad_requests, starved;
};

// Creates a server without listeners; the process ignores SIGPIPE from then on. On success *ret is
// owned by the caller, ended by http_server_close.
int http_server_new(const struct http_server_options *options, struct http_server **ret,
                    struct err *e) WARN_UNUSED;

// Listens on a unix socket (created with mode `mode`, group `gid` unless (gid_t)-1; a stale socket
// file is replaced only when nobody answers on it, else -EADDRINUSE). Path under 100 bytes.
int http_server_listen_unix(struct http_server *s, const char *path, mode_t mode, gid_t gid,
                            struct err *e) WARN_UNUSED;

struct tls_server_options {
    const char *cert_pem; // server certificate chain
    const char *key_pem;
    const char *ca_pem; // clients' certificates are asked for (optional) and verified against it
    bool allow_tls12;   // else 1.3 only
};
// Listens with TLS on address:port ("0.0.0.0", "::", port 0 = any free one; the port taken is
// returned).
int http_server_listen_tls(struct http_server *s, const char *address, uint16_t port,
                           const struct tls_server_options *tls, uint16_t *ret_port,
                           struct err *e) WARN_UNUSED;
// Replaces certificate and key for new connections.
int http_server_set_tls(struct http_server *s, const struct tls_server_options *tls,
                        struct err *e) WARN_UNUSED;

// Stops listening and closes every connection (held requests get `gone`); `closed` is called from
// the loop after the last handle is closed and memory is freed.
void http_server_close(struct http_server *s, void (*closed)(void *userdata), void *userdata);
unsigned http_server_connections(const struct http_server *s); // open now, whoever's
void http_server_stats(const struct http_server *s, struct http_server_stats *ret);

// --- the request; strings live as long as it does ---
const char *http_request_method(const struct http_request *req);
const char *
http_request_path(const struct http_request *req); // decoded by nobody: raw path, no query
const char *http_request_header(const struct http_request *req,
                                const char *name); // NULL when absent; case-insensitive
const char *http_request_query(const struct http_request *req,
                               const char *name); // decoded; NULL when absent
const struct http_peer *http_request_peer(const struct http_request *req);
const char *http_request_body(const struct http_request *req,
                              size_t *ret_len);                   // buffered body, NUL-terminated
void http_request_set_data(struct http_request *req, void *data); // the owner's pointer
void *http_request_data(const struct http_request *req);

// In `begin` only. A larger body is answered 413 by the server (problem+json).
void http_request_body_limit(struct http_request *req, size_t bytes);
// In `begin` only: body bytes go to `chunk` instead of the buffer, without the buffered body's
// deadline (a chunk is due within body_timeout_ms of the last). `chunk` returns 0, or a negative
// errno to stop reading: then the handler must have answered.
void http_request_stream_body(struct http_request *req,
                              int (*chunk)(struct http_request *req, const char *data, size_t len,
                                           void *userdata));

// The client disconnected before the answer was complete. Also called when a streamed answer can't
// be delivered, and when the server itself answers 413 because the body is too large. Not called
// after a complete answer. Register at any time before answering.
void http_request_on_gone(struct http_request *req,
                          void (*gone)(struct http_request *req, void *userdata), void *userdata);

// --- the answer: exactly one of respond / respond_file / stream ---
// Extra header, before the answer; both copied.
void http_respond_header(struct http_request *req, const char *name, const char *value);
// Body is copied. content_type NULL = none.
void http_respond(struct http_request *req, int status, const char *content_type, const void *body,
                  size_t len);
// Takes the descriptor; sends `len` bytes from `offset`.
void http_respond_file(struct http_request *req, int status, const char *content_type, int fd,
                       uint64_t offset, uint64_t len);
// Chunked answer without an end yet. `drained` (optional) is called when the buffered bytes fell
// below 64 KiB again.
void http_stream_begin(struct http_request *req, int status, const char *content_type,
                       void (*drained)(struct http_request *req, void *userdata), void *userdata);
// Copies into the stream's buffer and wakes the connection. Returns bytes now buffered; the writer
// stops at its own bound.
size_t http_stream_write(struct http_request *req, const void *data, size_t len);
// What is buffered still goes out; neither `drained` nor `gone` is called any more.
void http_stream_end(struct http_request *req);
