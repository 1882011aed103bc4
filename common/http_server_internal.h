// SPDX-License-Identifier: Apache-2.0
// Shared by http_server.c (daemon and loop), http_listen.c (accepting), http_request.c (from bytes
// to handlers) and http_response.c.
#pragma once

#include "common/http_server.h"
#include "common/strbuf.h"

#include <microhttpd.h>

struct http_conn;
struct http_inner;

struct http_listener {
    struct http_server *server;
    uv_poll_t poll;
    int fd;
    bool tls;
    uv_timer_t retry; // after an accept that failed for want of something
    int handles;
    bool paused; // no descriptor or no place for a further connection
    char *path;  // unix: removed at close
    struct http_listener *prev, *next;
};

struct http_server {
    struct http_server_options options;
    struct MHD_Daemon *daemon;
    uv_poll_t epoll;   // libmicrohttpd's own epoll descriptor
    uv_timer_t timer;  // its next timeout
    uv_prepare_t kick; // runs it when something was resumed or added
    bool kicked;
    struct http_listener *listeners;
    struct tls_front *front;  // NULL without a TLS listener
    struct http_conn **by_fd; // connections by the descriptor that libmicrohttpd has
    size_t by_fd_size;
    struct http_conn *conns;
    unsigned n_conns;
    unsigned n_local; // of them through unix sockets
    uint64_t accepts, accept_pauses, turns;
    int handles; // open uv handles of the server itself and its listeners
    bool closing, stopped;
    void (*closed)(void *userdata);
    void *closed_userdata;
};

struct http_conn {
    struct http_server *server;
    int fd;
    struct MHD_Connection *mhd; // NULL before it started and after it ended
    struct http_peer peer;
    uv_timer_t deadline; // headers, body
    uv_poll_t gone;      // client's end while the connection is suspended
    bool gone_open;      // handle exists
    bool watching;
    struct http_request *req; // current one
    char *path;               // raw target of the coming request, without the query
    int handles;
    bool ended;
    struct http_conn *prev, *next;
};

enum request_state { REQUEST_BODY, REQUEST_READY, REQUEST_HELD, REQUEST_ANSWERED };

struct respond_header {
    char *name, *value;
    struct respond_header *next;
};

struct http_request {
    struct http_conn *conn;   // NULL of an inner request
    struct http_inner *inner; // NULL of a connection's request
    char *method, *path;
    enum request_state state;
    size_t body_limit;
    struct strbuf body;
    int (*chunk)(struct http_request *req, const char *data, size_t len, void *userdata);
    bool discard; // answered or refused while the body still comes
    bool ready_called;
    void *data;
    void (*gone)(struct http_request *req, void *userdata);
    void *gone_userdata;
    bool is_gone;
    struct respond_header *headers;
    struct MHD_Response *response;
    int status;
    bool queued;
    // a streamed answer
    bool stream, stream_ended, stream_suspended;
    struct strbuf out;
    size_t out_sent; // bytes at its front that are gone already
    bool above;      // the buffer was above the mark: `drained` is due when it falls
    void (*drained)(struct http_request *req, void *userdata);
    void *drained_userdata;
};

// http_server.c
void server_kick(struct http_server *s);
// Hands a connected descriptor to libmicrohttpd; closes it on failure.
int server_add_connection(struct http_server *s, int fd, const struct http_peer *peer) WARN_UNUSED;
void conn_deadline(struct http_conn *c, unsigned ms); // 0 = stop
void conn_busy(struct http_conn *c, bool busy);       // it has a request, or none any more
void conn_watch(struct http_conn *c, bool on);        // for the client's end, while suspended
// http_listen.c
void listeners_close(struct http_server *s);
void server_handle_closed(
    struct http_server *s); // one of its handles is closed; frees after the last
void listeners_unpause(struct http_server *s);
// http_request.c
enum MHD_Result request_access(void *cls, struct MHD_Connection *mhd, const char *url,
                               const char *method, const char *version, const char *upload,
                               size_t *upload_size, void **con_cls);
void request_completed(void *cls, struct MHD_Connection *mhd, void **con_cls,
                       enum MHD_RequestTerminationCode code);
void request_client_gone(struct http_request *req); // while held or streaming
void request_resume(struct http_request *req);
void request_tell_gone(struct http_request *req);
void request_free(struct http_request *req);
// http_inner.c: what an inner request does where one of a connection asks libmicrohttpd
const char *inner_header(const struct http_request *req, const char *name);
const char *inner_query(const struct http_request *req, const char *name);
const struct http_peer *inner_peer(const struct http_request *req);
void inner_respond(struct http_request *req, int status, const char *content_type, const void *body,
                   size_t len);
void inner_respond_file(struct http_request *req, int status, const char *content_type, int fd,
                        uint64_t offset, uint64_t len);
void inner_stream_begin(struct http_request *req, int status, const char *content_type);
size_t inner_write(struct http_request *req, const void *data, size_t len);
void inner_stream_end(struct http_request *req);
// http_response.c
void response_problem(struct http_request *req, int status, const char *title, const char *detail);
enum MHD_Result response_queue(struct http_request *req);
