// SPDX-License-Identifier: Apache-2.0
// Why a job waits, and what would become of one that were submitted now.
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "master/cluster/cluster_internal.h"
#include "master/cluster/dependency.h"
#include "master/scheduler/scheduler.h"
#include "master/scheduler/scheduler_internal.h"
#include "master/scheduler/scheduler_rules.h"
#include "master/scheduler/trial.h"

#include <stdlib.h>
#include <string.h>

struct asked {
    struct plan_shape shape;
    struct plan_demand *demands;
    struct plan_task *tasks;
    struct plan_job job;
};

static void asked_free(struct asked *a)
{
    free(a->demands);
    free(a->tasks);
}
#define cleanup_asked __attribute__((__cleanup__(asked_free)))

static int ask(struct cluster *c, const struct job *j, struct asked *a)
{
    if (scheduler_sync(c) < 0 || scheduler_shape(c, j, &a->shape, &a->demands) < 0)
        return -ENOMEM;
    a->tasks = calloc(a->shape.n_demands + 1, sizeof(*a->tasks));
    if (!a->tasks)
        return -ENOMEM;
    for (size_t i = 0; i < a->shape.n_demands; i++)
        a->tasks[i].demand = a->demands[i];
    scheduler_images(c, j, a->tasks, a->shape.n_demands);
    a->job = (struct plan_job){.id = j->id,
                               .priority = j->spec->priority,
                               .order = j->order,
                               .alloc = j->spec->alloc,
                               .metric = j->spec->metric,
                               .tasks = a->tasks,
                               .n_tasks = a->shape.n_demands,
                               .rules = rules_of(j)};
    return rules_peers(c, j, &a->job.peers, &a->job.n_peers);
}

// --- waiting jobs ---

static const char *const why_texts[] = {[PLAN_WAIT_NEW] = "next",
                                        [PLAN_WAIT_CAPACITY] = "capacity",
                                        [PLAN_WAIT_QUOTA] = "quota",
                                        [PLAN_WAIT_TEAM] = "team-quota",
                                        [PLAN_WAIT_LEVEL] = "parallel-level",
                                        [PLAN_WAIT_RESERVED] = "reserved"};

// What is more than room.
static void say(struct cluster *c, const struct job *j, const struct plan_shape *shape,
                struct plan_explanation *x, enum plan_wait why, const struct plan_head *head)
{
    struct err e;
    if (why == PLAN_WAIT_QUOTA || why == PLAN_WAIT_TEAM) {
        scheduler_quota_text(c, shape, why == PLAN_WAIT_TEAM, x->summary, sizeof(x->summary));
        if (scheduler_check_quota(c, j->spec, j->user, &e) < 0) // it was lowered
            (void)snprintf(x->summary, sizeof(x->summary), "%s", e.text);
    } else if (why == PLAN_WAIT_LEVEL)
        (void)snprintf(x->summary, sizeof(x->summary),
                       "as many jobs run as scheduling.parallel_level of master.yml allows; it "
                       "starts when one has ended");
    else if (why == PLAN_WAIT_RESERVED && strcmp(x->summary, "fits now") == 0)
        (void)snprintf(x->summary, sizeof(x->summary),
                       "there is room, but it is kept for job %s, which comes first%s",
                       head->id ? head->id : "?",
                       head->strict                   ? " and has waited long"
                       : head->start_ms == PLAN_NEVER ? ", and whose nodes are not all there"
                                                      : "; a shorter `timeout` may help");
}

static json_t *head_json(const struct scheduler *s, const struct plan_head *head)
{
    if (!head->id)
        return json_null();
    json_t *j = json_object();
    json_put_str(j, "job", head->id);
    json_put_time(j, "since", head->since_ms);
    json_put_time(j, "starts_by", head->start_ms == PLAN_NEVER ? 0 : head->start_ms);
    json_put_bool(j, "strict", head->strict);
    json_t *stopping = json_array();
    for (const struct job *x = s->preempting ? s->preemptible : NULL; x; x = x->preempt_next)
        if (x->preempting)
            (void)json_array_append_new(stopping, json_string(x->id));
    json_put(j, "preempting", stopping);
    return j;
}

// Whether "all" of what is free now is more than the quota leaves: _QUOTA or _TEAM, else as it was.
// On the copy, whose closed nodes count if the job keeps to open ones. -ENOMEM.
static int try_within_quota(struct cluster *c, const struct asked *a, struct trial *t,
                            enum plan_wait *why)
{
    struct plan_queue *q = c->scheduler->queue;
    struct plan_refusals refusals = {0};
    struct resources most;
    bool over;
    (void)plan_queue_judge(q, &a->shape, NULL, clock_real_ms(), &most);
    t->job.most = &most;
    int r = plan_try_most(t->index, &refusals, &t->job, &over);
    t->job.most = NULL;
    if (r == 0 && over) {
        struct resources all = plan_granted(&t->job);
        *why = plan_queue_judge(q, &a->shape, &all, clock_real_ms(), NULL);
    }
    return r;
}

static bool wants_all(const struct plan_shape *s)
{
    for (size_t i = 0; i < s->n_demands; i++)
        if (s->demands[i].cpu_all || s->demands[i].memory_all || s->demands[i].gpu_all)
            return true;
    return false;
}

// What the queue says, and for "all" of a node what is behind it. -ENOMEM.
static int wait_of(struct cluster *c, const struct job *j, const struct asked *a,
                   enum plan_wait *ret)
{
    struct trial t = {0};
    const struct kept *k = &c->scheduler->kept;
    *ret = plan_queue_wait(&j->entry);
    if (*ret != PLAN_WAIT_CAPACITY || !wants_all(&a->shape))
        return 0;
    int r = trial_copy(&t, k->nodes, k->n, &a->job);
    if (r == 0)
        r = try_within_quota(c, a, &t, ret);
    trial_free(&t);
    return r;
}

int cluster_job_explain(struct cluster *c, struct job *j, struct plan_explanation *ret,
                        json_t **ret_more)
{
    cleanup_asked struct asked a = {0};
    const struct kept *k = &c->scheduler->kept;
    *ret_more = NULL;
    if (!job_admissible(j))
        return -EALREADY;
    if (ask(c, j, &a) < 0)
        return -ENOMEM;
    if (a.shape.n_demands == 0)
        return -EALREADY;
    enum plan_wait why;
    int r = wait_of(c, j, &a, &why);
    if (r == 0)
        r = plan_explain(k->nodes, k->n, &a.job, ret);
    if (r < 0)
        return r;
    struct plan_head head = plan_queue_head(c->scheduler->queue);
    say(c, j, &a.shape, ret, why, &head);
    int stopping = scheduler_preempting(c->scheduler);
    if (head.id && strcmp(head.id, j->id) == 0 && stopping > 0)
        (void)snprintf(ret->summary, sizeof(ret->summary),
                       "%d job%s of lower priority %s being stopped for it; it starts when they "
                       "have ended",
                       stopping, stopping == 1 ? "" : "s", stopping == 1 ? "is" : "are");
    json_t *more = json_object();
    json_put_str(more, "why", why_texts[why]);
    json_put(more, "reservation", head_json(c->scheduler, &head));
    *ret_more = more;
    return 0;
}

size_t cluster_job_ahead(struct cluster *c, const struct job *j, const char **ret, size_t max)
{
    cleanup_free const struct plan_entry **list = calloc(max, sizeof(struct plan_entry *));
    size_t n = list ? plan_queue_ahead(c->scheduler->queue, &j->entry, list, max) : 0;
    for (size_t i = 0; i < n; i++)
        ret[i] = list[i]->id;
    return n;
}

// --- a job that is not there yet ---

static json_t *placements_json(const struct cluster *c, const struct job *j,
                               const struct plan_job *placed)
{
    json_t *list = json_array();
    for (size_t i = 0; placed->placed && i < placed->n_tasks; i++) {
        const struct plan_task *p = &placed->tasks[i];
        json_t *x = json_object();
        json_put_str(x, "component", task_component(&j->tasks[i])->name);
        json_put_i64(x, "index", j->tasks[i].index);
        json_put_str(x, "node", c->scheduler->kept.nodes[p->node].name);
        (void)json_array_append_new(list, x);
    }
    return list;
}

// Closes on the copy what is closed in the index that is kept.
static void copy_closed(const struct plan_index *from, struct plan_index *to)
{
    for (size_t i = 0; i < to->n; i++)
        (void)plan_index_close(to, i, from->closed[i]);
}

// When one that finds no room starts, and what is stopped for it: known if it becomes the head.
static int foresee(struct cluster *c, const struct plan_job *job, json_t *ret)
{
    struct scheduler *s = c->scheduler;
    struct plan_head head = plan_queue_head(s->queue);
    struct turn turn = {.c = c};
    const struct plan_queue_run run = {.running = scheduler_running,
                                       .victims = scheduler_victims,
                                       .userdata = &turn,
                                       .now_ms = clock_real_ms()};
    struct plan_forecast f = {.start_ms = PLAN_NEVER};
    if (!head.id || job->priority > head.priority) {
        if (plan_queue_foresee(s->kept.index, &run, job, &f) < 0)
            return -ENOMEM;
    }
    json_t *stopped = json_array();
    for (size_t i = 0; i < f.n_stopped; i++)
        (void)json_array_append_new(stopped, json_string(f.stopped[i].id));
    json_put(ret, "stops", stopped);
    if (f.n_stopped > 0) {
        char text[REASON_BYTES];
        (void)snprintf(text, sizeof(text),
                       "%zu job%s of lower priority would be stopped for it; it would start when "
                       "they have ended",
                       f.n_stopped, f.n_stopped == 1 ? "" : "s");
        json_put_str(ret, "summary", text);
    }
    json_put_time(ret, "starts_by", f.start_ms == PLAN_NEVER ? 0 : f.start_ms);
    return 0;
}

static int plan_job_now(struct cluster *c, struct job *j, json_t *ret)
{
    cleanup_asked struct asked a = {0};
    struct trial t = {0};
    struct plan_explanation x = {0};
    const struct kept *k = &c->scheduler->kept;
    if (rules_make(c, j) < 0 || ask(c, j, &a) < 0)
        return -ENOMEM;
    struct plan_queue *q = c->scheduler->queue;
    enum plan_wait why = plan_queue_judge(q, &a.shape, NULL, clock_real_ms(), NULL);
    a.job.open_only = why == PLAN_WAIT_RESERVED;
    int r = trial_copy(&t, k->nodes, k->n, &a.job);
    if (r == 0) {
        copy_closed(k->index, t.index);
        r = try_within_quota(c, &a, &t, &why);
    }
    bool blocked = why == PLAN_WAIT_QUOTA || why == PLAN_WAIT_TEAM || why == PLAN_WAIT_LEVEL;
    bool starts = r == 0 && t.job.placed && !blocked;
    if (r == 0 && !starts)
        r = plan_explain(k->nodes, k->n, &a.job, &x);
    if (r == 0 && !starts) {
        struct plan_head head = plan_queue_head(q);
        say(c, j, &a.shape, &x, why, &head);
    }
    t.job.placed = starts;
    json_put_bool(ret, "starts_now", starts);
    json_put_str(ret, "why", starts ? NULL : why_texts[why ? why : PLAN_WAIT_CAPACITY]);
    json_put_str(ret, "summary", starts ? "it would start now" : x.summary);
    json_put(ret, "placements", placements_json(c, j, &t.job));
    if (r == 0 && !starts && why == PLAN_WAIT_NEW) // room is all that it lacks
        r = foresee(c, &a.job, ret);
    plan_explanation_free(&x);
    trial_free(&t);
    return r;
}

// What other jobs have to say.
static void plan_after(struct cluster *c, const struct job *j, json_t *body)
{
    char text[REASON_BYTES];
    dependency_plan_text(c, j->spec, j->user, text, sizeof(text));
    if (!text[0])
        return;
    json_put_bool(body, "starts_now", false);
    json_put_str(body, "why", "after");
    json_put_str(body, "summary", text);
    json_put(body, "placements", json_array());
}

int cluster_job_plan(struct cluster *c, struct job_spec *spec, const char *user, json_t **ret,
                     struct err *e)
{
    int r = scheduler_check_quota(c, spec, user, e);
    if (r < 0)
        return r;
    struct job *j = job_new(spec, user);
    if (!j)
        return err_set(e, -ENOMEM, "out of memory");
    j->order = INT64_MAX;
    json_t *body = json_object();
    struct job *first = j->elements ? job_new_element(j, 0) : j; // of an array: as the others
    r = dependency_check(c, spec, user, e);
    if (r == 0 && (!first || plan_job_now(c, first, body) < 0))
        r = err_set(e, -ENOMEM, "out of memory");
    if (r == 0)
        plan_after(c, j, body);
    if (first && first != j)
        job_free(first);
    j->spec = NULL; // the caller's
    job_free(j);
    if (r < 0)
        json_decref(body);
    else
        *ret = body;
    return r;
}
