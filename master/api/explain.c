// SPDX-License-Identifier: Apache-2.0
// /v1/jobs/{j}/explain: why a job waits.
#include "common/json.h"
#include "master/api/handlers.h"
#include "master/cluster/array.h"
#include "master/cluster/dependency.h"
#include "master/scheduler/plan.h"

static json_t *explanation_json(struct cluster *c, const struct plan_explanation *x)
{
    json_t *blockers = json_array();
    for (size_t i = 0; i < x->n_blockers; i++) {
        json_t *b = json_object();
        json_put_str(b, "resource", x->blockers[i].what);
        json_put_i64(b, "nodes", x->blockers[i].nodes);
        json_put_i64(b, "short_by", x->blockers[i].short_by);
        (void)json_array_append_new(blockers, b);
    }
    json_t *nodes = json_array();
    size_t i = 0;
    for (const struct node *n = cluster_nodes(c); n && i < x->n_reasons; n = n->hh.next, i++) {
        json_t *o = json_object();
        json_t *reasons = json_array();
        if (x->reasons[i].text[0])
            (void)json_array_append_new(reasons, json_string(x->reasons[i].text));
        json_put_str(o, "node", n->name);
        json_put(o, "reasons", reasons);
        (void)json_array_append_new(nodes, o);
    }
    json_t *j = json_object();
    json_put_str(j, "summary", x->summary);
    json_put(j, "blockers", blockers);
    json_put(j, "nodes", nodes);
    json_put_i64(j, "nodes_total", (int64_t)x->n_nodes);
    return j;
}

#define AHEAD_MAX 100

// Waiting jobs that are looked at before this one.
static json_t *ahead(struct cluster *c, const struct job *of)
{
    const char *ids[AHEAD_MAX];
    json_t *a = json_array();
    size_t n = cluster_job_ahead(c, of, ids, AHEAD_MAX);
    for (size_t i = 0; i < n; i++)
        (void)json_array_append_new(a, json_string(ids[i]));
    return a;
}

// Of what keeps it from being looked at: its word, and the text; NULL = nothing does.
static const char *waits_for(const struct job *j, char text[REASON_BYTES])
{
    dependency_text(j->array ? j->array : j, text, REASON_BYTES);
    if (text[0])
        return "after";
    array_text(j, text, REASON_BYTES);
    return text[0] ? "array" : NULL;
}

void jobs_explain(struct call *call)
{
    char text[REASON_BYTES];
    struct plan_explanation x = {0};
    struct cluster *c = call->api->cluster;
    struct job *j = api_own_job(call, "explain");
    if (!j)
        return;
    json_t *more = NULL;
    struct job *of = j->elements && j->elements->next ? j->elements->next : j;
    int r = cluster_job_explain(c, of, &x, &more);
    if (r < 0 && r != -EALREADY) {
        api_problem(call, 503, "out of memory");
        return;
    }
    const char *why = waits_for(j, text);
    json_t *body = r == 0 ? explanation_json(c, &x) : json_object();
    if (r < 0) {
        json_put_str(body, "summary",
                     j->state >= JOB_SUCCEEDED ? "the job is over"
                     : j->held                 ? "it is held: `meadow job release` lets it go on"
                     : j->preempting           ? j->reason
                     : text[0]                 ? text
                                               : "nothing of this job waits for a place");
        bool held = j->state < JOB_SUCCEEDED && (j->held || (j->array && j->array->held));
        if (held || why)
            json_put_str(body, "why", held ? "held" : why);
        json_put(body, "blockers", json_array());
        json_put(body, "nodes", json_array());
        json_put_i64(body, "nodes_total", 0);
    }
    if (more)
        (void)json_object_update(body, more);
    json_decref(more);
    json_put_str(body, "job", j->id);
    json_put_str(body, "state", job_state_to_string(j->state));
    json_put_time(body, "since", j->submitted_ms);
    json_put(body, "ahead", ahead(c, of));
    if (j->after)
        json_put(body, "after", dependency_view(j));
    plan_explanation_free(&x);
    api_reply(call, 200, body);
}
