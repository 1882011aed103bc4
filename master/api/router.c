// SPDX-License-Identifier: Apache-2.0
// From a request to its handler: match the table, find out who asks, check role, store and
// idempotency, call. 401 comes before 404 and 405, so that nobody learns routes without a token.
#include "common/cleanup.h"
#include "common/json.h"
#include "common/text.h"
#include "master/api/agents.h"
#include "master/api/audit.h"
#include "master/api/idempotency.h"
#include "master/api/limits.h"
#include "master/api/local_user.h"
#include "master/api/router.h"
#include "master/api/tokens.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

// One path parameter; no NUL, no control characters, not empty.
static int decode(const char *from, size_t len, char out[256])
{
    char plain[3 * 256];
    int n = len < sizeof(plain) ? text_percent_decode(from, len, plain) : -EINVAL;
    if (n <= 0 || n >= 256)
        return -EINVAL;
    for (int i = 0; i < n; i++)
        if ((unsigned char)plain[i] < 0x20 || plain[i] == 0x7f)
            return -EINVAL;
    memcpy(out, plain, (size_t)n + 1);
    return 0;
}

// Where a parameter ends: at '/', or at the literal text that follows it in the pattern (":stop").
static size_t param_length(const char *path, const char *rest)
{
    size_t len = strcspn(path, "/");
    size_t suffix = strcspn(rest, "/{");
    if (suffix == 0) {
        // "{j}" must not swallow a verb: a ':' belongs to another route.
        return memchr(path, ':', len) ? 0 : len;
    }
    if (len <= suffix || strncmp(path + len - suffix, rest, suffix) != 0)
        return 0;
    return len - suffix;
}

bool router_match(const char *pattern, const char *path, char params[CALL_PARAMS][256])
{
    int n = 0;
    while (*pattern) {
        if (*pattern != '{') {
            if (*pattern++ != *path++)
                return false;
            continue;
        }
        const char *rest = strchr(pattern, '}') + 1;
        bool all = strncmp(rest - 4, "...", 3) == 0;
        size_t len = all ? strlen(path) : param_length(path, rest);
        if (len == 0 || n == CALL_PARAMS || decode(path, len, params[n]) < 0)
            return false;
        n++;
        path += len;
        pattern = rest;
    }
    return *path == '\0';
}

const struct route *router_find(const struct route *routes, const char *method, const char *path,
                                char params[CALL_PARAMS][256], char *ret_allow, size_t allow_size)
{
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    ret_allow[0] = '\0';
    for (const struct route *r = routes; r->method; r++) {
        if (!router_match(r->pattern, path, params))
            continue;
        if (strcmp(r->method, wanted) == 0)
            return r;
        size_t len = strlen(ret_allow);
        (void)snprintf(ret_allow + len, allow_size - len, "%s%s", len ? ", " : "", r->method);
    }
    return NULL;
}

static bool local_principal(const struct api *a, const struct http_peer *peer,
                            struct principal *who)
{
    who->local = true;
    if (!local_user_allowed(a->settings.socket_group, peer->uid, peer->gid, who->user))
        return false;
    who->role = ROLE_ADMIN;
    who->rights = RIGHTS_ALL;
    return true;
}

// False when the caller proved nothing.
static bool authenticate(struct call *call)
{
    const struct http_peer *peer = http_request_peer(call->req);
    const char *header = http_request_header(call->req, "Authorization");
    if (header)
        return strncasecmp(header, "Bearer ", 7) == 0 &&
               tokens_check(call->api->tokens, header + 7, &call->who);
    if (peer->local)
        return local_principal(call->api, peer, &call->who);
    return false;
}

static bool allowed(const struct call *call)
{
    if (call->route->role == ROLE_NODE || call->who.role == ROLE_NODE)
        return call->route->role == call->who.role;
    return call->who.role >= call->route->role;
}

// The right that the route needs and the caller lacks; 0 = none.
static unsigned lacking(const struct call *call)
{
    unsigned needed = (call->route->flags & ROUTE_EXEC ? RIGHT_EXEC : 0u) |
                      (call->route->flags & ROUTE_DATA_WRITE ? RIGHT_DATA_WRITE : 0u);
    return needed & ~call->who.rights;
}

static bool store_usable(struct call *call)
{
    const char *reason = "";
    if (call->route->flags & (ROUTE_MUTATES | ROUTE_AUDITED) && !audit_usable(call->api->audit)) {
        api_problem(call, 503,
                    "the audit can't be written, so no change is accepted: see the log "
                    "of the master and the space on its disk");
        return false;
    }
    if (!(call->route->flags & ROUTE_MUTATES) || store_ok(call->api->store, &reason))
        return true;
    api_problem(
        call, 503,
        "the store is not available (%s): nothing was changed; try again when /readyz says ready",
        reason);
    return false;
}

// Everything but the body is known. False when the call is answered.
static bool admit(struct call *call)
{
    char allow[64];
    const char *path = http_request_path(call->req);
    call->route = router_find(api_routes, http_request_method(call->req), path, call->params, allow,
                              sizeof(allow));
    // An envelope's address was counted when it came.
    if (!call->who.sealed && !limits_admit_address(call->api->limits, call))
        return false;
    if (call->route && call->route->role == ROLE_OPEN)
        return true;
    const struct http_peer *peer = http_request_peer(call->req);
    bool by_cert = peer->has_cert && !http_request_header(call->req, "Authorization");
    if (!call->who.sealed && by_cert && !agents_authenticate(call, peer))
        return false;
    if (!call->who.sealed && !by_cert && !authenticate(call) && call->who.local) {
        api_problem(call, 403,
                    "%s may not administrate through the socket: that takes root, the master's own "
                    "user, or the group of the socket; use a token instead",
                    call->who.user);
        return false;
    } else if (call->who.role == ROLE_OPEN) {
        api_problem(call, 401,
                    "a bearer token is needed (Authorization: Bearer ...), and the one given, if "
                    "any, is not valid");
        return false;
    }
    if (!call->route && allow[0]) {
        http_respond_header(call->req, "Allow", allow);
        api_problem(call, 405, "%s is not possible on %.200s; possible: %s",
                    http_request_method(call->req), path, allow);
    } else if (!call->route) {
        api_problem(call, 404, "no route %.200s", path);
    } else if (!allowed(call)) {
        api_problem(call, 403, "this needs the role %s; you have %s",
                    role_to_string(call->route->role), role_to_string(call->who.role));
    } else if (lacking(call)) {
        api_problem(call, 403, "this needs the right %s, which %s has not been given",
                    right_to_string((enum user_right)lacking(call)), call->who.user);
    } else {
        return limits_admit_identity(call->api->limits, call) && store_usable(call);
    }
    return false;
}

static void call_gone(struct http_request *req, void *userdata)
{
    struct call *call = userdata;
    (void)req;
    if (call->body_gone)
        call->body_gone(call);
    free(call);
}

void call_end(struct call *call)
{
    http_request_on_gone(call->req, NULL, NULL);
    http_request_set_data(call->req, NULL);
    free(call);
}

static void begin(struct http_request *req, void *userdata)
{
    struct call *call = calloc(1, sizeof(*call));
    struct call answered = {.api = userdata, .req = req};
    if (!call) {
        api_problem(&answered, 503, "out of memory");
        return;
    }
    call->api = userdata;
    call->req = req;
    if (id_new('r', call->request_id) == 0)
        http_respond_header(req, "X-Request-Id", call->request_id);
    if (!admit(call)) {
        free(call);
        return;
    }
    http_request_set_data(req, call);
    http_request_on_gone(req, call_gone, call); // until the body is there
    if (call->route->flags & ROUTE_STREAM_BODY)
        call->route->handler(call);
    else
        http_request_body_limit(req, call->route->body_limit);
}

// What was allowed when the headers came may have been taken away while the body did. Answers 401.
static bool still_welcome(struct call *call)
{
    const char *node = http_request_peer(call->req)->cert_cn;
    bool welcome = call->who.role == ROLE_NODE
                       ? cluster_node_by_id(call->api->cluster, node) == call->who.node
                       : call->who.role == ROLE_OPEN || api_still_valid(call->api, &call->who);
    if (welcome)
        return true;
    if (call->body_gone)
        call->body_gone(call);
    api_problem(call, 401, "what was shown with this request has been taken away meanwhile");
    return false;
}

static void ready(struct http_request *req, void *userdata)
{
    struct call *call = http_request_data(req);
    (void)userdata;
    if (!call)
        return; // answered while its body was read
    http_request_on_gone(req, NULL, NULL);
    if (!still_welcome(call)) {
        free(call);
        return;
    }
    if (call->route->flags & ROUTE_STREAM_BODY)
        call->body_end(call);
    else if (!(call->route->flags & ROUTE_MUTATES) ||
             idempotency_admit(call->api->idempotency, call))
        call->route->handler(call);
    free(call);
}

// --- sealed ---

static bool asks_for_stream(const struct http_request *req)
{
    const char *accept = http_request_header(req, "Accept");
    const char *follow = http_request_query(req, "follow");
    return (accept && strstr(accept, "text/event-stream")) ||
           (follow && strcmp(follow, "0") != 0 && strcmp(follow, "false") != 0);
}

// Known by the path alone, so that it is the same for every method and role.
static bool sealable(struct call *call)
{
    const char *path = http_request_path(call->req);
    const struct route *r = call->route;
    size_t len;
    (void)http_request_body(call->req, &len);
    if (strncmp(path, "/v1/agent/", 10) == 0 || strcmp(path, "/v1/join") == 0)
        api_problem(call, 403, "%.60s is for nodes, which have certificates: never sealed", path);
    else if (strcmp(path, "/v1/sealed") == 0 || (r && r->flags & ROUTE_NOT_SEALED))
        api_problem(call, 403, "%.60s can't be inside a sealed request", path);
    else if (r && r->flags & ROUTE_STREAM_BODY)
        api_problem(call, 422,
                    "uploads can't be sealed: use a token over TLS (`meadow data push`)");
    else if (asks_for_stream(call->req))
        api_problem(
            call, 422,
            "streams can't be sealed: leave out follow and text/event-stream (ask again, or "
            "with wait=), or use a token over TLS");
    else if (r && len > r->body_limit)
        api_problem(call, 413, "the body may have at most %zu bytes", r->body_limit);
    else
        return true;
    return false;
}

void router_inner(struct api *a, struct http_request *req, const struct principal *who)
{
    char allow[64];
    struct call call = {.api = a, .req = req, .who = *who};
    call.route = router_find(api_routes, http_request_method(req), http_request_path(req),
                             call.params, allow, sizeof(allow));
    if (!sealable(&call) || !admit(&call))
        return;
    if (!(call.route->flags & ROUTE_MUTATES) || idempotency_admit(a->idempotency, &call))
        call.route->handler(&call);
}

const struct http_handlers api_http_handlers = {.begin = begin, .ready = ready};
