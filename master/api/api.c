// SPDX-License-Identifier: Apache-2.0
// Ways to answer: at once, when pending changes are durable, or as a problem (RFC 9457).
#include "master/api/api.h"

#include "common/cleanup.h"
#include "common/json.h"
#include "common/log.h"
#include "common/text.h"
#include "master/api/audit.h"
#include "master/api/idempotency.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#define ANSWER_WAIT_MS 10000
#define READ_WAIT_MS 5000 // by then a store that hangs is noticed, and reads don't wait for it

static const char *status_title(int status)
{
    static const struct {
        int status;
        const char *title;
    } titles[] = {{400, "Bad Request"},
                  {401, "Unauthorized"},
                  {403, "Forbidden"},
                  {404, "Not Found"},
                  {405, "Method Not Allowed"},
                  {409, "Conflict"},
                  {411, "Length Required"},
                  {413, "Content Too Large"},
                  {415, "Unsupported Media Type"},
                  {422, "Unprocessable Content"},
                  {429, "Too Many Requests"},
                  {500, "Internal Server Error"},
                  {503, "Service Unavailable"},
                  {507, "Insufficient Storage"}};
    for (size_t i = 0; i < ARRAY_SIZE(titles); i++)
        if (titles[i].status == status)
            return titles[i].title;
    return "Error";
}

static void send_json(struct http_request *req, int status, const char *type, const json_t *body)
{
    cleanup_free char *text = json_text(body);
    if (!text)
        http_respond(req, 503, "text/plain", "out of memory\n", 14);
    else
        http_respond(req, status, type, text, strlen(text));
}

static int used_percent(const char *folder)
{
    struct statvfs st;
    if (statvfs(folder, &st) < 0) // no folder: its Redis is elsewhere
        return 0;
    return room_used_percent((int64_t)st.f_blocks, (int64_t)st.f_bavail);
}

int api_disk_percent(const struct api *a, const char **ret_whose)
{
    char store[4096];
    *ret_whose = "master";
    if (!a->settings.data_dir)
        return 0;
    (void)snprintf(store, sizeof(store), "%.4080s/redis", a->settings.data_dir);
    int ours = used_percent(a->settings.data_dir), redis = used_percent(store);
    if (redis <= ours)
        return ours;
    *ret_whose = "store";
    return redis;
}

static json_t *problem_json(int status, const char *detail)
{
    json_t *p = json_object();
    json_put_str(p, "type", "about:blank");
    json_put_str(p, "title", status_title(status));
    json_put_i64(p, "status", status);
    json_put_str(p, "detail", detail);
    return p;
}

PRINTF_LIKE(4, 0)
static void problem_v(struct call *call, int status, json_t *extra, const char *fmt, va_list ap)
{
    char detail[1024];
    struct http_request *req = call->req;
    if (vsnprintf(detail, sizeof(detail), fmt, ap) < 0)
        detail[0] = '\0';
    text_make_utf8(detail); // it may quote what the caller sent
    audit_mask(detail);
    if (call->api)
        audit_problem(call, status, detail);
    json_t *p = problem_json(status, detail);
    if (extra)
        (void)json_object_update(p, extra);
    if (status == 503)
        http_respond_header(req, "Retry-After", "1");
    if (status == 401)
        http_respond_header(req, "WWW-Authenticate", "Bearer realm=\"meadow\"");
    send_json(req, status, "application/problem+json", p);
    json_decref(p);
    json_decref(extra);
}

void api_problem(struct call *call, int status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    problem_v(call, status, NULL, fmt, ap);
    va_end(ap);
}

void api_problem_with(struct call *call, int status, json_t *extra, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    problem_v(call, status, extra, fmt, ap);
    va_end(ap);
}

void api_reply_error(struct call *call, int code, const struct err *e)
{
    static const struct {
        int code, status;
    } map[] = {{-EEXIST, 409}, {-EBUSY, 409},  {-EINVAL, 422}, {-EPROTO, 400}, {-ENOENT, 404},
               {-ENOSPC, 507}, {-ENOMEM, 503}, {-EACCES, 403}, {-EFBIG, 413}};
    int status = 500;
    for (size_t i = 0; i < ARRAY_SIZE(map); i++)
        if (map[i].code == code)
            status = map[i].status;
    api_problem(call, status, "%s", e->text);
}

// --- parked answers ---

#define JSON "application/json"

struct answer {
    struct parked parked;
    const char *type; // its Content-Type
    int waits;        // for the store, for the audit's file
    int result;       // the first failure
    bool read;
    int status;
    char *text;
};

static void on_gone(struct http_request *req, void *userdata)
{
    struct parked *p = userdata;
    (void)req;
    p->req = NULL;
}

void parked_init(struct parked *p, struct http_request *req)
{
    p->req = req;
    http_request_on_gone(req, on_gone, p);
}

static void answer_unknown(struct http_request *req, const char *text)
{
    json_t *p = problem_json(
        503, "outcome unknown: the change was not confirmed as durable; it may still take effect. "
             "Look at the object before trying again, or repeat with the same Idempotency-Key");
    json_error_t ignored;
    cleanup_json json_t *would_be = json_loads(text, 0, &ignored);
    const char *id = json_opt_str(would_be, "id", NULL);
    if (id)
        json_put_str(p, "id", id);
    json_put_bool(p, "outcome_unknown", true);
    send_json(req, 503, "application/problem+json", p);
    json_decref(p);
}

static void answer_durable(int result, void *userdata)
{
    struct answer *a = userdata;
    if (a->read && result == -ETIMEDOUT)
        result = 0; // nothing of the caller's depends on it
    if (a->result == 0)
        a->result = result;
    if (--a->waits > 0)
        return;
    if (a->parked.req) {
        http_request_on_gone(a->parked.req, NULL, NULL);
        if (a->result == 0)
            http_respond(a->parked.req, a->status, a->type, a->text, strlen(a->text));
        else
            answer_unknown(a->parked.req, a->text);
    }
    free(a->text);
    free(a);
}

// Answered when what is pending in the store is durable, if `store`, and the audit's lines, if a
// change was made.
static void park(struct call *call, int status, const char *type, char *text, bool store)
{
    struct commit *commit = cluster_commit(call->api->cluster);
    bool audit = call->audited && !audit_synced(call->api->audit);
    struct answer *a = calloc(1, sizeof(*a));
    if (!a || !text) {
        free(a);
        free(text);
        api_problem(call, 503, "out of memory");
        return;
    }
    a->status = status;
    a->type = type;
    a->text = text;
    a->read = call->route && !(call->route->flags & (ROUTE_MUTATES | ROUTE_AUDITED));
    parked_init(&a->parked, call->req);
    a->waits = 1 + store + audit;
    int64_t patience = a->read ? READ_WAIT_MS : ANSWER_WAIT_MS;
    if (store && commit_then(commit, patience, answer_durable, a) < 0)
        answer_durable(-ENOMEM, a);
    if (audit && audit_then(call->api->audit, answer_durable, a) < 0)
        answer_durable(-ENOMEM, a);
    answer_durable(0, a);
}

void api_reply_now(struct call *call, int status, json_t *body)
{
    if (call->route && call->route->flags & ROUTE_AUDITED) {
        audit_changed(call, status, body);
        park(call, status, JSON, json_text(body), false);
    } else {
        send_json(call->req, status, "application/json", body);
    }
    json_decref(body);
}

void api_reply(struct call *call, int status, json_t *body)
{
    char *text = json_text(body);
    json_decref(body);
    api_reply_text(call, status, JSON, text);
}

void api_reply_text(struct call *call, int status, const char *type, char *text)
{
    struct commit *commit = cluster_commit(call->api->cluster);
    const char *reason;
    // While the store is down nothing new is applied: what is in memory is what was accepted, and
    // reads go on.
    if (text && (!commit_pending(commit) || !store_ok(call->api->store, &reason))) {
        http_respond(call->req, status, type, text, strlen(text));
        free(text);
        return;
    }
    park(call, status, type, text, true);
}

void api_reply_changed(struct call *call, int status, json_t *body)
{
    char *text = json_text(body);
    audit_changed(call, status, body);
    json_decref(body);
    if (text)
        idempotency_remember(call->api->idempotency, call, status, text);
    park(call, status, JSON, text, true);
}

// --- reading the request ---

json_t *api_body(struct call *call)
{
    struct err e = {""};
    json_t *j = NULL;
    size_t len;
    const char *data = http_request_body(call->req, &len);
    if (len == 0)
        return json_object();
    if (json_parse(data, len, &j, &e) < 0) {
        api_problem(call, 400, "the body is not JSON: %s", e.text);
        return NULL;
    }
    if (!json_is_object(j)) {
        json_decref(j);
        api_problem(call, 400, "the body is not a JSON object");
        return NULL;
    }
    return j;
}

int api_limit(struct call *call)
{
    return api_limit_to(call, 1000);
}

int api_limit_to(struct call *call, int most)
{
    const char *text = http_request_query(call->req, "limit");
    if (!text)
        return 100;
    char *end;
    long n = strtol(text, &end, 10);
    if (*text == '\0' || *end || n < 1 || n > most) {
        api_problem(call, 400, "limit: expected a number from 1 to %d, found \"%.40s\"", most,
                    text);
        return -1;
    }
    return (int)n;
}

json_t *api_list(json_t *items, const char *next, size_t total)
{
    json_t *j = json_object();
    json_put(j, "items", items);
    json_put_str(j, "next", next);
    json_put_i64(j, "total", (json_int_t)total);
    return j;
}
