// SPDX-License-Identifier: Apache-2.0
// Node certificates: verified by TLS, then held against what the node's record says. Refusals carry
// a `code` for the agent and a text for people.
#include "common/clock.h"
#include "common/json.h"
#include "master/api/agents.h"

#include <string.h>

static bool refuse(struct call *call, const char *code, const char *text)
{
    json_t *extra = json_object();
    json_put_str(extra, "code", code);
    api_problem_with(call, 401, extra, "%s", text);
    return false;
}

void agents_refuse_unknown(struct call *call, const char *id)
{
    char text[400], at[CLOCK_TEXT_BYTES];
    const struct gone_node *g = cluster_node_gone(call->api->cluster, id);
    if (!g) {
        (void)snprintf(
            text, sizeof(text),
            "no node %.40s: this cluster's state is older than the node, or the node was "
            "removed long ago; join it again (`meadow node join-command`)",
            id);
        (void)refuse(call, "node_unknown", text);
        return;
    }
    clock_format_ms(g->removed_ms, at);
    (void)snprintf(text, sizeof(text),
                   "node %s was removed from cluster %.64s by %s at %s: its work ends. To have it "
                   "back: `meadow node join-command`",
                   g->name, cluster_name(call->api->cluster), g->user[0] ? g->user : "an operator",
                   at);
    (void)refuse(call, "node_removed", text);
}

static bool refuse_replaced(struct call *call, const struct node *n)
{
    char text[500], at[CLOCK_TEXT_BYTES];
    clock_format_ms(n->identity.cert_since_ms, at);
    (void)snprintf(
        text, sizeof(text),
        "this certificate of node %s (%s) is not valid any more: a newer one is in use "
        "since %s. Either another machine has the name now (`meadow node replace %s` gives "
        "it to one that joins again), or this agent's state was restored from an old one: "
        "remove the folder identity in its state_dir and join again",
        n->name, n->id, n->identity.cert_since_ms ? at : "its join", n->name);
    return refuse(call, "certificate_replaced", text);
}

bool agents_authenticate(struct call *call, const struct http_peer *peer)
{
    struct cluster *c = call->api->cluster;
    struct node *n = cluster_node_by_id(c, peer->cert_cn);
    if (!n) {
        agents_refuse_unknown(call, peer->cert_cn);
        return false;
    }
    bool over = clock_real_ms() > peer->cert_until_ms;
    if (over && (!call->route || call->route->handler != agents_renew))
        return refuse(call, "certificate_expired",
                      "this certificate is over: it can only be renewed (POST /v1/agent/renew)");
    if (!cluster_node_uses(c, n, peer->cert_sha256, peer->cert_until_ms))
        return refuse_replaced(call, n);
    call->who.node = n;
    call->who.role = ROLE_NODE;
    return true;
}
