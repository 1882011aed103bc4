// SPDX-License-Identifier: Apache-2.0
// /v1/nodes: list, show, drain, resume.
#include "common/cleanup.h"
#include "common/json.h"
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
        (void)json_array_append_new(items, node_view(n));
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

void nodes_drain(struct call *call)
{
    struct node *n = nodes_find(call);
    cleanup_json json_t *body = n ? api_body(call) : NULL;
    if (!body)
        return;
    struct err e = {""};
    if (json_opt_bool(body, "off", false) &&
        cluster_node_off(call->api->cluster, n, call->who.user, &e) < 0) {
        api_problem(call, 409, "%s", e.text);
        return;
    }
    cluster_node_set_draining(call->api->cluster, n, true, json_opt_str(body, "reason", ""),
                              call->who.user);
    api_reply_changed(call, 200, node_view(n));
}

void nodes_resume(struct call *call)
{
    struct node *n = nodes_find(call);
    if (!n)
        return;
    cluster_node_set_draining(call->api->cluster, n, false, "", call->who.user);
    api_reply_changed(call, 200, node_view(n));
}
