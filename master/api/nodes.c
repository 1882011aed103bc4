// SPDX-License-Identifier: Apache-2.0
// /v1/nodes: list, show, drain, resume.
#include "common/cleanup.h"
#include "common/json.h"
#include "common/units.h"
#include "master/api/handlers.h"

#include <string.h>

void nodes_list(struct call *call)
{
    struct cluster *c = call->api->cluster;
    enum node_state state = NODE_STATE_MAX;
    int limit = api_limit(call);
    const char *after = http_request_query(call->req, "after");
    const char *text = http_request_query(call->req, "state");
    if (limit < 0)
        return;
    if (text && node_state_from_string(text, &state) < 0) {
        api_problem(call, 400, "state: \"%.40s\" is not a node state", text);
        return;
    }
    struct node *n = cluster_nodes(c);
    if (after) {
        n = cluster_node_by_name(c, after);
        if (!n) {
            api_problem(call, 400,
                        "after: there is no node %.64s (any more): begin again without it", after);
            return;
        }
        n = n->hh.next;
    }
    json_t *items = json_array();
    const char *last = NULL, *next = NULL;
    for (; n; n = n->hh.next) {
        if (state != NODE_STATE_MAX && n->state != state)
            continue;
        if ((int)json_array_size(items) == limit) {
            next = last;
            break;
        }
        last = n->name;
        (void)json_array_append_new(items, node_summary(n));
    }
    api_reply(call, 200, api_list(items, next, cluster_node_count(c)));
}

struct node *nodes_find(struct call *call)
{
    struct node *n = cluster_node_by_name(call->api->cluster, call->params[0]);
    if (!n)
        n = cluster_node_by_id(call->api->cluster, call->params[0]);
    if (!n)
        api_problem(call, 404, "no node %.100s: `meadow node list` shows what there is",
                    call->params[0]);
    return n;
}

void nodes_show(struct call *call)
{
    struct node *n = nodes_find(call);
    if (n)
        api_reply(call, 200, node_view(n));
}

#define DEADLINE_MAX_MS (INT64_C(366) * 86400000)

// Reason and deadline of the body; false: answered.
static bool read_order(struct call *call, const json_t *body, struct drain_order *o)
{
    struct err e = {""};
    const json_t *reason = json_object_get(body, "reason");
    const json_t *deadline = json_object_get(body, "deadline");
    const char *text = json_string_value(deadline);
    o->reason = json_string_value(reason);
    if (reason && (!o->reason || strlen(o->reason) >= REASON_BYTES || strpbrk(o->reason, "\n\r"))) {
        api_problem(call, 422, "reason: expected a text of at most %d bytes in one line",
                    REASON_BYTES - 1);
        return false;
    }
    if (!deadline)
        return true;
    if (text && strcmp(text, "none") == 0) {
        o->deadline_ms = DRAIN_NONE;
        return true;
    }
    if (text && units_parse_duration(text, &o->deadline_ms, &e) == 0 &&
        o->deadline_ms <= DEADLINE_MAX_MS)
        return true;
    api_problem(call, 422,
                "deadline: expected \"none\" or a duration of at most 366 days from now, such as "
                "\"30m\"%s%s",
                e.text[0] ? ": " : "", e.text);
    return false;
}

void nodes_drain(struct call *call)
{
    struct cluster *c = call->api->cluster;
    struct err e = {""};
    struct node *n = nodes_find(call);
    cleanup_json json_t *body = n ? api_body(call) : NULL;
    struct drain_order order = {NULL, DRAIN_KEEP, call->who.user};
    if (!body || !read_order(call, body, &order))
        return;
    int r = json_opt_bool(body, "off", false) ? cluster_node_off(c, n, call->who.user, &e) : 0;
    if (r == 0)
        r = cluster_node_drain(c, n, &order, &e);
    if (r < 0)
        api_reply_error(call, r, &e);
    else
        api_reply_changed(call, 200, node_view(n));
}

void nodes_resume(struct call *call)
{
    struct err e = {""};
    struct node *n = nodes_find(call);
    if (!n)
        return;
    int r = cluster_node_resume(call->api->cluster, n, call->who.user, &e);
    if (r < 0)
        api_reply_error(call, r, &e);
    else
        api_reply_changed(call, 200, node_view(n));
}
