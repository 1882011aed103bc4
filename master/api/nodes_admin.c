// SPDX-License-Identifier: Apache-2.0
// What operators decide about nodes: approve, replace, labels, orphans, remove.
#include "common/cleanup.h"
#include "common/json.h"
#include "master/api/handlers.h"

#include <string.h>

#define LABELS_MAX 64
#define LABEL_KEY_MAX 63
#define LABEL_VALUE_MAX 255

static void verb(struct call *call,
                 int (*change)(struct cluster *c, struct node *n, const char *user, struct err *e))
{
    struct err e = {""};
    struct node *n = nodes_find(call);
    if (!n)
        return;
    int r = change(call->api->cluster, n, call->who.user, &e);
    if (r < 0)
        api_reply_error(call, r, &e);
    else
        api_reply_changed(call, 200, node_view(n));
}

void nodes_approve(struct call *call)
{
    verb(call, cluster_node_approve);
}

void nodes_replace(struct call *call)
{
    verb(call, cluster_node_replace);
}

void nodes_stop_orphans(struct call *call)
{
    struct node *n = nodes_find(call);
    if (!n)
        return;
    cluster_node_stop_orphans(call->api->cluster, n, call->who.user);
    api_reply_changed(call, 200, node_view(n));
}

// Gone already = done already: whoever repeats a removal after its answer was lost is told so.
void nodes_remove(struct call *call)
{
    struct cluster *c = call->api->cluster;
    const char *ref = call->params[0];
    bool here = cluster_node_by_name(c, ref) || cluster_node_by_id(c, ref);
    const struct gone_node *g = here ? NULL : cluster_node_gone(c, ref);
    if (g) {
        json_t *j = json_object();
        json_put_str(j, "name", g->name);
        json_put_str(j, "id", g->id);
        json_put_str(j, "state", node_state_to_string(NODE_LEFT));
        json_put_str(j, "reason", "removed");
        api_reply(call, 200, j);
        return;
    }
    struct node *n = nodes_find(call);
    if (!n)
        return;
    cluster_node_remove(c, n, call->who.user);
    api_reply_changed(call, 200, node_view(n));
}

static bool key_ok(const char *key)
{
    static const char all[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/";
    size_t len = strlen(key);
    return len > 0 && len <= LABEL_KEY_MAX && strspn(key, all) == len && key[0] != '.' &&
           key[0] != '-' && key[0] != '/';
}

// The labels after the change; NULL when it is answered.
static json_t *merged(struct call *call, const struct node *n, json_t *changes)
{
    const char *key;
    json_t *value;
    json_t *labels = json_copy(n->labels);
    if (!labels) {
        api_problem(call, 503, "out of memory");
        return NULL;
    }
    json_object_foreach (changes, key, value) {
        const char *text = json_string_value(value);
        if (!key_ok(key)) {
            api_problem(call, 422,
                        "labels: \"%.80s\" is not a key: letters, digits, '.', '_', '-', '/', at "
                        "most %d",
                        key, LABEL_KEY_MAX);
        } else if (json_is_null(value)) {
            (void)json_object_del(labels, key);
            continue;
        } else if (!text || strlen(text) > LABEL_VALUE_MAX || strpbrk(text, "\n\r\t")) {
            api_problem(call, 422,
                        "labels.%s: expected a text of at most %d bytes in one line, or null to "
                        "remove it",
                        key, LABEL_VALUE_MAX);
        } else if (strcmp(key, "max_tasks") == 0 &&
                   (strspn(text, "0123456789") != strlen(text) || strlen(text) > 6 ||
                    strspn(text, "0") == strlen(text))) {
            api_problem(call, 422,
                        "labels.max_tasks: expected how many tasks the node gets at most, 1 to "
                        "999999, or null for the cluster's scheduling.node_tasks");
        } else {
            json_put_str(labels, key, text);
            continue;
        }
        json_decref(labels);
        return NULL;
    }
    return labels;
}

void nodes_patch(struct call *call)
{
    struct node *n = nodes_find(call);
    cleanup_json json_t *body = n ? api_body(call) : NULL;
    if (!body)
        return;
    json_t *changes = json_object_get(body, "labels");
    if (!json_is_object(changes) || json_object_size(body) != 1) {
        api_problem(call, 422,
                    "expected {\"labels\": {KEY: VALUE or null}}: nothing else of a node "
                    "can be set here");
        return;
    }
    json_t *labels = merged(call, n, changes);
    if (!labels)
        return;
    if (json_object_size(labels) > LABELS_MAX) {
        json_decref(labels);
        api_problem(call, 422, "labels: more than %d", LABELS_MAX);
        return;
    }
    cluster_node_set_labels(call->api->cluster, n, labels, call->who.user);
    api_reply_changed(call, 200, node_view(n));
}
