// SPDX-License-Identifier: Apache-2.0
// Whose a job is and who may see what of it. That a job exists, its name, owner, state and size are
// known to everyone with a role, as in most schedulers; what it runs and says is its owner's, and
// the operators'.
#include "common/json.h"
#include "master/api/api.h"
#include "master/api/tokens.h"
#include "master/api/user_keys.h"

#include <string.h>

// Whether what belongs to `user` (NULL = nobody known) is the caller's to see and touch: his own,
// or he is an operator.
static bool owns(const struct call *call, const char *user)
{
    const struct principal *who = &call->who;
    return who->role != ROLE_NODE &&
           (who->role >= ROLE_OPERATOR || (user && strcmp(user, who->user) == 0));
}

struct job *api_job(struct call *call)
{
    const char *ref = call->params[0];
    struct job *j = cluster_job_find(call->api->cluster, ref, call->who.user);
    if (!j)
        j = cluster_job_find(call->api->cluster, ref, NULL);
    if (!j)
        api_problem(call, 404, "no job %.100s: `meadow job list --all` shows what there is", ref);
    return j;
}

struct job *api_own_job(struct call *call, const char *what)
{
    struct job *j = api_job(call);
    if (!j || owns(call, j->user))
        return j;
    api_problem(call, 403, "job %s belongs to %s: to %s it needs the role operator; you have %s",
                j->id, j->user, what, role_to_string(call->who.role));
    return NULL;
}

bool api_sees_reason(const struct call *call, const struct job *j)
{
    return j->state == JOB_PENDING || owns(call, j->user);
}

json_t *api_job_view(const struct call *call, const struct job *j, bool whole)
{
    bool own = owns(call, j->user);
    json_t *view = job_view(j, whole && own);
    if (own)
        return view;
    if (!api_sees_reason(call, j))
        json_put_str(view, "reason", NULL);
    if (whole) {
        json_put(view, "spec", json_null());
        json_put(view, "tasks", json_array());
    }
    json_put_bool(view, "hidden", true);
    return view;
}

json_t *api_event_view(struct api *a, const struct principal *who, const struct event *ev)
{
    const struct call call = {.api = a, .who = *who};
    json_t *view = event_view(ev);
    if (!ev->job[0])
        return view;
    const struct job *j = cluster_job_by_id(a->cluster, ev->job);
    if (!owns(&call, j ? j->user : NULL))
        json_put_str(view, "reason", NULL);
    return view;
}

bool api_still_valid(const struct api *a, const struct principal *who)
{
    const struct user *u = cluster_user_find(a->cluster, who->user);
    if (who->local || who->role == ROLE_NODE)
        return true;
    if (!u || u->disabled || u->role < who->role)
        return false;
    if (who->sealed) {
        struct principal now;
        return user_keys_principal(a->user_keys, who->key_id, &now);
    }
    return !who->token_id[0] || tokens_valid(a->tokens, who->token_id);
}

void api_recheck(struct api *a)
{
    events_recheck(a);
    logs_recheck(a);
    held_recheck(a);
}
