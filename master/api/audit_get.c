// SPDX-License-Identifier: Apache-2.0
// GET /v1/audit: newest first, read by a helper thread (the files may be large).
#include "common/cleanup.h"
#include "common/json.h"
#include "master/api/audit.h"
#include "master/api/audit_file.h"
#include "master/api/handlers.h"

#include <stdlib.h>
#include <string.h>

struct reading {
    uv_work_t work;
    struct parked parked;
    char *folder;
    unsigned files;
    char user[NAME_BYTES];
    int64_t after, before; // numbers; before 0 = none
    int limit;
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
    api_reply_now(&call, 200, api_list(json_incref(x->items), x->more ? next : NULL, n));
}

static void reading_free(struct reading *x)
{
    json_decref(x->items);
    free(x->folder);
    free(x);
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
    reading_free(x);
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

void audit_get(struct call *call)
{
    unsigned files;
    const char *user = http_request_query(call->req, "user");
    struct reading *x = calloc(1, sizeof(*x));
    if (!x || !call->api->audit) {
        free(x);
        api_problem(call, 503, "no audit is kept, or out of memory");
        return;
    }
    x->limit = api_limit(call);
    if (x->limit < 0 || !number(call, "after", &x->after) || !number(call, "before", &x->before)) {
        free(x);
        return;
    }
    (void)snprintf(x->user, sizeof(x->user), "%s", user ? user : "");
    x->folder = strdup(audit_folder(call->api->audit, &files));
    x->files = files;
    x->items = json_array();
    x->work.data = x;
    parked_init(&x->parked, call->req);
    if (!x->folder || !x->items ||
        uv_queue_work(call->api->settings.loop, &x->work, read_files, read_done) < 0) {
        http_request_on_gone(call->req, NULL, NULL);
        reading_free(x);
        api_problem(call, 503, "out of memory");
    }
}
