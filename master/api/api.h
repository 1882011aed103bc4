// SPDX-License-Identifier: Apache-2.0
// What every handler works with: the call (who asks for what) and the ways to answer it. A handler
// validates, calls one cluster verb, and answers through one of the functions below, which hold the
// answer until what it tells is durable.
#pragma once

#include "common/http_server.h"
#include "master/cluster/cluster.h"
#include "master/cluster/user.h"
#include "master/store/store.h"

struct api;
struct log_store;
struct tokens;
struct idempotency;
struct backup;
struct audit;
struct master_keys;
struct user_keys;
struct sealed;
struct limits;

struct principal {
    enum role role;
    char user[NAME_BYTES];   // "" for nodes
    char token_id[ID_BYTES]; // "" when local
    char key_id[64];         // of the key that signed a sealed request; "" without one
    struct node *node;       // ROLE_NODE
    unsigned rights;         // enum user_right; 0 for nodes
    bool local;              // through the unix socket: `user` is the name of the OS user
    bool sealed;             // the request came in an envelope: identity is that key alone
};

struct api_settings {
    uv_loop_t *loop;
    const char *shared_data; // folder
    const char *data_dir;    // of the master
    const char *ca_cert_pem, *ca_key_pem;
    int64_t node_cert_life_s;
    const struct server_cert *server_cert; // also what clients are to trust
    const char *url;                       // what others use: "https://10.0.0.1:7420"
    gid_t socket_group; // whose members administrate through the socket; -1 = none
    int64_t started_ms;
};

struct api { // one per master; the handlers' files read it
    struct api_settings settings;
    struct cluster *cluster;
    struct store *store;
    struct log_store *logs;
    struct tokens *tokens;
    struct idempotency *idempotency;
    struct audit *audit; // NULL = none is kept (tests)
    struct master_keys *master_keys;
    struct user_keys *user_keys;
    struct sealed *sealed;
    struct backup *backup;
    struct http_server *server; // NULL until it listens
    struct limits *limits;      // NULL = none (tests)
    struct waiters *waiters;    // held GETs (jobs, cluster)
    struct stream *event_streams;
    struct log_stream *log_streams;
    bool closing;
};

#define CALL_PARAMS 3
struct call {
    struct api *api;
    struct http_request *req;
    const struct route *route;
    struct principal who;
    char params[CALL_PARAMS][256]; // decoded path parameters, in order
    char idempotency_key[80];      // "" = none; a digest
    char request_id[ID_BYTES];     // told as X-Request-Id and in the audit
    bool audited;                  // its line is written
    // ROUTE_STREAM_BODY only: set by the handler, which is called when the headers are in.
    void (*body_end)(struct call *call);  // the body is complete: answer
    void (*body_gone)(struct call *call); // the client went away: free ctx
    void *ctx;
};
// ROUTE_STREAM_BODY only: the call was answered before its body's end; frees it.
void call_end(struct call *call);

enum route_flags {
    ROUTE_MUTATES = 1,     // refused while the store is down; Idempotency-Key honoured
    ROUTE_STREAM_BODY = 2, // `begin` of the handler takes the body itself
    ROUTE_AUDITED = 4,     // a change that doesn't touch the store (files): has its audit line
    ROUTE_DATA_WRITE = 8,  // needs RIGHT_DATA_WRITE
    ROUTE_EXEC = 16,       // needs RIGHT_EXEC
    ROUTE_NOT_SEALED = 32, // never in an envelope
};
struct route {
    const char *method;
    const char *pattern; // "/v1/jobs/{j}:stop"; "{path...}" last takes the rest
    enum role role;
    int flags;
    void (*handler)(struct call *call);
    size_t body_limit; // 0 = none expected
};
extern const struct route api_routes[]; // ends with method NULL

// The http_server's handlers; userdata = the api.
extern const struct http_handlers api_http_handlers;

// --- answers; each ends the call (the struct is the router's) ---
void api_problem(struct call *call, int status, const char *fmt, ...) PRINTF_LIKE(3, 4);
// problem+json with the given members added (takes `extra`, may be NULL).
void api_problem_with(struct call *call, int status, json_t *extra, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
// Now, whatever is pending (health, metrics, agents' refusals). Takes body.
void api_reply_now(struct call *call, int status, json_t *body);
// A read: what it shows is durable when it leaves. Takes body.
void api_reply(struct call *call, int status, json_t *body);
// As api_reply, of another media type (a literal). Takes the text; NULL = out of memory.
void api_reply_text(struct call *call, int status, const char *type, char *text);
// A change: answered when durable; stored with the call's idempotency key in the same batch. Takes
// body.
void api_reply_changed(struct call *call, int status, json_t *body);
// A -errno of a verb as the fitting status.
void api_reply_error(struct call *call, int code, const struct err *e);

// The JSON body, an object. Answers the problem itself and returns NULL when it is none. Caller
// owns it.
json_t *api_body(struct call *call);
// Used part of the fuller of two disks, whole percent: of the master's data folder, and of its own
// Redis', which may be another. `ret_whose`: "master" or "store".
int api_disk_percent(const struct api *a, const char **ret_whose);
// ?limit= (1..1000, default 100). Answers 400 itself and returns -1.
int api_limit(struct call *call);
int api_limit_to(struct call *call, int most); // instead of 1000
// {items, next, total}; takes items.
json_t *api_list(json_t *items, const char *next, size_t total);

// --- ownership (owner.c): what is his own, or anybody's when he is an operator ---
// The job of parameter 0, whoever's it is, or answers 404. The caller's own of that name comes
// first.
struct job *api_job(struct call *call);
// The same, or answers 403 when it isn't the caller's: "to <what> it needs the role operator".
struct job *api_own_job(struct call *call, const char *what);
// Its reason, which may quote what ran, unless it only waits.
bool api_sees_reason(const struct call *call, const struct job *j);
// job_view, without what is the owner's alone when the caller isn't; then it says `hidden`.
json_t *api_job_view(const struct call *call, const struct job *j, bool whole);
// event_view, without the reason when it tells of somebody else's job.
json_t *api_event_view(struct api *a, const struct principal *who, const struct event *ev);
// Whether who was let in a while ago would be let in now, with as much power.
bool api_still_valid(const struct api *a, const struct principal *who);
// After a token or user was taken away: ends the open streams and held answers of those who would
// not be let in any more.
void api_recheck(struct api *a);
void events_recheck(struct api *a);
void logs_recheck(struct api *a);
void held_recheck(struct api *a);

// Held GETs: runs `ready` after each durable event until it returns true or the time is over (then
// once with last = true, which must answer) or the client is gone (never called again). ctx is
// freed with free() at the end.
void api_hold(struct call *call, int64_t wait_ms,
              bool (*ready)(struct call *call, void *ctx, bool last), void *ctx);
// At closing: each ends or answers what it holds.
void api_release_held(struct api *a);
void events_release(struct api *a);
void logs_release(struct api *a);

// Whose answer leaves later: a request that may be gone by then. Used by api.c, agents.c.
struct parked {
    struct http_request *req; // NULL once the client is gone
};
void parked_init(struct parked *p, struct http_request *req);
