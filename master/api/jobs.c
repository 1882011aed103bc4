// SPDX-License-Identifier: Apache-2.0
// /v1/jobs: submit, check, list, show, stop, delete, tasks.
#include "common/cleanup.h"
#include "common/json.h"
#include "common/units.h"
#include "master/api/handlers.h"
#include "master/api/job_checks.h"
#include "master/cluster/dependency.h"
#include "master/cluster/secret.h"
#include "master/scheduler/scheduler.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define WAIT_MAX_MS 300000

static json_t *warnings_json(const struct job_warnings *w)
{
    json_t *a = json_array();
    for (size_t i = 0; i < w->count; i++)
        (void)json_array_append_new(a, json_string(w->items[i]));
    return a;
}

static const char *body_format(struct call *call)
{
    const char *type = http_request_header(call->req, "Content-Type");
    if (!type || strncasecmp(type, "application/json", 16) == 0 ||
        strncasecmp(type, "application/x-www-form-urlencoded", 33) == 0)
        return "json";
    if (strncasecmp(type, "application/yaml", 16) == 0 ||
        strncasecmp(type, "application/x-yaml", 18) == 0 || strncasecmp(type, "text/yaml", 9) == 0)
        return "yaml";
    api_problem(call, 415,
                "Content-Type: expected application/json or application/yaml, found %.80s", type);
    return NULL;
}

// The spec in the body, or answers the problem and returns NULL. *warnings is the caller's in
// either case.
static struct job_spec *read_spec(struct call *call, struct job_warnings *warnings)
{
    struct err e = {""};
    struct job_problems problems = {0};
    struct job_spec *spec = NULL;
    size_t len;
    const char *text = http_request_body(call->req, &len);
    const char *format = body_format(call);

    if (!format)
        return NULL;
    int r = job_spec_parse(text, len, format, http_request_query(call->req, "name"), &spec,
                           &problems, warnings, &e);
    if (r == -EINVAL) {
        json_t *extra = json_object();
        json_put(extra, "errors", job_problems_json(&problems));
        json_put(extra, "warnings", warnings_json(warnings));
        api_problem_with(call, 422, extra, "the job file has %zu mistake%s",
                         problems.count + problems.more,
                         problems.count + problems.more == 1 ? "" : "s");
    } else if (r < 0) {
        api_reply_error(call, r, &e);
    }
    job_problems_free(&problems);
    if (r == 0 && job_checks(call, spec) < 0) {
        job_spec_free(spec);
        return NULL;
    }
    return r < 0 ? NULL : spec;
}

// Answers the problem itself.
static bool has_secrets(struct call *call, const struct job_spec *spec)
{
    const char *missing = cluster_secret_missing(call->api->cluster, spec, call->who.user);
    if (missing)
        api_problem(call, 422,
                    "secrets: %s has no secret \"%s\": make it with `meadow secret set %s`",
                    call->who.user, missing, missing);
    return !missing;
}

void jobs_submit(struct call *call)
{
    struct err e = {""};
    struct job_warnings warnings = {0};
    struct job *j = NULL;
    const char *whose;
    int used = api_disk_percent(call->api, &whose);
    if (used >= cluster_settings(call->api->cluster)->disk_full_percent) {
        api_problem(call, 507,
                    "the disk of the %s is %d %% full: no new jobs are taken until there is "
                    "room in its data folder",
                    whose, used);
        return;
    }
    struct job_spec *spec = read_spec(call, &warnings);
    if (spec && !has_secrets(call, spec)) {
        job_spec_free(spec);
    } else if (spec) {
        int r = cluster_job_submit(call->api->cluster, spec, call->who.user, &j, &e);
        if (r < 0) {
            job_spec_free(spec);
            api_reply_error(call, r, &e);
        } else {
            char location[64];
            json_t *view = job_view(j, false);
            json_put(view, "warnings", warnings_json(&warnings));
            (void)snprintf(location, sizeof(location), "/v1/jobs/%s", j->id);
            http_respond_header(call->req, "Location", location);
            api_reply_changed(call, 201, view);
        }
    }
    job_warnings_free(&warnings);
}

void jobs_plan(struct call *call)
{
    struct err e = {""};
    struct job_warnings warnings = {0};
    json_t *body = NULL;
    struct job_spec *spec = read_spec(call, &warnings);
    if (spec && !has_secrets(call, spec)) {
        job_spec_free(spec);
    } else if (spec) {
        int r = cluster_job_plan(call->api->cluster, spec, call->who.user, &body, &e);
        if (r < 0)
            api_reply_error(call, r, &e);
        else
            api_reply(call, 200, body);
        job_spec_free(spec);
    }
    job_warnings_free(&warnings);
}

void jobs_validate(struct call *call)
{
    struct err e = {""};
    struct job_warnings warnings = {0};
    struct job_spec *spec = read_spec(call, &warnings);
    int r = spec ? scheduler_check_quota(call->api->cluster, spec, call->who.user, &e) : 0;
    if (spec && r == 0)
        r = dependency_check(call->api->cluster, spec, call->who.user, &e);
    if (r < 0)
        api_reply_error(call, r, &e);
    if (spec && (r < 0 || !has_secrets(call, spec))) {
        job_spec_free(spec);
    } else if (spec) {
        json_t *j = json_object();
        json_put(j, "spec", job_spec_to_json(spec));
        json_put(j, "warnings", warnings_json(&warnings));
        api_reply(call, 200, j);
        job_spec_free(spec);
    }
    job_warnings_free(&warnings);
}

#define OVER (JOB_IN(JOB_SUCCEEDED) | JOB_IN(JOB_FAILED) | JOB_IN(JOB_STOPPED))
#define ALL (JOB_IN(JOB_STATE_MAX) - 1)

// 0 = no such word.
static unsigned states_of(const char *word)
{
    enum job_state s;
    if (strcmp(word, "all") == 0)
        return ALL;
    if (strcmp(word, "live") == 0)
        return ALL & ~OVER;
    if (strcmp(word, "over") == 0)
        return OVER;
    return job_state_from_string(word, &s) == 0 ? JOB_IN(s) : 0;
}

static bool filter_read(struct call *call, struct job_filter *f)
{
    const char *state = http_request_query(call->req, "state");
    *f = (struct job_filter){.user = http_request_query(call->req, "user"),
                             .states = states_of(state ? state : "all")};
    if (!f->states)
        api_problem(call, 400, "state: expected live, over, all or a job state, found \"%.40s\"",
                    state);
    return f->states != 0;
}

// Of the array ?array=, by number; `after` is the number of the next one.
static void list_elements(struct call *call, const struct job_filter *f, int limit)
{
    struct cluster *c = call->api->cluster;
    const char *ref = http_request_query(call->req, "array");
    const char *after = http_request_query(call->req, "after");
    struct job *array = cluster_job_find(c, ref, call->who.user);
    array = array ? array : cluster_job_find(c, ref, NULL);
    if (!array || !array->elements) {
        api_problem(call, 404, "no job array %.100s", ref);
        return;
    }
    char *end = NULL, next[24] = "";
    long i = after ? strtol(after, &end, 10) : 0;
    int count = array->spec->array.count;
    if (after && (*end || i < 0)) {
        api_problem(call, 400, "after: expected the `next` of an earlier answer, found \"%.40s\"",
                    after);
        return;
    }
    json_t *items = json_array();
    for (; i < count && json_array_size(items) < (size_t)limit; i++) {
        if (!cluster_element_may_pass(array, (int)i, f))
            continue;
        const struct job *j = cluster_job_element(c, array, (int)i);
        if (j && cluster_job_passes(j, f))
            (void)json_array_append_new(items, api_job_view(call, j, false));
    }
    (void)snprintf(next, sizeof(next), "%ld", i);
    api_reply(call, 200,
              api_list(items, i < count ? next : NULL, cluster_elements_matching(array, f)));
}

#define ROWS "text/tab-separated-values"
#define ROWS_LIMIT 10000 // of a page; each takes less than a microsecond

static bool wants_rows(struct call *call)
{
    const char *accept = http_request_header(call->req, "Accept");
    return accept && strstr(accept, ROWS);
}

// A page of lines, made without a tree of JSON: lists of thousands are made of them.
static void list_rows(struct call *call, struct job *last, const struct job_filter *f, int limit)
{
    struct cluster *c = call->api->cluster;
    struct strbuf b = {0};
    strbuf_puts(&b, JOB_ROW_HEAD);
    struct job *j = cluster_jobs_next(c, last, f);
    for (int n = 0; j && n < limit; n++) {
        job_row(j, api_sees_reason(call, j), &b);
        j = cluster_jobs_next(c, j, f);
    }
    api_reply_text(call, 200, ROWS "; charset=utf-8", strbuf_take(&b));
}

// The last job of the page before; NULL = there was none.
static bool read_after(struct call *call, struct job **ret)
{
    const char *after = http_request_query(call->req, "after");
    *ret = after ? cluster_job_by_id(call->api->cluster, after) : NULL;
    if (after && !*ret)
        api_problem(call, 400, "after: there is no job %.40s (any more): begin again without it",
                    after);
    return !after || *ret;
}

// Newest first; `after` is the id of the last one of the page before.
void jobs_list(struct call *call)
{
    struct cluster *c = call->api->cluster;
    struct job_filter f;
    bool array = http_request_query(call->req, "array");
    bool rows = !array && wants_rows(call);
    int limit = rows ? api_limit_to(call, ROWS_LIMIT) : api_limit(call);
    struct job *last;
    if (limit < 0 || !filter_read(call, &f))
        return;
    if (array) {
        list_elements(call, &f, limit);
        return;
    }
    if (!read_after(call, &last))
        return;
    if (rows) {
        list_rows(call, last, &f, limit);
        return;
    }
    json_t *items = json_array();
    struct job *j = cluster_jobs_next(c, last, &f);
    for (int n = 0; j && n < limit; n++) {
        (void)json_array_append_new(items, api_job_view(call, j, false));
        last = j;
        j = cluster_jobs_next(c, j, &f);
    }
    api_reply(call, 200, api_list(items, j ? last->id : NULL, cluster_jobs_matching(c, &f)));
}

struct show_wait {
    char id[JOB_ID_BYTES];
};

static bool show_ready(struct call *call, void *ctx, bool last)
{
    const struct show_wait *w = ctx;
    struct job *j = cluster_job_find(call->api->cluster, w->id, NULL);
    if (!j) {
        api_problem(call, 404, "the job was deleted");
        return true;
    }
    if (!last && j->state < JOB_SUCCEEDED)
        return false;
    api_reply(call, 200, api_job_view(call, j, true));
    return true;
}

void jobs_show(struct call *call)
{
    struct err e = {""};
    int64_t wait_ms = 0;
    const char *wait = http_request_query(call->req, "wait");
    struct job *j = api_job(call);
    if (!j)
        return;
    if (wait && (units_parse_duration(wait, &wait_ms, &e) < 0 || wait_ms > WAIT_MAX_MS)) {
        api_problem(call, 400, "wait: expected a duration up to 5m (%s)", e.text);
        return;
    }
    if (wait_ms == 0 || j->state >= JOB_SUCCEEDED) {
        api_reply(call, 200, api_job_view(call, j, true));
        return;
    }
    struct show_wait *w = calloc(1, sizeof(*w));
    if (!w) {
        api_problem(call, 503, "out of memory");
        return;
    }
    memcpy(w->id, j->id, sizeof(w->id));
    api_hold(call, wait_ms, show_ready, w);
}

void jobs_stop(struct call *call)
{
    char reason[128];
    struct job *j = api_own_job(call, "stop");
    if (!j)
        return;
    cluster_job_make(call->api->cluster, j);
    (void)snprintf(reason, sizeof(reason), "stopped by %s", call->who.user);
    cluster_job_stop(call->api->cluster, j, call->who.user, reason);
    api_reply_changed(call, 200, job_view(j, false));
}

// Of his own jobs, whoever is no operator.
static bool stop_filter(struct call *call, const json_t *body, struct job_filter *f)
{
    const char *state = json_opt_str(body, "state", "");
    const json_t *user = json_object_get(body, "user");
    if (user && !json_is_string(user)) { // not read as everybody's
        api_problem(call, 422, "user: expected a name, or no such member for everybody's jobs");
        return false;
    }
    *f = (struct job_filter){.user = json_string_value(user), .states = states_of(state) & ~OVER};
    if (!f->states) {
        api_problem(call, 422,
                    "state: expected live or the state of a job that is not over, found \"%.40s\"",
                    state);
        return false;
    }
    if (call->who.role >= ROLE_OPERATOR)
        return true;
    if (f->user && strcmp(f->user, call->who.user) != 0) {
        api_problem(call, 403, "to stop the jobs of %.64s it needs the role operator; you have %s",
                    f->user, role_to_string(call->who.role));
        return false;
    }
    f->user = call->who.user;
    return true;
}

static int64_t longest_grace(const struct job *j)
{
    int64_t longest = 0;
    for (size_t k = 0; k < j->spec->n_components; k++)
        if (j->spec->components[k].grace_ms > longest)
            longest = j->spec->components[k].grace_ms;
    return longest;
}

#define STOP_TASKS 10000 // about as many in one turn of the loop, whatever `limit` says

// A page of them, in one batch.
void jobs_stop_all(struct call *call)
{
    struct cluster *c = call->api->cluster;
    struct job_filter f;
    struct job *last = NULL;
    char reason[128], grace[UNITS_TEXT_BYTES];
    int64_t longest = 0;
    int n = 0, tasks = 0, limit = api_limit(call);
    cleanup_json json_t *body = limit < 0 ? NULL : api_body(call);
    if (!body || !stop_filter(call, body, &f) || !read_after(call, &last))
        return;
    (void)snprintf(reason, sizeof(reason), "stopped by %s", call->who.user);
    struct job *j = cluster_jobs_next(c, last, &f);
    for (; j && n < limit && tasks < STOP_TASKS; n++) {
        int64_t ms = longest_grace(j);
        tasks += j->elements ? j->spec->array.count : j->n_tasks;
        longest = ms > longest ? ms : longest;
        cluster_job_stop(c, j, call->who.user, reason);
        last = j; // over or not, it is where it was
        j = cluster_jobs_next(c, last, &f);
    }
    units_format_duration(longest, grace);
    json_t *answer = json_object();
    json_put_i64(answer, "stopped", n);
    json_put_str(answer, "next", j ? last->id : NULL);
    json_put_str(answer, "grace", grace);
    api_reply_changed(call, 200, answer);
}

static void set_held(struct call *call, const char *verb, bool held)
{
    struct err e = {""};
    struct job *j = api_own_job(call, verb);
    if (!j)
        return;
    cluster_job_make(call->api->cluster, j);
    int r = cluster_job_set_held(call->api->cluster, j, held, call->who.user, &e);
    if (r < 0)
        api_problem(call, 409, "%s", e.text);
    else
        api_reply_changed(call, 200, job_view(j, false));
}

void jobs_hold(struct call *call)
{
    set_held(call, "hold", true);
}

void jobs_release(struct call *call)
{
    set_held(call, "release", false);
}

void jobs_delete(struct call *call)
{
    struct err e = {""};
    struct job *j = api_own_job(call, "delete");
    if (!j)
        return;
    json_t *body = json_object();
    json_put_str(body, "id", j->id);
    json_put_bool(body, "deleted", true);
    int r = cluster_job_delete(call->api->cluster, j, call->who.user, &e);
    if (r < 0) {
        json_decref(body);
        api_reply_error(call, r, &e);
        return;
    }
    api_reply_changed(call, 200, body);
}

void jobs_tasks(struct call *call)
{
    struct job *j = api_own_job(call, "see the tasks of");
    int limit = j ? api_limit(call) : -1;
    if (limit < 0)
        return;
    const char *after = http_request_query(call->req, "after");
    char *end = NULL;
    long from = after ? strtol(after, &end, 10) : 0;
    if (after && (*end || from < 0)) {
        api_problem(call, 400, "after: expected the `next` of an earlier answer, found \"%.40s\"",
                    after);
        return;
    }
    json_t *items = json_array();
    long i = from;
    for (; i < j->n_tasks && i < from + limit; i++)
        (void)json_array_append_new(items, task_view(&j->tasks[i]));
    char next[24];
    (void)snprintf(next, sizeof(next), "%ld", i);
    api_reply(call, 200, api_list(items, i < j->n_tasks ? next : NULL, (size_t)j->n_tasks));
}
