// SPDX-License-Identifier: Apache-2.0
// /v1/teams: weights and quotas of teams. Who belongs to one is said of each user.
#include "common/cleanup.h"
#include "common/json.h"
#include "master/api/handlers.h"
#include "master/cluster/quota.h"
#include "master/cluster/team.h"

#include <string.h>

struct listing {
    const struct cluster *c;
    json_t *items;
};

static void add(const struct team *t, void *userdata)
{
    struct listing *l = userdata;
    (void)json_array_append_new(l->items, team_view(l->c, t));
}

void teams_list(struct call *call)
{
    struct listing l = {call->api->cluster, json_array()};
    cluster_teams(l.c, add, &l);
    api_reply(call, 200, api_list(l.items, NULL, json_array_size(l.items)));
}

void teams_show(struct call *call)
{
    struct team t;
    if (cluster_team_find(call->api->cluster, call->params[0], &t))
        api_reply(call, 200, team_view(call->api->cluster, &t));
    else
        api_problem(call, 404, "no team %.64s: no user belongs to it", call->params[0]);
}

static int read_body(const json_t *body, struct team *t, struct err *e)
{
    const char *key;
    const json_t *value;
    int r = 0;
    json_object_foreach ((json_t *)(uintptr_t)body, key, value) {
        if (r < 0)
            break;
        if (strcmp(key, "quota") == 0)
            r = quota_from_json(value, &t->quota, e);
        else if (strcmp(key, "weight") != 0)
            r = err_set(e, -EINVAL, "%.40s: unknown; expected weight or quota", key);
        else if (!json_is_integer(value))
            r = err_set(e, -EINVAL, "weight: expected a whole number of 1 to %d", USER_WEIGHT_MAX);
        else
            t->weight = json_integer_value(value);
    }
    return r;
}

// A team may get its share before its first user comes.
void teams_change(struct call *call)
{
    struct err e = {""};
    struct team t;
    cleanup_json json_t *body = api_body(call);
    if (!body)
        return;
    if (!user_name_ok(call->params[0])) {
        api_problem(call, 422, "team: expected a name as users have");
        return;
    }
    (void)cluster_team_find(call->api->cluster, call->params[0], &t);
    int r = read_body(body, &t, &e);
    if (r == 0)
        r = cluster_team_put(call->api->cluster, &t, &e);
    if (r < 0)
        api_reply_error(call, r, &e);
    else
        api_reply_changed(call, 200, team_view(call->api->cluster, &t));
}

void teams_delete(struct call *call)
{
    if (cluster_team_remove(call->api->cluster, call->params[0]) < 0) {
        api_problem(call, 404, "nothing is set of team %.64s", call->params[0]);
        return;
    }
    json_t *j = json_object();
    json_put_str(j, "name", call->params[0]);
    json_put_bool(j, "deleted", true);
    api_reply_changed(call, 200, j);
}
