// SPDX-License-Identifier: Apache-2.0
// The local status API. It answers from memory only; nothing can be changed through it.
#include "node-agent/status_api.h"

#include "node-agent/agent_internal.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/http_server.h"
#include "common/json.h"
#include "common/strbuf.h"
#include "proto/version.h"

#include <stdlib.h>
#include <string.h>

struct status_api {
    struct agent *agent; // weak
    struct http_server *server;
};

struct route {
    const char *path;
    void (*handle)(struct agent *a, struct http_request *req);
};

static void answer_json(struct http_request *req, int status, json_t *stolen)
{
    cleanup_json json_t *j = stolen;
    cleanup_free char *text = json_text(j);

    http_respond(req, text ? status : 500, "application/json", text ? text : "",
                 text ? strlen(text) : 0);
}

static void healthz(struct agent *a, struct http_request *req)
{
    bool ok = executor_engine(a->executor) == ENGINE_UP && link_online(a->link);
    json_t *j = json_object();

    json_put_str(j, "status", ok ? "ok" : "degraded");
    json_put_bool(j, "joined", identity_joined(a->identity));
    json_put_str(j, "link", link_state_to_string(link_state(a->link)));
    json_put_bool(j, "master_answers", link_online(a->link));
    json_put_str(j, "link_reason", link_reason(a->link));
    json_put_bool(j, "engine_ok", executor_engine(a->executor) == ENGINE_UP);
    json_put_str(j, "engine_reason", executor_engine_reason(a->executor));
    json_put_str(j, "instance", a->instance);
    json_put_str(j, "version", MEADOW_VERSION);
    answer_json(req, 200, j);
}

static void list_tasks(struct agent *a, struct http_request *req)
{
    json_t *items = json_array();
    json_t *j = json_object();

    for (const struct task *t = tasks_first(a->tasks); t; t = t->hh.next) {
        if (t->remove_asked)
            continue;
        json_t *item = attempt_status_to_json(&t->status);
        json_put_str(item, "job", t->spec ? t->spec->job : NULL);
        json_put_str(item, "job_name", t->spec ? t->spec->job_name : NULL);
        json_put_str(item, "component", t->spec ? t->spec->component : NULL);
        json_put_i64(item, "index", t->spec ? t->spec->index : 0);
        json_put_i64(item, "attempt", t->spec ? t->spec->attempt : 0);
        (void)json_array_append_new(items, item);
    }
    json_put(j, "items", items);
    answer_json(req, 200, j);
}

static void metrics(struct agent *a, struct http_request *req)
{
    cleanup_strbuf struct strbuf out = {0};
    size_t states[ATTEMPT_STATE_MAX] = {0};

    for (const struct task *t = tasks_first(a->tasks); t; t = t->hh.next)
        states[t->status.state] += !t->remove_asked;
    strbuf_puts(&out, "# TYPE meadow_agent_attempts gauge\n");
    for (int i = 0; i < ATTEMPT_STATE_MAX; i++)
        strbuf_printf(&out, "meadow_agent_attempts{state=\"%s\"} %zu\n",
                      attempt_state_to_string((enum attempt_state)i), states[i]);
    strbuf_printf(&out,
                  "# TYPE meadow_agent_starts_under_way gauge\nmeadow_agent_starts_under_way %u\n",
                  executor_starting(a->executor));
    strbuf_printf(&out, "# TYPE meadow_agent_master_up gauge\nmeadow_agent_master_up %d\n",
                  link_online(a->link));
    strbuf_printf(&out, "# TYPE meadow_agent_engine_up gauge\nmeadow_agent_engine_up %d\n",
                  executor_engine(a->executor) == ENGINE_UP);
    if (a->sync && sync_last_answer_ms(a->sync))
        strbuf_printf(&out,
                      "# TYPE meadow_agent_last_answer_seconds gauge\n"
                      "meadow_agent_last_answer_seconds %.3f\n",
                      (double)(clock_mono_ms() - sync_last_answer_ms(a->sync)) / 1000);
    http_respond(req, out.failed ? 500 : 200, "text/plain; version=0.0.4", out.data, out.len);
}

static const struct route routes[] = {
    {"/healthz", healthz}, {"/v1/tasks", list_tasks}, {"/metrics", metrics}};

static void problem(struct http_request *req, int status, const char *title)
{
    json_t *j = json_object();

    json_put_str(j, "title", title);
    json_put_i64(j, "status", status);
    cleanup_free char *text = json_text(j);
    json_decref(j);
    http_respond(req, status, "application/problem+json", text ? text : "",
                 text ? strlen(text) : 0);
}

static void ready(struct http_request *req, void *userdata)
{
    struct status_api *api = userdata;

    for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
        if (strcmp(routes[i].path, http_request_path(req)) != 0)
            continue;
        if (strcmp(http_request_method(req), "GET") == 0)
            routes[i].handle(api->agent, req);
        else
            problem(req, 405, "only GET");
        return;
    }
    problem(req, 404, "no such path");
}

int status_api_start(struct agent *a, struct status_api **ret, struct err *e)
{
    static const struct http_handlers handlers = {.ready = ready};
    char path[160];
    struct status_api *api = calloc(1, sizeof(*api));

    if (!api)
        return err_set(e, -ENOMEM, "out of memory");
    api->agent = a;
    struct http_server_options o = {.loop = a->options.loop,
                                    .handlers = &handlers,
                                    .userdata = api,
                                    .body_limit = 4096,
                                    .header_timeout_ms = 10000,
                                    .body_timeout_ms = 10000,
                                    .idle_timeout_ms = 60000,
                                    .max_connections = 32};
    (void)snprintf(path, sizeof(path), "%s/agent.sock", a->dirs.run);
    int r = http_server_new(&o, &api->server, e);
    if (r == 0)
        r = http_server_listen_unix(api->server, path, 0660, (gid_t)-1, e);
    if (r < 0) {
        status_api_stop(api);
        return r;
    }
    *ret = api;
    return 0;
}

static void server_closed(void *userdata)
{
    free(userdata);
}

void status_api_stop(struct status_api *api)
{
    if (!api)
        return;
    if (api->server)
        http_server_close(api->server, server_closed, api);
    else
        free(api);
}
