// SPDX-License-Identifier: Apache-2.0
// What the queue knows of users and of running work: weights and quotas from the users' records,
// usage that outlives a restart, and when running tasks end.
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "master/cluster/cluster_internal.h"
#include "master/cluster/user.h"
#include "master/scheduler/scheduler.h"
#include "master/scheduler/scheduler_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// --- when running work ends ---

#define STOPPING_MS INT64_C(1000) // what was told to stop, and should have
#define STUCK_MS INT64_C(60000)   // and has not for so long

int64_t scheduler_bound(const struct cluster *c, const struct job_component *k)
{
    int64_t limit = k->timeout_ms > 0 ? k->timeout_ms : c->options.scheduling.assume_timeout_ms;
    return limit > 0 ? limit + k->grace_ms : 0;
}

bool scheduler_task_stuck(const struct task *t, int64_t now_ms)
{
    bool silent = !t->node || t->node->state == NODE_UNREACHABLE || t->node->state == NODE_LOST;
    return silent || (t->state == TASK_STOPPING && now_ms > t->stop_by_ms + STUCK_MS);
}

static int64_t end_of(const struct cluster *c, const struct task *t, int64_t now_ms)
{
    int64_t bound = scheduler_bound(c, task_component(t));
    int64_t start = t->status->started_ms > 0 ? t->status->started_ms : t->assigned_ms;
    if (scheduler_task_stuck(t, now_ms))
        return PLAN_NEVER;
    if (t->state == TASK_STOPPING) // any moment now
        return t->stop_by_ms > now_ms ? t->stop_by_ms : now_ms + STOPPING_MS;
    // One that should be over and is not says nothing about when it will be.
    return bound > 0 && start + bound > now_ms ? start + bound : PLAN_NEVER;
}

struct plan_running scheduler_running_task(const struct cluster *c, const struct task *t,
                                           int64_t now_ms)
{
    return (struct plan_running){.node = t->node->plan_slot,
                                 .granted = t->granted,
                                 .gpus = t->gpus,
                                 .ports = t->ports,
                                 .n_ports = t->n_ports,
                                 .end_ms = end_of(c, t, now_ms),
                                 .exclusive = task_exclusive(t)};
}

static int add_running(struct cluster *c, size_t *n, const struct task *t, int64_t now_ms)
{
    struct scheduler *s = c->scheduler;
    if (*n == s->running_capacity) {
        size_t capacity = *n ? 2 * *n : 64;
        struct plan_running *list = realloc(s->running, capacity * sizeof(*list));
        if (!list)
            return -ENOMEM;
        s->running = list;
        s->running_capacity = capacity;
    }
    s->running[(*n)++] = scheduler_running_task(c, t, now_ms);
    return 0;
}

int scheduler_running(const struct plan_running **ret, size_t *ret_n, void *userdata)
{
    struct cluster *c = ((const struct turn *)userdata)->c;
    int64_t now_ms = clock_real_ms();
    size_t n = 0;
    int r = 0;
    for (const struct node *x = c->nodes; x && r == 0; x = x->hh.next)
        for (const struct assignment *a = x->assignments; a && r == 0; a = a->hh.next)
            if (a->task && a->task->holds_node && a->task->node == x)
                r = add_running(c, &n, a->task, now_ms);
    *ret = c->scheduler->running;
    *ret_n = n;
    return r;
}

// --- usage records ---

static char *usage_to_record(const struct cluster *c, const char *user,
                             const struct plan_user_state *s)
{
    json_t *j = json_object();
    json_put_str(j, "user", user);
    json_put_i64(j, "cpu", s->usage.used[0]);
    json_put_i64(j, "memory", s->usage.used[1]);
    json_put_i64(j, "gpu", s->usage.used[2]);
    json_put_i64(j, "half_life_ms", c->options.scheduling.half_life_ms);
    json_put_i64(j, "at_ms", s->usage.at_ms);
    char *text = json_dumps(j, JSON_COMPACT);
    json_decref(j);
    return text;
}

#define HEAD_KEY "queue_head"

int scheduler_head_from_record(struct cluster *c, const json_t *j, struct err *e)
{
    struct scheduler *s = c->scheduler;
    const char *id;
    int r = json_get_str(j, "job", &id, e);
    if (r < 0)
        return r;
    (void)snprintf(s->head, sizeof(s->head), "%s", id);
    s->head_since_ms = json_opt_time(j, "since");
    s->head_overdue = json_opt_bool(j, "overdue", false);
    const struct plan_sticky head = {s->head, s->head_since_ms, s->head_overdue};
    plan_queue_restore_head(s->queue, &head, clock_real_ms());
    return 0;
}

// A restarted master keeps the nodes for the same job.
static void collect_head(struct cluster *c)
{
    struct scheduler *s = c->scheduler;
    const struct plan_sticky head = plan_queue_sticky(s->queue);
    bool same = head.id ? strcmp(head.id, s->head) == 0 && head.since_ms == s->head_since_ms &&
                              head.overdue == s->head_overdue
                        : !s->head[0];
    if (c->options.restored || same)
        return;
    (void)snprintf(s->head, sizeof(s->head), "%s", head.id ? head.id : "");
    s->head_since_ms = head.since_ms;
    s->head_overdue = head.overdue;
    if (!head.id) {
        cluster_del(c, HEAD_KEY);
        return;
    }
    cleanup_json json_t *j = json_object();
    json_put_str(j, "job", head.id);
    json_put_time(j, "since", head.since_ms);
    if (head.overdue)
        json_put_bool(j, "overdue", true);
    cluster_put(c, HEAD_KEY, json_text(j), 0);
}

void scheduler_collect(struct cluster *c)
{
    collect_head(c);
    const char *user;
    char key[8 + NAME_BYTES];
    while ((user = plan_queue_next_changed(c->scheduler->queue))) {
        struct plan_user_state s;
        if (c->options.scheduling.half_life_ms <= 0)
            continue;
        plan_queue_user(c->scheduler->queue, user, clock_real_ms(), &s);
        (void)snprintf(key, sizeof(key), "usage:%.63s", user);
        cluster_put(c, key, usage_to_record(c, user, &s), 0);
    }
}

int scheduler_usage_from_record(struct cluster *c, const json_t *j, struct err *e)
{
    const char *user;
    int64_t old = json_opt_i64(j, "half_life_ms", 0), now = c->options.scheduling.half_life_ms;
    struct share_usage u = {
        {json_opt_i64(j, "cpu", 0), json_opt_i64(j, "memory", 0), json_opt_i64(j, "gpu", 0)},
        json_opt_i64(j, "at_ms", 0)};
    int r = json_get_str(j, "user", &user, e);
    if (r < 0)
        return r;
    for (int i = 0; i < SHARE_KINDS; i++)
        if (u.used[i] < 0 || u.at_ms < 0)
            return err_set(e, -EINVAL, "usage of %.63s is below 0", user);
    if (old < SHARE_HALF_LIFE_MIN || now < SHARE_HALF_LIFE_MIN)
        return 0; // accounted otherwise: begins anew
    share_rescale(&u, old, now);
    return plan_queue_load_usage(c->scheduler->queue, user, &u);
}

// --- users ---

void scheduler_user_changed(struct cluster *c, const char *name)
{
    const struct user *u = cluster_user_find(c, name);
    struct plan_account a = {NULL, 1, PLAN_NO_QUOTA};
    if (u)
        a = (struct plan_account){u->team[0] ? u->team : NULL, u->weight, u->quota};
    if (plan_queue_set_user(c->scheduler->queue, name, &a) < 0)
        log_error("scheduler", "out of memory: the quota of %s does not count", name);
    if (!u)
        plan_queue_forget(c->scheduler->queue, name);
}

void scheduler_team_changed(struct cluster *c, const char *name)
{
    struct team t;
    (void)cluster_team_find(c, name, &t);
    if (plan_queue_set_team(c->scheduler->queue, name, t.weight, &t.quota) < 0)
        log_error("scheduler", "out of memory: the quota of team %s does not count", name);
}
