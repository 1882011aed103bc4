// SPDX-License-Identifier: Apache-2.0
// GET /v1/audit: newest first, read by a helper thread (the files may be large). With ?wait= it is
// held until there is an entry after `after`.
#include "common/cleanup.h"
#include "common/json.h"
#include "common/units.h"
#include "master/api/audit.h"
#include "master/api/audit_file.h"
#include "master/api/handlers.h"

#include <stdlib.h>
#include <string.h>

#define WAIT_MAX_MS 300000

struct reading {
    struct api *api;
    struct principal who;
    uv_timer_t timer; // of the wait
    struct audit_watch watch;
    bool held;
    uv_work_t work;
    struct parked parked;
    char *folder;
    unsigned files;
    char user[NAME_BYTES];
    int64_t after, before; // numbers; before 0 = none
    int limit;
    int64_t newest;
    int64_t last; // the last number seen: lines that a rotation shows twice are skipped
    json_t *items;
    bool more;
    int result;
    struct err e;
};

static bool take(char *line, size_t len, void *userdata)
{
    struct reading *x = userdata;
    struct err e = {""};
    json_t *j = NULL;
    if (json_parse(line, len, &j, &e) < 0)
        return true;
    int64_t n = json_opt_i64(j, "n", 0);
    bool wanted = n > 0 && (!x->last || n < x->last) && (!x->before || n < x->before) &&
                  (!x->user[0] || strcmp(json_opt_str(j, "user", ""), x->user) == 0);
    bool over = n > 0 && n <= x->after;
    if (n > x->newest)
        x->newest = n;
    if (n > 0 && (!x->last || n < x->last))
        x->last = n;
    if (wanted && !over && (int)json_array_size(x->items) == x->limit) {
        x->more = over = true;
        wanted = false;
    }
    if (wanted && !over)
        (void)json_array_append(x->items, j);
    json_decref(j);
    return !over;
}

static void read_files(uv_work_t *work)
{
    struct reading *x = work->data;
    x->result = audit_file_scan(x->folder, x->files, take, x, &x->e);
}

static void answer(struct reading *x)
{
    char next[24] = "";
    size_t n = json_array_size(x->items);
    struct call call = {.req = x->parked.req};
    if (x->result < 0) {
        api_problem(&call, 500, "the audit can't be read: %s", x->e.text);
        return;
    }
    if (x->more)
        (void)snprintf(next, sizeof(next), "%lld",
                       (long long)json_opt_i64(json_array_get(x->items, n - 1), "n", 0));
    json_t *list = api_list(json_incref(x->items), x->more ? next : NULL, n);
    json_put_i64(list, "last", x->newest > x->after ? x->newest : x->after);
    api_reply_now(&call, 200, list);
}

static void on_closed(uv_handle_t *handle)
{
    struct reading *x = handle->data;
    json_decref(x->items);
    free(x->folder);
    free(x);
}

static void reading_close(struct reading *x)
{
    if (x->held)
        audit_watch_remove(x->api->audit, &x->watch);
    x->held = false;
    uv_close((uv_handle_t *)&x->timer, on_closed);
}

static void read_done(uv_work_t *work, int status)
{
    struct reading *x = work->data;
    if (x->parked.req) {
        http_request_on_gone(x->parked.req, NULL, NULL);
        if (status < 0)
            x->result = err_errno(&x->e, status, "audit");
        answer(x);
    }
    reading_close(x);
}

static void begin(struct reading *x)
{
    x->work.data = x;
    parked_init(&x->parked, x->parked.req);
    if (uv_queue_work(x->api->settings.loop, &x->work, read_files, read_done) < 0)
        read_done(&x->work, UV_ENOMEM);
}

// --- waiting ---

static void hold_over(struct reading *x)
{
    struct call call = {.req = x->parked.req};
    if (!x->held)
        return;
    audit_watch_remove(x->api->audit, &x->watch);
    x->held = false;
    (void)uv_timer_stop(&x->timer);
    if (api_still_valid(x->api, &x->who)) {
        begin(x);
        return;
    }
    http_request_on_gone(call.req, NULL, NULL);
    api_problem(&call, 401, "the token has been taken away");
    reading_close(x);
}

static void on_line(void *userdata)
{
    hold_over(userdata);
}

static void on_time(uv_timer_t *timer)
{
    hold_over(timer->data);
}

static void on_gone(struct http_request *req, void *userdata)
{
    (void)req;
    reading_close(userdata);
}

static void hold(struct reading *x, int64_t wait_ms)
{
    x->held = true;
    x->watch = (struct audit_watch){.line = on_line, .userdata = x};
    audit_watch_add(x->api->audit, &x->watch);
    http_request_on_gone(x->parked.req, on_gone, x);
    (void)uv_timer_start(&x->timer, on_time, (uint64_t)wait_ms, 0);
}

// ?wait=; answers 400 itself.
static bool read_wait(struct call *call, int64_t *ret_ms)
{
    struct err e = {""};
    const char *text = http_request_query(call->req, "wait");
    *ret_ms = 0;
    if (!text || (units_parse_duration(text, ret_ms, &e) == 0 && *ret_ms <= WAIT_MAX_MS))
        return true;
    api_problem(call, 400, "wait: expected a duration up to 5m");
    return false;
}

// A number >= 0 of the query; answers 400 itself.
static bool number(struct call *call, const char *name, int64_t *ret)
{
    char *end;
    const char *text = http_request_query(call->req, name);
    *ret = 0;
    if (!text)
        return true;
    errno = 0;
    *ret = strtoll(text, &end, 10);
    if (*text && !*end && *ret >= 0 && errno == 0)
        return true;
    api_problem(call, 400, "%s: expected the number of an entry, found \"%.40s\"", name, text);
    return false;
}

static bool read_query(struct call *call, struct reading *x, int64_t *ret_wait_ms)
{
    const char *user = http_request_query(call->req, "user");
    x->limit = api_limit(call);
    if (x->limit < 0 || !number(call, "after", &x->after) || !number(call, "before", &x->before) ||
        !read_wait(call, ret_wait_ms))
        return false;
    (void)snprintf(x->user, sizeof(x->user), "%s", user ? user : "");
    return true;
}

void audit_get(struct call *call)
{
    int64_t wait_ms;
    struct reading *x = calloc(1, sizeof(*x));
    if (!x || !call->api->audit) {
        free(x);
        api_problem(call, 503, "no audit is kept, or out of memory");
        return;
    }
    if (!read_query(call, x, &wait_ms)) {
        free(x);
        return;
    }
    x->api = call->api;
    x->who = call->who;
    x->parked.req = call->req;
    x->folder = strdup(audit_folder(call->api->audit, &x->files));
    x->items = json_array();
    (void)uv_timer_init(call->api->settings.loop, &x->timer);
    x->timer.data = x;
    if (!x->folder || !x->items) {
        api_problem(call, 503, "out of memory");
        reading_close(x);
    } else if (wait_ms > 0 && audit_last(call->api->audit) <= x->after) {
        hold(x, wait_ms);
    } else {
        begin(x);
    }
}
